"""Crashes: processes that are killed, calls that are cut off, disks that are full.

calls.c, calls    what a program does to files, recorded call by call, and stopped at one of them
disk              what a disk may hold after a crash: the recorded calls replayed up to a cut
program           a small run with checkpoints, to be killed and started again
jobs              starts it on ranks, kills it, and reads what it says
"""
