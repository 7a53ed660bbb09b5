"""``python -m convexrank``."""

from __future__ import annotations

import sys

from convexrank.cli import main

sys.exit(main())
