"""Lists of versions from a server on this computer, whole and broken; files that are checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import updates
from engine.errors import Cancelled, UserFixable
from engine.updates import Release, fetch, newer
from tests.releases import FILE, Releases, serving


@pytest.fixture
def server() -> Iterator[Releases]:
    with serving() as server:
        yield server


def release(server: Releases, **told: str) -> Release:
    server.publish("3.0", **told)
    found = newer(server.address, "1.0")
    assert found is not None
    return found


def get(found: Release, folder: Path, *, stop: bool = False) -> Path:
    file = found.file(".AppImage")
    assert file is not None
    return fetch(file, folder, lambda _bytes: None, lambda: stop)


def test_a_newer_version_comes_with_the_changes_since(server: Releases) -> None:
    found = release(server)
    assert (found.version, found.changes) == (
        "3.0",
        "## [3.0] - today\n\n- three\n\n## [2.0]\n\n- two",
    )
    assert found.file(".deb") is None
    assert found.file("") is None
    assert server.asked == ["/list.json"], "no file is fetched with the list"


@pytest.mark.parametrize("here", ["3.0", "3.0.0", "3.0.post1", "3.1", "10.0", "development"])
def test_the_same_or_an_older_one_is_none(server: Releases, here: str) -> None:
    server.publish("3.0")
    assert newer(server.address, here) is None


def test_a_final_version_is_newer_than_its_candidates(server: Releases) -> None:
    server.publish("3.0")
    assert newer(server.address, "3.0rc1") is not None


@pytest.mark.parametrize(
    "page",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"info": 1}', b'{"info": {}}',
     b'{"info": {"version": "many"}}', b'{"info": {"version": 3}}'],
)  # fmt: skip
def test_what_is_no_list_is_told_in_words(server: Releases, page: bytes) -> None:
    server.pages["/list.json"] = page
    with pytest.raises(UserFixable, match="list of versions cannot be read"):
        newer(server.address, "1.0")


def test_an_endless_list_is_not_read_to_its_end(
    server: Releases, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.publish("3.0")
    monkeypatch.setattr(updates, "_LARGEST_LIST", 100)
    with pytest.raises(UserFixable) as failed:
        newer(server.address, "1.0")
    assert failed.value.details == "more than 100 bytes"


@pytest.mark.parametrize(
    "address",
    ["http://updates.example/list.json", "ftp://127.0.0.1/list.json", "file:///etc/passwd", ""],
)
def test_nobody_is_asked_without_encryption(server: Releases, address: str) -> None:
    with pytest.raises(UserFixable) as failed:
        newer(address, "1.0")
    assert failed.value.details.startswith("refused")
    server.moved["/list.json"] = address or "http://updates.example/"
    with pytest.raises(UserFixable) as failed:
        newer(server.address, "1.0")
    assert failed.value.details.startswith("refused")


def test_redirections_are_followed_a_few_times(server: Releases) -> None:
    server.publish("3.0")
    server.pages["/there.json"] = server.pages["/list.json"]
    server.moved["/list.json"] = "/there.json"
    assert newer(server.address, "1.0") is not None
    server.moved["/list.json"] = "/list.json"
    with pytest.raises(UserFixable) as failed:
        newer(server.address, "1.0")
    assert failed.value.details == "too many redirections"


def test_without_a_network_or_a_list_there_are_words() -> None:
    with serving() as server:
        address = server.address
        with pytest.raises(UserFixable) as failed:
            newer(address, "1.0")
        assert failed.value.details == "HTTP 404"
    with pytest.raises(UserFixable, match=r"127.0.0.1 cannot be reached"):
        newer(address, "1.0")


@pytest.mark.parametrize(
    ("key", "value"),
    [("filename", "../../bin/sh"), ("filename", ".bashrc"), ("filename", 3), ("size", -1),
     ("size", 1 << 60), ("digests", {}), ("digests", {"sha256": "ab"}), ("url", None)],
)  # fmt: skip
def test_files_that_cannot_be_checked_are_left_out(key: str, value: object) -> None:
    told = {"filename": "a.deb", "url": "a.deb", "size": 3, "digests": {"sha256": "a" * 64}}
    assert updates._file(told, "https://a.example/list.json") is not None
    assert updates._file(told | {key: value}, "https://a.example/list.json") is None


def test_a_file_is_checked_and_stays_beside_others(server: Releases, tmp_path: Path) -> None:
    found = release(server)
    (tmp_path / "duotail-3.0.AppImage").write_text("mine")
    path = get(found, tmp_path)
    assert path.read_bytes() == FILE
    assert path.name == "2-duotail-3.0.AppImage"
    assert (tmp_path / "duotail-3.0.AppImage").read_text() == "mine"
    assert not path.stat().st_mode & 0o111, "nobody runs it by accident"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("other", [b"evil" + FILE[4:], FILE + b"more", FILE[:-1], b""])
def test_another_file_than_the_published_one_is_deleted(
    server: Releases, tmp_path: Path, other: bytes
) -> None:
    found = release(server)
    server.pages["/duotail-3.0.AppImage"] = other
    with pytest.raises(UserFixable, match="not the one that was published"):
        get(found, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_stopped_download_leaves_nothing(server: Releases, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        get(release(server), tmp_path, stop=True)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_told(server: Releases, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserFixable, match="cannot be written"):
        get(release(server), tmp_path / "file")


def test_the_projects_own_changelog_is_understood() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
    told = changelog.replace("## [Unreleased]", "## [0.1.0] - today", 1)
    now, newest = updates._version("0.0.1"), updates._version("0.1.0")
    assert now is not None
    assert newest is not None
    assert updates._changes(told, now, newest).startswith("## [0.1.0] - today")
