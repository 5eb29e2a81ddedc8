"""`python -m occatrace` does what `occa_prof` does."""

import sys

from occatrace.entry import main

sys.exit(main())
