"""The guards that tests/conftest.py puts up really hold, and tests keep out of the showcase."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_the_network_is_out_of_reach(method: str) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client,
        pytest.raises(pytest.fail.Exception, match="no network"),
    ):
        getattr(client, method)(("192.0.2.1", 80))


def test_a_server_on_this_machine_is_within_reach() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=60) as client,
    ):
        client.sendall(b"x")
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b"x"


def test_user_folders_are_empty_and_not_the_users() -> None:
    for name in ("DUOTAIL_DATA_DIR", "DUOTAIL_CONFIG_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        folder = Path(os.environ[name])
        assert folder.is_dir()
        assert not list(folder.iterdir())
        assert Path.home() not in folder.parents


SCRIPTED = {"engine", "script", "budgets", "hub", "hub_story", "lanes"}
"""Modules of the showcase that make up the scripted engine."""
WITH_COMMANDS = ("test_command_help.py", "test_documents.py")
"""Tests of every command's options, those of the window's measurement too."""


def test_of_the_showcase_tests_import_the_scripted_engine_only() -> None:
    """Scenes and measurements are tested as they are run, in tests/app/showcase."""
    tests, found = Path(__file__).parent, set[str]()
    for path in tests.rglob("*.py"):
        if path.parent.name != "showcase" and path.name not in WITH_COMMANDS:
            text = path.read_text(encoding="utf-8")
            found.update(
                re.findall(r"^ *from app\.showcase(?:\.| import )(\w+)", text, re.MULTILINE)
            )
    assert found <= SCRIPTED
