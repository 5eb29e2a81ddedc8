"""`python -m occatrace.cli` does what `occa_prof` does."""

import sys

from occatrace.entry import main

sys.exit(main())
