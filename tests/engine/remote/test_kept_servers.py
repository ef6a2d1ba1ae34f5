"""The file of servers, and their keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_keyring import Ring

from engine.commands import Connect, ServerKind
from engine.remote.catalogue import RemoteModel
from engine.remote.servers import KeptServers, RemoteServer, ServerKeys, read, write

FAR = RemoteServer("https://example.org/v1", ServerKind.VLLM, (RemoteModel("m", 4096),))
NEAR = RemoteServer("http://localhost:1/v1", ServerKind.OLLAMA, (RemoteModel("n"),), agreed=True)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    kept = KeptServers().having(FAR).having(NEAR)
    write(tmp_path / "new" / "servers.json", kept)
    assert read(tmp_path / "new" / "servers.json") == kept


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": 2, "servers": []}', b"\xff"])
def test_a_damaged_file_begins_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "servers.json").write_bytes(content)
    assert read(tmp_path / "servers.json") == KeptServers()


def test_a_server_is_there_once_and_goes_whole() -> None:
    tested = RemoteServer(FAR.url, ServerKind.SGLANG)
    kept = KeptServers(url=FAR.url, model="m").having(FAR).having(NEAR).having(tested)
    assert kept.servers == (tested, NEAR)
    assert kept.without(FAR.url) == KeptServers(servers=(NEAR,))


def test_the_last_model_comes_back_only_where_the_user_has_agreed() -> None:
    near = KeptServers(servers=(NEAR,), url=NEAR.url, model="n")
    assert near.last == Connect(NEAR.url, "n", ServerKind.OLLAMA)
    assert KeptServers(servers=(FAR,), url=FAR.url, model="m").last is None
    assert KeptServers(servers=(NEAR,), url=NEAR.url, model="gone").last is None


def test_keys_are_in_the_keyring_or_end_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Ring()
    monkeypatch.setattr("engine.machine.keyring.system_keyring", lambda: ring)
    keys = ServerKeys()
    assert keys.keep(FAR.url, "k1")
    assert ServerKeys().key(FAR.url) == "k1"
    assert keys.keep(FAR.url, "")
    assert ServerKeys().key(FAR.url) is None
    monkeypatch.setattr("engine.machine.keyring.system_keyring", lambda: None)
    assert not keys.keep(FAR.url, "k2")
    assert (keys.key(FAR.url), ServerKeys().key(FAR.url)) == ("k2", None)
