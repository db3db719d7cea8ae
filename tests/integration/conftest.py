"""Lets integration tests import the helpers beside them (`tiny_model`)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
