"""`python -m distarray COMMAND`; see `distarray.cli`."""

import sys

from distarray.cli import main

if __name__ == "__main__":
    # Not by sys.exit, of which the package takes a code other than 0 for the failure of one rank.
    raise SystemExit(main(sys.argv[1:]))
