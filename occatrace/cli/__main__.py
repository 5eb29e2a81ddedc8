"""`python -m occatrace.cli` does what `occa_prof` does."""

import sys

from occatrace.cli.dispatch import main

sys.exit(main())
