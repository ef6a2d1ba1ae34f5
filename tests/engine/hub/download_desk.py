"""What tests of downloads work with: a hub, a cache, and processes that begin at once."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

import pytest
from local_hub import LocalHub, Published

from engine.hub.download import worker
from engine.hub.download.cache import CachePlace
from engine.hub.download.jobs import DownloadRules, JobReport
from engine.hub.download.worker import FetchProcess
from engine.hub.messages import Access, Answer, Fetch, Job, Packaging

HASTY = DownloadRules(
    pauses_s=(0.0,) * 3, timeout_s=300.0, reserve=0, tell_every_s=0.0, come_back_s=0.0, behind=0
)
"""Waits for nothing but a server that is slow because the machine is."""
PATIENCE_S = 240.0
"""After which a test has failed."""
CONFIG = b'{"model_type": "llama"}'
WEIGHTS = random.Random(8).randbytes(300_000)

_PRELOADED = ["engine.hub.download.transfer", "engine.hub.download.worker", "httpcore", "httpcore2"]


class Desk:
    """A hub with a model, a cache that is empty, and a folder for notes."""

    def __init__(self, hub: LocalHub, folder: Path) -> None:
        self.hub, self.cache, self.folder = hub, folder / "cache", folder / "own"
        self.model = self.publish("ann/tiny")

    def publish(self, name: str, weights: bytes = WEIGHTS, **more: bool) -> Published:
        """A model of two files."""
        files = {"config.json": CONFIG, "model.safetensors": weights}
        return self.hub.publish(name, files, **more)

    def access(self, token: str | None = None, proxy: str | None = None) -> Access:
        """To the hub, with the cache."""
        return Access(self.hub.url, token, proxy, str(self.cache))

    def job(self, model: Published | None = None) -> Job:
        """All files of a model."""
        model = model or self.model
        packaging = Packaging.SAFETENSORS
        return Job(model.name, model.name, model.revision, "BF16", packaging, model.listed())

    def place(self, job: Job | None = None) -> CachePlace:
        """Where the files of a job are."""
        return CachePlace.of(job or self.job(), str(self.cache))

    def start(
        self, job: Job | None = None, access: Access | None = None, rules: DownloadRules = HASTY
    ) -> FetchProcess:
        """A process."""
        asked = Fetch(access or self.access(), job or self.job())
        return FetchProcess(asked, rules, self.folder / "checked.json")

    def fetch(
        self, job: Job | None = None, access: Access | None = None, rules: DownloadRules = HASTY
    ) -> Answer:
        """A process to its end, and its last message."""
        return list(self.start(job, access, rules).answers())[-1]

    def weights(self, model: Published | None = None) -> Path:
        """The partial file of a model's weights."""
        model = model or self.model
        (file,) = model.listed("model.safetensors")
        return self.place(self.job(model)).partial(file)

    def served(self, model: Published | None = None) -> int:
        """Bytes of a model's weights that the hub has sent."""
        model = model or self.model
        return self.hub.served[f"{model.name}/model.safetensors"]

    def is_whole(self, job: Job | None = None) -> bool:
        """Whether all files are in the cache by their names, with the right bytes."""
        job = job or self.job()
        model = self.hub.repository(job.repo)
        assert model is not None
        place = self.place(job)
        links = {file.path: place.link(file) for file in job.files}
        return all(
            link.exists() and link.read_bytes() == model.files.get(path)
            for path, link in links.items()
        )


@contextmanager
def desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk whose processes are copies of one that has imported all: they begin at once."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    for name in ("DISABLE_XET", "DISABLE_IMPLICIT_TOKEN", "DISABLE_TELEMETRY"):
        monkeypatch.setenv(f"HF_HUB_{name}", "1")  # as a process of its own would begin
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))  # nobody needs the certificates of the world
    # The script that runs the tests is nothing to them: by this name it is not read again.
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("tests.__main__", None))
    if "forkserver" in get_all_start_methods():
        context = get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        monkeypatch.setattr(worker, "_PROCESSES", context)
    with LocalHub() as hub:
        yield Desk(hub, folder)


class Heard:
    """A listener of downloads whose reports can be waited for."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self.all: list[tuple[JobReport, ...]] = []

    def __call__(self, reports: tuple[JobReport, ...]) -> None:
        with self._news:
            self.all.append(reports)
            self._news.notify_all()

    def until(self, holds: Callable[[tuple[JobReport, ...]], bool]) -> tuple[JobReport, ...]:
        """Wait for newest reports of which this holds."""
        with self._news:
            happened = self._news.wait_for(
                lambda: bool(self.all) and holds(self.all[-1]), PATIENCE_S
            )
            assert happened, self.all[-1:]
            return self.all[-1]
