"""Run the command line as ``python -m rdmodel``."""

import sys

from rdmodel.cli import main

sys.exit(main())
