"""`python -m gfcr`."""

import sys

from gfcr.cli import main

if __name__ == "__main__":
    sys.exit(main())
