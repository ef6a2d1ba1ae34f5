"""`python -m app` is the same as `duotail`."""

from __future__ import annotations

import sys

from app.launch import main

if __name__ == "__main__":
    sys.exit(main())
