"""Makes `python -m holdfast` the same as the command `holdfast`."""

import sys

from holdfast.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
