"""The command line as a fixture."""

from __future__ import annotations

import pytest
from command_line import Duotail


@pytest.fixture
def duotail(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Duotail:
    return Duotail(capsys, monkeypatch)
