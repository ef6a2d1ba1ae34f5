"""What every test shares: no screen, no network, no user folders; accelerators only if present."""

from __future__ import annotations

import gc
import ipaddress
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from platformdirs import user_cache_path

from engine.hub.starter import starter_path
from tests import stopwatch, tiers, vocabularies
from tests.folder_models import FOLDER_DRAFT, FOLDER_TARGET

_USER_DIRS = {
    "DUOTAIL_DATA_DIR": "data",
    "DUOTAIL_CONFIG_DIR": "config",
    "DUOTAIL_CACHE_DIR": "cache",
    "XDG_DATA_HOME": "xdg/data",
    "XDG_CONFIG_HOME": "xdg/config",
    "XDG_CACHE_HOME": "xdg/cache",
    "XDG_STATE_HOME": "xdg/state",
    "XDG_RUNTIME_DIR": "xdg/runtime",
    "HF_HOME": "huggingface",
}


STARTER = starter_path()
"""The starter model of whoever runs the tests, found before they lose sight of user folders."""
BENCH_MODELS = user_cache_path("Duotail", appauthor=False) / "bench-models"
"""Where packaging/bench_models.py has put a real pair, if it has."""

# Threads that wait for each other by turning round and round hold a busy machine up for minutes.
# Here, as torch and numpy read it when they are imported, which other conftests do.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment before Qt or a hub library can read it."""
    gc.disable()  # until all tests are collected: next to nothing of that is garbage
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ.update(LC_ALL="C.UTF-8", LANGUAGE="en")  # tests read the texts in English
    if not config.option.release:  # each of the processes a core: theirs would wait for each other
        os.environ["DUOTAIL_THREADS"] = "1"
    os.environ["DUOTAIL_DEFAULT_MODEL"] = str(FOLDER_TARGET)  # small, and always there
    # What is slow at times is no failure, and what passes once passes every time; to look for new
    # examples: --hypothesis-profile default.
    settings.register_profile(
        "duotail",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
        max_examples=100 if config.option.release else 20,
    )
    settings.load_profile("duotail")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    home = tempfile.TemporaryDirectory(prefix="duotail-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    os.environ.update(_user_dirs(Path(home.name)))
    if hasattr(config, "cache"):  # all processes of all runs share what Mesa has compiled
        os.environ["MESA_SHADER_CACHE_DIR"] = str(config.cache.mkdir("shaders"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs both tiers."""
    parser.addoption("--release", action="store_true", help="run the tests marked `release` too")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tier."""
    if not config.option.release and not any("::" in argument for argument in config.args):
        later = set(tiers.release_only(items))
        config.hook.pytest_deselected(items=[item for item in items if item in later])
        items[:] = [item for item in items if item not in later]


def pytest_collection_finish() -> None:
    """Leave modules and tests out of all collections of garbage to come."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def alone() -> Iterator[None]:
    """Let nothing else that is timed run meanwhile, in whichever process."""
    with stopwatch.ALONE:
        yield


@pytest.fixture(scope="session")
def starter() -> Path:
    """The file of the starter model, for tests of the real thing; all others have a small pair."""
    if STARTER is None:
        pytest.skip("the starter model is not here: `make setup` fetches it")
    return STARTER


@pytest.fixture(scope="session")
def bench_models() -> Path:
    """The folder of the real pair; its files need not be there."""
    return BENCH_MODELS


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for `resources/models`, with a small pair; its target is the default."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    for model in (FOLDER_TARGET, FOLDER_DRAFT):
        (folder / model.name).symlink_to(model)
    monkeypatch.setattr("engine.model.bundled.root", lambda: folder)
    monkeypatch.setenv("DUOTAIL_DEFAULT_MODEL", str(folder / FOLDER_TARGET.name))
    return folder


@pytest.fixture(scope="session")
def published_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vocabularies of published models: a folder for each."""
    folder = tmp_path_factory.mktemp("published")
    vocabularies.unpack(folder)
    return folder


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_no_garbage() -> None:
    """Leave what earlier files made out of all collections of garbage to come.

    Every load and every unload of a model collects, and would look through all of torch each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _empty_folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], dict[str, str]]:
    """User folders with nothing in them: the last ones again, unless a test has used them.

    None of them is among pytest's own: it looks through those for each new one.
    """
    homes, numbers = tmp_path_factory.mktemp("homes"), count()
    last: dict[str, str] = {}

    def empty() -> dict[str, str]:
        if not last or any(not Path(f).is_dir() or os.listdir(f) for f in last.values()):
            last.update(_user_dirs(homes / str(next(numbers))))
        return last

    return empty


@pytest.fixture(autouse=True)
def _own_user_dirs(
    _empty_folders: Callable[[], dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let no test see what another one has left."""
    for name, folder in _empty_folders().items():
        monkeypatch.setenv(name, folder)


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Let sockets reach this machine only."""
    with pytest.MonkeyPatch.context() as patch:
        for method in ("connect", "connect_ex", "sendto"):
            patch.setattr(socket.socket, method, _guarded(getattr(socket.socket, method)))
        yield


def _user_dirs(home: Path) -> dict[str, str]:
    folders = {name: home / folder for name, folder in _USER_DIRS.items()}
    for folder in folders.values():
        folder.mkdir(parents=True, mode=0o700)
    return {name: str(folder) for name, folder in folders.items()}


def _guarded(method: Callable[..., object]) -> Callable[..., object]:
    def call(self: socket.socket, *args: object) -> object:
        address = args[-1]
        if isinstance(address, tuple) and not _is_local(str(address[0])):
            pytest.fail(f"a test tried to reach {address[0]}: tests use no network")
        return method(self, *args)

    return call


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
