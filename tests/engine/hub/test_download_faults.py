"""Each thing that can go wrong with a download has words of its own."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from download_desk import HASTY, PATIENCE_S, WEIGHTS, Desk, desk
from local_hub import Act

from engine import language
from engine.hub.download.transfer import at_hub
from engine.hub.messages import Fetch, FetchedModel, Refused, RemoteFile

_FILE = "model.safetensors"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with desk(tmp_path, monkeypatch) as at:
        yield at


def _changed(at: Desk) -> None:
    at.model.files[_FILE] = WEIGHTS[::-1]


def _longer(at: Desk) -> None:
    at.model.files[_FILE] = WEIGHTS + b"more"


def _status(status: int, **headers: str) -> Callable[[Desk], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda at: _answer(at, status, named)


def _answer(at: Desk, status: int, headers: dict[str, str]) -> None:
    at.hub.answer(_FILE, status, headers=headers, times=99)


def _drops(at: Desk) -> None:
    at.hub.trap(_FILE, 0, Act.DROP, times=99)


def _hangs(at: Desk) -> None:
    at.hub.trap(_FILE, 0, Act.HANG, times=99)


def _spoilt(at: Desk) -> None:
    at.hub.trap(_FILE, 7, Act.SPOIL)


def _gated(at: Desk) -> None:
    at.model.gated = True


def _gone(at: Desk) -> None:
    del at.model.files[_FILE]


_FAULTS = {
    "dropped": (_drops, "was lost"),
    "timeout": (_hangs, "does not answer"),
    "wrong_bytes": (_spoilt, "differ from those the hub lists"),
    "changed": (_changed, "has changed"),
    "sign_in": (_status(401), "only signed-in users"),
    "gated": (_gated, "terms"),
    "forbidden": (_status(403), "denies access"),
    "not_found": (_gone, "does not exist"),
    "busy": (_status(429, Retry_After="900"), "too many requests"),
    "server": (_status(503), "internal error"),
    "unreadable": (_status(200), "not a model hub"),
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_each_fault_has_its_own_words(at: Desk, fault: str) -> None:
    happen, words = _FAULTS[fault]
    job = at.job()
    happen(at)

    rules = replace(HASTY, pauses_s=())
    refused = at.fetch(job, rules=replace(rules, timeout_s=1.0) if fault == "timeout" else rules)

    assert isinstance(refused, Refused)
    assert (refused.kind, words in refused.cause) == (fault, True), refused
    assert refused.remedy.endswith(".")
    assert not at.is_whole(job)


def test_no_two_faults_share_their_words() -> None:
    assert len({words for _, words in _FAULTS.values()}) == len(_FAULTS)


def test_they_are_said_in_the_language_in_use(at: Desk) -> None:
    at.hub.answer(_FILE, 503, times=99)
    language.use(language.PSEUDO)
    try:
        refused = at.fetch(rules=replace(HASTY, pauses_s=()))
    finally:
        language.use(language.ENGLISH)
    assert isinstance(refused, Refused)
    assert not refused.cause.isascii(), "pseudo has accents everywhere"


def test_a_server_that_is_not_there(at: Desk) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        port = deaf.getsockname()[1]
        access = replace(at.access(), endpoint=f"http://127.0.0.1:{port}")
        refused = at.fetch(access=access)

    assert isinstance(refused, Refused)
    assert (refused.kind, refused.cause) == ("offline", f"127.0.0.1:{port} cannot be reached.")


def test_whoever_is_told_to_wait_long_says_so_and_lets_others_go_first(at: Desk) -> None:
    at.hub.answer(_FILE, 429, headers={"Retry-After": "900"}, times=99)

    refused = at.fetch()

    assert isinstance(refused, Refused)
    assert refused.retry_s == 900
    assert "15 minutes" in refused.remedy
    assert len(at.hub.requests("HEAD", _FILE)) == 1


@pytest.mark.parametrize("change", [_changed, _longer])
def test_what_changes_midway_is_not_mixed(at: Desk, change: Callable[[Desk], None]) -> None:
    trap = at.hub.trap(_FILE, 100_000, Act.HOLD)
    at.hub.trap(_FILE, 100_001, Act.DROP)
    job = at.job()
    started = at.start(job)
    assert trap.reached.wait(PATIENCE_S)
    change(at)
    trap.release()

    refused = list(started.answers())[-1]

    assert isinstance(refused, Refused)
    assert refused.kind == "changed"
    assert at.place(job).whole(job.files[1]) is None


def test_more_bytes_than_were_listed(at: Desk) -> None:
    """A server that has said the right size and sends more."""
    job = at.job()
    at.hub.answer("/cdn/", 200, body=WEIGHTS + b"more")

    refused = at.fetch(job)

    assert isinstance(refused, Refused)
    assert refused.kind == "wrong_bytes"
    assert isinstance(at.fetch(job), FetchedModel)


def test_a_part_that_was_not_asked_for(at: Desk) -> None:
    at.hub.trap(_FILE, 100_000, Act.DROP)
    wrong = f"bytes 5-{len(WEIGHTS) - 1}/{len(WEIGHTS)}"
    assert isinstance(at.fetch(rules=replace(HASTY, pauses_s=())), Refused)
    at.hub.answer("/cdn/", 206, headers={"Content-Range": wrong}, body=WEIGHTS[5:])

    refused = at.fetch()

    assert isinstance(refused, Refused)
    assert refused.kind == "unreadable"
    assert at.weights().read_bytes() == WEIGHTS[:100_000]


@pytest.mark.parametrize(
    "path", ["../out.json", "/etc/out.json", "a/../../out.json", "model.bin", "run.py", "a\\b.json"]
)
def test_names_are_looked_at_once_more(at: Desk, path: str) -> None:
    file = replace(at.model.listed("config.json")[0], path=path)

    refused = at.fetch(replace(at.job(), files=(file,)))

    assert isinstance(refused, Refused)
    assert refused.kind == "unsafe"
    assert at.hub.asked == []
    assert not at.cache.exists()


@pytest.mark.parametrize("job", [{"repo": "../.."}, {"revision": "main"}])
def test_so_are_repositories(at: Desk, job: dict[str, str]) -> None:
    refused = at.fetch(replace(at.job(), **job))  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    assert refused.kind == "unsafe"


def test_a_file_without_a_hash_is_not_taken(at: Desk) -> None:
    files = (RemoteFile("config.json", 23), *at.model.listed(_FILE))
    refused = at.fetch(replace(at.job(), files=files))
    assert isinstance(refused, Refused)
    assert refused.kind == "unreadable"


def test_no_room_says_how_much_is_missing_and_where(at: Desk) -> None:
    refused = at.fetch(rules=replace(HASTY, reserve=1 << 60))

    assert isinstance(refused, Refused)
    assert refused.kind == "disk_full"
    assert "GB more" in refused.cause.replace("\N{NO-BREAK SPACE}", " ")
    assert str(at.cache) in refused.cause
    assert at.hub.asked == []


def test_a_disk_that_fills_up_on_the_way(at: Desk) -> None:
    """/dev/full is a disk that is full; the partial file leads to it."""
    at.weights().parent.mkdir(parents=True)
    at.weights().symlink_to("/dev/full")

    refused = at.fetch()

    assert isinstance(refused, Refused)
    assert refused.kind == "disk_full"
    assert "not enough space" in refused.cause


def test_room_is_looked_at_on_the_way(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others fill the disk, too: what they need stays free."""
    from engine.hub.download import transfer

    free = iter([1 << 40, 10])
    monkeypatch.setattr(transfer, "free_bytes", lambda _: next(free))
    rules = replace(HASTY, reserve=1000, look_every=1000)
    asked = Fetch(at.access(), at.job())
    find = partial(at_hub, asked, rules.timeout_s)
    looked = transfer.FileTransfer(find, at.place(), rules, lambda: None)
    looked._look(999)
    looked._look(1)
    with pytest.raises(transfer.HubError) as error:
        looked._look(1000)
    assert error.value.trouble.fault == "disk_full"


def test_a_file_that_is_too_large_for_its_disk(at: Desk) -> None:
    """As on FAT32; here it is the process that may write so much only."""
    trap = at.hub.trap(_FILE, 100_000, Act.HOLD)
    started = at.start()
    assert trap.reached.wait(PATIENCE_S)
    assert started.pid is not None
    resource.prlimit(started.pid, resource.RLIMIT_FSIZE, (150_000, 150_000))
    trap.release()

    refused = list(started.answers())[-1]

    assert isinstance(refused, Refused)
    assert refused.kind == "disk"
    assert "cannot hold a file" in refused.cause


def test_a_folder_that_cannot_be_written(at: Desk) -> None:
    at.cache.write_text("a file, not a folder", encoding="utf-8")

    refused = at.fetch()

    assert isinstance(refused, Refused)
    assert refused.kind == "disk"
    assert "cannot be written" in refused.cause
    assert str(at.cache) in refused.cause
