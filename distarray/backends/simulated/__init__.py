"""A device without hardware, which checks that work is ordered.

`clocks` counts what comes before what, `overlap` compares ranges of memory, `memory` keeps who
touched which range when, `races` reports who did so in no order, `schedule` has streams and events
and puts work off, `capture` keeps work as graphs, and `driver` offers all that as a `Driver`.
"""
