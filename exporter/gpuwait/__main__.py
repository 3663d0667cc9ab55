"""`python -m gpuwait`."""

import sys

from gpuwait.cli import main

sys.exit(main())
