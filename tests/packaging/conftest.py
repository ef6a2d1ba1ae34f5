"""The set-up scripts are no package: they are imported from their folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "packaging"))


@pytest.fixture(scope="session")
def portable_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """The folder that users get, and its sizes by part."""
    import bundle

    if bundle.LACKS_LINUX or not shutil.which("patchelf"):
        pytest.skip("needs Linux, a compiler and patchelf")
    return bundle.build(tmp_path_factory.mktemp("bundle"))
