"""The parts of downloads that need neither a process nor a hub."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from local_hub import git_sha1

from engine.hub.download.cache import (
    CachePlace,
    NoRoom,
    bytes_here,
    bytes_to_come,
    cache_folder,
    distinct,
    make_sure_of_room,
)
from engine.hub.download.jobs import (
    DownloadRules,
    DownloadSpeed,
    JobEntry,
    JobList,
    JobReport,
    JobState,
)
from engine.hub.download.transfer import _begin as begin_of
from engine.hub.download.transfer import at_hub
from engine.hub.download.worker import _link
from engine.hub.download.worker import _make_sure_of_names as make_sure_of_names
from engine.hub.hashes import CheckedFiles, is_right
from engine.hub.messages import Access, Fetch, Job, Packaging, RemoteFile, Wheel
from engine.hub.remote.faults import Fault, HubError, Trouble
from engine.kept_files import read_list, write_list

_SMALL = RemoteFile("config.json", 2, git_sha1=git_sha1(b"{}"))
_LARGE = RemoteFile("model.gguf", 1000, sha256="a" * 64)
_JOB = Job("k", "ann/tiny", "b" * 40, "Q4_0", Packaging.GGUF, (_LARGE, _SMALL))


def test_the_cache_is_where_the_library_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() == Path.home() / ".cache" / "huggingface" / "hub"
    for name, folder in (("XDG_CACHE_HOME", "/x/huggingface/hub"), ("HF_HOME", "/x/hub")):
        monkeypatch.setenv(name, "/x")
        assert cache_folder() == Path(folder)
    monkeypatch.setenv("HF_HOME", "~/hf")
    assert cache_folder() == Path.home() / "hf" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", "/y")
    assert cache_folder() == Path("/y")
    assert cache_folder("/chosen") == Path("/chosen")


def test_a_wheel_needs_a_hash() -> None:
    wheel = Wheel("pair", RemoteFile("m.whl", 9), "m.gguf")
    with pytest.raises(HubError) as error:
        make_sure_of_names(replace(_JOB, wheel=wheel))
    assert error.value.trouble.fault is Fault.UNREADABLE


def test_small_files_come_first_and_equal_ones_once() -> None:
    twin = replace(_SMALL, path="other.json")
    assert [file.blob_name for file in distinct((_LARGE, _SMALL, twin))] == [
        _SMALL.git_sha1,
        _LARGE.sha256,
    ]


def test_bytes_on_the_disk_are_counted(tmp_path: Path) -> None:
    place = CachePlace.of(_JOB, str(tmp_path))
    assert (bytes_here(_JOB, place), bytes_to_come(_JOB, place)) == (0, 1002)
    place.partial(_LARGE).parent.mkdir(parents=True)
    place.partial(_LARGE).write_bytes(bytes(400))
    assert (bytes_here(_JOB, place), bytes_to_come(_JOB, place)) == (400, 602)
    place.blob(_LARGE).write_bytes(bytes(1000))
    assert (bytes_here(_JOB, place), bytes_to_come(_JOB, place)) == (1000, 2)


def test_without_links_the_names_have_the_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows, where links need a right of their own."""

    def refused(*_: object, **__: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refused)
    twin = replace(_SMALL, path="more/other.json")
    place = CachePlace.of(_JOB, str(tmp_path))
    place.blob(_SMALL).parent.mkdir(parents=True)
    place.blob(_SMALL).write_bytes(b"{}")

    _link(_SMALL, place, last=False)
    _link(twin, place, last=True)

    assert [place.link(file).read_bytes() for file in (_SMALL, twin)] == [b"{}", b"{}"]
    assert not place.blob(_SMALL).exists()
    assert place.whole(twin) == place.link(twin)
    _link(twin, place, last=True)  # once more changes nothing
    assert place.link(twin).read_bytes() == b"{}"


def test_room_is_counted_for_all_jobs_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hub.download.cache.free_bytes", lambda _: 5000)
    jobs = [(_JOB, CachePlace(tmp_path, f"ann/tiny-{n}", "b" * 40)) for n in range(3)]

    make_sure_of_room(jobs, reserve=5000 - 3 * 1002)
    with pytest.raises(NoRoom, match=r"needs 1\sbyte more"):
        make_sure_of_room(jobs, reserve=5001 - 3 * 1002)


def test_what_is_all_here_needs_no_room(tmp_path: Path) -> None:
    place = CachePlace.of(replace(_JOB, files=()), str(tmp_path))
    make_sure_of_room([(replace(_JOB, files=()), place)], reserve=1 << 60)


@pytest.mark.parametrize(("data", "right"), [(b"{}", True), (b"[]", False), (b"{} ", False)])
def test_git_s_hash_of_small_files(tmp_path: Path, data: bytes, *, right: bool) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    assert is_right(file, _SMALL) is right
    assert not is_right(file, RemoteFile("config.json", len(data)))  # nothing to compare with


def test_notes_hold_for_the_very_file_only(tmp_path: Path) -> None:
    blob, notes = tmp_path / "blob", tmp_path / "own" / "checked.json"
    blob.write_bytes(b"{}")
    CheckedFiles(notes).add(blob, _SMALL)

    assert CheckedFiles(notes).has(blob, _SMALL)
    assert not CheckedFiles(notes).has(blob, replace(_SMALL, git_sha1="c" * 40))
    blob.write_bytes(b"[] ")
    assert not CheckedFiles(notes).has(blob, _SMALL)
    notes.write_text("{", encoding="utf-8")
    assert not CheckedFiles(notes).has(blob, _SMALL)


