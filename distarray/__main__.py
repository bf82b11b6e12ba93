"""`python -m distarray COMMAND`; see `distarray.cli`."""

import sys

from distarray.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
