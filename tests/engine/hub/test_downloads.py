"""The queue of downloads, with real processes and a real hub."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from download_desk import HASTY, PATIENCE_S, WEIGHTS, Desk, Heard, desk
from local_hub import Act, Trap

from engine.hub.download.cache import NoRoom
from engine.hub.download.jobs import DownloadRules, JobReport, JobState
from engine.hub.download.queue import Downloads

_WINDOW = """
import sys
from pathlib import Path
from engine.hub.messages import Job
from engine.hub.download.queue import Downloads
from engine.hub.messages import Access, Packaging, RemoteFile
if __name__ == "__main__":
    endpoint, cache, folder, revision, nbytes, sha256 = sys.argv[1:]
    downloads = Downloads(Path(folder), lambda reports: None)
    file = RemoteFile("model.safetensors", int(nbytes), sha256=sha256)
    job = Job("k", "ann/tiny", revision, "BF16", Packaging.SAFETENSORS, (file,))
    downloads.add([job], Access(endpoint, cache=cache))
    sys.stdin.read()
"""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with desk(tmp_path, monkeypatch) as at:
        yield at


@pytest.fixture
def open_downloads(at: Desk) -> Iterator[Callable[..., tuple[Downloads, Heard]]]:
    """Opens the list of downloads of one folder; more than once, where the program was ended."""
    opened: list[Downloads] = []

    def open_one(rules: DownloadRules = HASTY) -> tuple[Downloads, Heard]:
        heard = Heard()
        opened.append(Downloads(at.folder, heard, rules))
        return opened[-1], heard

    yield open_one
    for downloads in opened:
        downloads.close()


Open = Callable[..., tuple[Downloads, Heard]]


def test_a_job_goes_from_waiting_to_done(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    assert downloads.reports() == ()

    downloads.add([at.job()], at.access())

    (last,) = heard.until(_all(JobState.DONE))
    assert (last.done, last.model) == (last.job.nbytes, str(at.place().snapshot))
    assert at.is_whole()
    states = [reports[0].state for reports in heard.all]
    assert states.count(JobState.DONE) == 1
    assert {JobState.FETCHING, JobState.CHECKING} <= set(states)
    assert downloads.reports() == (last,)


def test_one_after_the_other(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    others = [at.publish(f"ann/other-{n}") for n in range(3)]
    downloads.add([at.job(model) for model in others], at.access())
    heard.until(_all(JobState.DONE))

    for reports in heard.all:
        assert sum(each.state in (JobState.FETCHING, JobState.CHECKING) for each in reports) <= 1
    came = [asked.path.split("/")[2] for asked in at.hub.requests("HEAD")]
    assert came == sorted(came)


def test_pause_and_resume_send_no_byte_twice(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    trap = _hang(at, 100_000)
    downloads.add([at.job()], at.access())
    _wait_for(trap, at)

    downloads.pause("ann/tiny")
    (report,) = heard.until(_all(JobState.PAUSED))
    assert report.bytes_per_second is None
    assert at.weights().stat().st_size == 100_000
    downloads.resume("ann/tiny", at.access())

    heard.until(_all(JobState.DONE))
    assert at.is_whole()
    assert at.served() == len(WEIGHTS)


def test_others_go_on_while_one_is_paused(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    other = at.job(at.publish("ann/other"))
    trap = _hang(at, 100_000)
    downloads.add([at.job(), other], at.access())
    _wait_for(trap, at)

    downloads.pause("ann/tiny")

    heard.until(lambda reports: reports[1].state is JobState.DONE)
    assert [report.state for report in downloads.reports()] == [JobState.PAUSED, JobState.DONE]


def test_cancelling_takes_what_nobody_else_needs(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    trap = _hang(at, 100_000)
    downloads.add([at.job()], at.access())
    _wait_for(trap, at)

    downloads.cancel("ann/tiny")

    heard.until(lambda reports: reports == ())
    _until(lambda: not (at.cache / at.place().name / "blobs").exists())
    assert not at.is_whole()
    downloads.add([at.job()], at.access())  # and may be fetched once more
    heard.until(_all(JobState.DONE))
    assert at.is_whole()


def test_a_program_that_ends_takes_away_what_was_cancelled(at: Desk, open_downloads: Open) -> None:
    downloads, _ = open_downloads()
    trap = _hang(at, 100_000)
    downloads.add([at.job()], at.access())
    _wait_for(trap, at)

    downloads.cancel("ann/tiny")
    downloads.close()

    assert not at.weights().exists()


def test_cancelling_leaves_what_another_job_needs(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    trap = _hang(at, 100_000)
    same = replace(at.job(), key="same")
    downloads.add([at.job(), same], at.access())
    _wait_for(trap, at)
    downloads.pause("same")

    downloads.cancel("ann/tiny")

    heard.until(lambda reports: [one.job.key for one in reports] == ["same"])
    downloads.resume("same", at.access())
    heard.until(_all(JobState.DONE))
    assert at.is_whole()
    assert at.served() == len(WEIGHTS)


def test_a_model_that_is_here_survives_a_cancelled_job(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    assert at.fetch() is not None
    downloads.add([at.job()], at.access())
    heard.until(_all(JobState.DONE))
    failed = replace(at.job(), key="again", revision="0" * 40)
    downloads.add([failed], at.access())
    heard.until(lambda reports: reports[-1].state is JobState.DONE)  # all its bytes are here

    for key in ("again", "ann/tiny"):
        downloads.cancel(key)
    heard.until(lambda reports: reports == ())
    assert at.is_whole()


def test_the_list_outlives_the_program(at: Desk, open_downloads: Open) -> None:
    downloads, _ = open_downloads()
    trap = _hang(at, 100_000)
    paused = at.job(at.publish("ann/paused"))
    downloads.add([at.job(), paused], at.access())
    downloads.pause("ann/paused")
    _wait_for(trap, at)
    downloads.close()

    again, heard = open_downloads()
    first, second = again.reports()
    assert (first.state, second.state) == (JobState.PAUSED, JobState.PAUSED)
    assert (first.job, second.job) == (at.job(), paused)
    assert first.done >= 100_000
    again.go_on(at.access())  # only what the user has not paused

    heard.until(lambda reports: reports[0].state is JobState.DONE)
    assert again.reports()[1].state is JobState.PAUSED
    assert at.served() == len(WEIGHTS)
    assert at.is_whole()


def test_done_is_remembered(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    downloads.add([at.job()], at.access())
    done = heard.until(_all(JobState.DONE))
    downloads.close()

    again, _ = open_downloads()
    assert again.reports() == done


def test_what_a_user_must_mend_is_said_and_tried_again_on_demand(
    at: Desk, open_downloads: Open
) -> None:
    downloads, heard = open_downloads()
    gated = at.publish("ann/gated", gated=True)
    at.hub.tokens = {"good": {"ann/gated"}}
    downloads.add([at.job(gated)], at.access())

    (failed,) = heard.until(_all(JobState.FAILED))
    assert failed.fault == "gated"
    assert "terms" in failed.cause
    assert failed.remedy
    downloads.resume("ann/gated", at.access("good"))
    (done,) = heard.until(_all(JobState.DONE))
    assert (done.cause, done.remedy, done.fault) == ("", "", "")


def test_what_passes_is_tried_again_by_itself(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads(replace(HASTY, pauses_s=()))
    at.hub.answer("model.safetensors", 407, times=2)  # a proxy that lets nobody through
    downloads.add([at.job()], at.access())

    heard.until(_all(JobState.DONE))

    waited = {each.cause for (each,) in heard.all if each.fault == "offline"}
    assert waited == {f"{at.hub.url.removeprefix('http://')} cannot be reached."}
    assert at.is_whole()


def test_a_user_need_not_wait_for_that(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads(replace(HASTY, pauses_s=()))
    at.hub.answer("model.safetensors", 503, headers={"Retry-After": "3600"})
    downloads.add([at.job()], at.access())
    heard.until(lambda reports: reports[0].fault == "server")
    assert downloads.reports()[0].state is JobState.WAITING

    downloads.resume("ann/tiny", at.access())

    heard.until(_all(JobState.DONE))
    assert at.is_whole()


def test_a_process_that_dies_is_started_again(at: Desk, open_downloads: Open) -> None:
    downloads, heard = open_downloads()
    trap = _hang(at, 100_000)
    downloads.add([at.job()], at.access())
    _wait_for(trap, at)
    assert downloads._running is not None
    assert downloads._running.pid is not None

    os.kill(downloads._running.pid, signal.SIGKILL)

    heard.until(_all(JobState.DONE))
    assert at.is_whole()
    assert at.served() == len(WEIGHTS)


def test_a_process_that_only_dies_is_given_up(
    at: Desk, open_downloads: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads, heard = open_downloads(replace(HASTY, deaths=2))
    monkeypatch.setattr("engine.hub.download.worker.run", _die)
    downloads.add([at.job()], at.access())

    (failed,) = heard.until(_all(JobState.FAILED))
    assert "stopped unexpectedly" in failed.cause


def test_downloads_go_on_though_a_listener_fails(at: Desk) -> None:
    heard = Heard()

    def listener(reports: tuple[JobReport, ...]) -> None:
        heard(reports)
        raise RuntimeError("a bug")

    downloads = Downloads(at.folder, listener, HASTY)
    downloads.add([at.job()], at.access())
    heard.until(_all(JobState.DONE))
    downloads.close()
    assert at.is_whole()


def test_no_room_is_said_before_anything_is_fetched(at: Desk, open_downloads: Open) -> None:
    downloads, _ = open_downloads(replace(HASTY, reserve=1 << 60))

    with pytest.raises(NoRoom, match="not enough space") as error:
        downloads.add([at.job()], at.access())

    assert str(at.cache) in error.value.cause
    assert downloads.reports() == ()
    assert at.hub.asked == []


def test_no_process_outlives_a_window_that_is_killed(at: Desk) -> None:
    trap = _hang(at, 100_000)
    (file,) = at.model.listed("model.safetensors")
    told = [at.hub.url, at.cache, at.folder, at.model.revision, file.nbytes, file.sha256]
    window = subprocess.Popen(
        [sys.executable, "-c", _WINDOW, *map(str, told)], stdin=subprocess.PIPE
    )
    try:
        _wait_for(trap, at)
        started = psutil.Process(window.pid).children(recursive=True)
        assert started
    finally:
        window.kill()
        window.communicate()

    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert alive == []
    downloads = Downloads(at.folder, Heard(), HASTY)
    (report,) = downloads.reports()
    downloads.close()
    assert (report.state, report.done) == (JobState.PAUSED, 100_000)


def _die(*_: object) -> None:
    os._exit(9)


def _hang(at: Desk, place: int) -> Trap:
    """Have the hub stop at a byte of the weights, once and for all."""
    assert len(WEIGHTS) > place
    return at.hub.trap("model.safetensors", place, Act.HANG)


def _wait_for(trap: Trap, at: Desk, *, on_disk: bool = True) -> None:
    """Until a trap has snapped, and all that was sent is on the disk."""
    assert trap.reached.wait(PATIENCE_S)
    if on_disk:
        _until(lambda: at.weights().exists() and at.weights().stat().st_size == trap.at)


def _until(holds: Callable[[], bool]) -> None:
    """Look again and again, without a pause that would be too long or too short."""
    import time

    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def _all(state: JobState) -> Callable[[tuple[JobReport, ...]], bool]:
    return lambda reports: bool(reports) and all(each.state is state for each in reports)
