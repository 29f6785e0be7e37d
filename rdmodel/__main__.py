"""`python -m rdmodel` is `rdmodel`."""

import sys

from rdmodel.cli import main

sys.exit(main())
