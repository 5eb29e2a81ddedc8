"""What `advice` says of programs with one planted problem each, and of programs without one (tests/diagnosis)."""

import subprocess
import sys
from pathlib import Path

sys.exit(subprocess.call([sys.executable, "-m", "tests.diagnosis"], cwd=Path(__file__).resolve().parents[2]))