@pytest.mark.parametrize(
    ("status", "told", "fault"),
    [
        (200, "", None),
        (206, "bytes 400-999/1000", None),
        (206, "bytes 400-999/*", None),
        (206, "", Fault.UNREADABLE),
        (206, "bytes 400-1999/2000", Fault.CHANGED),
    ],
)
def test_where_a_server_goes_on(status: int, told: str, fault: Fault | None) -> None:
    answer = SimpleNamespace(status_code=status, headers={"Content-Range": told} if told else {})
    if fault is None:
        assert begin_of(answer, _LARGE) == (400 if status == 206 else 0)
        return
    with pytest.raises(HubError) as error:
        begin_of(answer, _LARGE)
    assert error.value.trouble.fault is fault


def test_the_speed_is_that_of_the_last_seconds() -> None:
    speed = DownloadSpeed()
    assert speed.bytes_per_second(0) is None
    speed.add(100.0, 0)
    speed.add(100.5, 500)
    assert speed.bytes_per_second(100.5) is None  # too short to tell
    for second in range(1, 31):
        speed.add(100.0 + second, 1000 * second)
    assert speed.bytes_per_second(130.0) == pytest.approx(1000)
    assert speed.seconds_left(130.0, 5000) == pytest.approx(5)
    for second in range(31, 61):
        speed.add(100.0 + second, 30_000 + 3000 * (second - 30))
    assert speed.bytes_per_second(160.0) == pytest.approx(3000)


def test_nothing_moves() -> None:
    speed = DownloadSpeed()
    for second in range(5):
        speed.add(second, 1000 * second)
    assert speed.bytes_per_second(4.0) == pytest.approx(1000)
    assert speed.bytes_per_second(9.0) == pytest.approx(4000 / 9)  # it takes its time
    assert speed.bytes_per_second(15.0) is None
    assert speed.seconds_left(15.0, 1) is None
    speed.add(16.0, 10)  # a file that begins anew
    assert speed.bytes_per_second(16.0) is None


def test_jobs_are_kept_whole(tmp_path: Path) -> None:
    kept = [
        JobReport(_JOB, JobState.FETCHING, cache="/cache"),
        JobReport(replace(_JOB, key="d", draft_of="k", licence="mit"), JobState.DONE, model="/m"),
        JobReport(
            replace(_JOB, key="f"),
            JobState.FAILED,
            cause="c",
            remedy="r",
            details="d",
            fault="gated",
        ),
    ]
    write_list(tmp_path / "own" / "downloads.json", "jobs", kept)

    assert read_list(tmp_path / "own" / "downloads.json", "jobs", JobReport) == kept
    assert [JobEntry.of(job).interrupted for job in kept] == [True, False, False]


def test_no_token_is_written(tmp_path: Path) -> None:
    jobs = JobList(tmp_path / "downloads.json")
    jobs.add(_JOB, Access("http://user:pw@hub", "hf_secret", "http://me:pw@proxy", str(tmp_path)))
    jobs.save()

    written = (tmp_path / "downloads.json").read_text(encoding="utf-8")
    assert "hf_secret" not in written
    assert "pw@" not in written


@pytest.mark.parametrize("text", ["", "[]", "{", '{"jobs": 3}', '{"jobs": null}', "\udcff"])
def test_an_unreadable_list_is_kept_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "downloads.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")

    assert read_list(path, "jobs", JobReport) == []
    assert not path.exists()
    assert (tmp_path / "downloads.bad").exists()
    assert JobList(path).reports(0.0) == ()


def test_what_one_version_does_not_understand_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "downloads.json"
    write_list(path, "jobs", [JobReport(_JOB, JobState.PAUSED), JobReport(_JOB, JobState.DONE)])
    told = json.loads(path.read_text(encoding="utf-8"))
    told["jobs"][0]["state"] = "dreaming"
    strange = [{}, None, 3, {"job": {}}, {**told["jobs"][1], "job": {"key": 3}}]
    told["jobs"] += strange
    path.write_text(json.dumps(told), encoding="utf-8")

    assert read_list(path, "jobs", JobReport) == [JobReport(_JOB, JobState.DONE)]


def test_the_list_cannot_be_saved(tmp_path: Path) -> None:
    from engine.errors import UserFixable

    (tmp_path / "own").write_text("", encoding="utf-8")
    with pytest.raises(UserFixable, match="could not be saved"):
        JobList(tmp_path / "own" / "downloads.json").save()


def test_pauses_grow_and_a_server_s_word_counts_more(tmp_path: Path) -> None:
    from engine.hub.download.transfer import FileTransfer

    rules = DownloadRules(pauses_s=(1.0, 4.0))
    find = partial(at_hub, Fetch(Access(), _JOB), 1.0)
    transfer = FileTransfer(find, CachePlace.of(_JOB, str(tmp_path)), rules, lambda: None)
    dropped = HubError(Trouble(Fault.DROPPED))
    assert [transfer._pause(dropped, tries) for tries in (1, 2)] == [1.0, 4.0]
    with pytest.raises(HubError):
        transfer._pause(dropped, 3)
    assert transfer._pause(HubError(Trouble(Fault.BUSY, retry_s=7.0)), 1) == 7.0
    for hopeless in (Trouble(Fault.GATED), Trouble(Fault.BUSY, retry_s=900.0)):
        with pytest.raises(HubError):
            transfer._pause(HubError(hopeless), 1)
