"""`python -m assetsync`: the same as the command `assetsync`."""

import sys

from assetsync.cli import main

if __name__ == "__main__":
    sys.exit(main())
