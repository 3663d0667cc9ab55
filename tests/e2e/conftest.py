"""`paging` in this folder holds no tests and is imported by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
