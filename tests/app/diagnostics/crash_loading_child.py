"""A window whose process dies while the model loads, as it would in a native crash."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from app.application import Assembly, make_application
from app.data_folder.paths import find_paths
from app.theme.theme import Theme


def die() -> Path:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("not reached")


application = make_application()
assembly = Assembly(find_paths(sys.argv[1]), Theme(application))
assembly.start(die)
application.exec()
