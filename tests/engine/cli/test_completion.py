"""Scripts that have shells complete commands and options."""

from __future__ import annotations

import subprocess

import pytest
from command_line import Duotail


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(duotail: Duotail, shell: str) -> None:
    script = duotail("completion", shell).out
    for word in ("chat", "download", "ps", "--max-tokens", "dovetail"):
        assert word.removeprefix("--") in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
