"""What a server allows, and its token."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keyring
import psutil
import pytest
from keyring.backends.fail import Keyring as NoKeyring
from memory_keyring import Ring

from engine.errors import UserFixable
from engine.server.settings import (
    ServerSettings,
    is_token,
    kept_token,
    network_address,
    new_token,
    token_in,
)


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(NoKeyring())


def test_the_token_is_made_at_the_first_start_and_kept_in_the_keyring(ring: Ring) -> None:
    token, kept = kept_token()
    assert kept
    assert len(token) == 43  # 256 random bits
    assert list(ring.kept.values()) == [token]
    assert kept_token() == (token, True)


@pytest.mark.usefixtures("ring")
def test_a_new_token_takes_the_place_of_the_old_one() -> None:
    old, _ = kept_token()
    new, kept = new_token()
    assert kept
    assert new != old
    assert kept_token() == (new, True)


def test_what_somebody_else_put_there_is_no_token(ring: Ring) -> None:
    token, _ = kept_token()
    for place in list(ring.kept):
        ring.kept[place] = "not a token\n"
    assert kept_token()[0] not in (token, "not a token\n")


@pytest.mark.parametrize("locked", [True, False])
def test_without_a_keyring_the_token_is_new_each_time(ring: Ring, locked: bool) -> None:
    ring.locked = locked
    if not locked:
        keyring.set_keyring(NoKeyring())
    first, second = kept_token(), kept_token()
    assert first[0] != second[0]
    assert (first[1], second[1]) == (False, False)


def test_the_token_is_in_no_repr() -> None:
    assert "secret" not in repr(ServerSettings(token="a-secret-token-of-mine"))


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(host="0.0.0.0"),  # noqa: S104 - refused
        ServerSettings(host="::"),
        ServerSettings(host="192.168.1.5"),
        ServerSettings(host="my-pc"),
        ServerSettings(host="192.168.1.5", token="short"),
        ServerSettings(token=""),
        ServerSettings(token="with blanks in it"),
        ServerSettings(token="naïve"),
        ServerSettings(token="x" * 401),
        ServerSettings(certificate=Path("/nowhere/certificate.pem")),
    ],
)
def test_what_would_be_open_or_unusable_is_refused(settings: ServerSettings) -> None:
    with pytest.raises(UserFixable):
        settings.check()


@pytest.mark.parametrize(
    "settings",
    [
        ServerSettings(),
        ServerSettings(host="::1"),
        ServerSettings(host="localhost", token="a"),
        ServerSettings(host="127.0.0.5"),
        ServerSettings(host="0.0.0.0", token="x" * 16),  # noqa: S104 - with a token
    ],
)
def test_what_is_safe_is_taken(settings: ServerSettings) -> None:
    settings.check()


def test_in_the_network_the_server_has_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = {"eth0": [SimpleNamespace(family=socket.AF_INET, address="192.168.1.5")]}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: cards)
    monkeypatch.setattr(socket, "gethostname", lambda: "My-PC")
    local = ServerSettings(hosts=frozenset({"Model.Example"})).allowed_hosts()
    assert local == {"localhost", "127.0.0.1", "::1", "model.example"}
    lan = ServerSettings(host="0.0.0.0", token="x" * 16).allowed_hosts()  # noqa: S104
    assert lan - local == {"0.0.0.0", "192.168.1.5", "my-pc", "my-pc.local"}  # noqa: S104
    assert local - lan == {"model.example"}


def test_the_address_in_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    class Probe(contextlib.nullcontext[None]):
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Any:
            return self

        def connect(self, _: object) -> None:
            if not there:
                raise OSError("the network is unreachable")

        def getsockname(self) -> tuple[str, int]:
            return "192.168.1.5", 40000

    monkeypatch.setattr(socket, "socket", Probe)
    for there in (True, False):
        assert network_address() == ("192.168.1.5" if there else "127.0.0.1")


def test_tokens() -> None:
    assert is_token("abc-123_~!")
    assert not any(map(is_token, ("", "a b", "a\n", "ü", "x" * 401)))


def test_without_a_keyring_the_token_is_in_a_file_of_its_owner(tmp_path: Path) -> None:
    token, kept = kept_token(tmp_path)
    assert kept
    (file,) = tmp_path.iterdir()
    if os.name == "posix":
        assert file.stat().st_mode & 0o777 == 0o600
    assert kept_token(tmp_path) == (token, True)
    assert token_in(file) == token
    new, _ = new_token(tmp_path)
    assert new != token
    assert kept_token(tmp_path) == (new, True)
    with pytest.raises(UserFixable):
        token_in(tmp_path / "missing")
