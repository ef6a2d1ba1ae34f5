"""The process that fetches a model: what it leaves in the cache, and how it goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from download_desk import CONFIG, PATIENCE_S, WEIGHTS, Desk, desk
from gguf import GGMLQuantizationType
from hybrid_models import UNLIKE, with_mtp, write_hybrid_gguf
from local_hub import Act
from machines import machine_with
from tiny_models import write_chat_model

from engine.commands import Load
from engine.hub.download import worker
from engine.hub.download.cache import model_path
from engine.hub.messages import FetchedModel, FetchProgress, Job, Packaging, Refused
from engine.hub.remote.variants import gguf_variants
from engine.loading.planned_load import plan_load

_FIND = """
import json, sys
import huggingface_hub as hf
repo, revision, cache = sys.argv[1:4]
told = [
    hf.hf_hub_download(repo, name, revision=revision, cache_dir=cache)
    for name in ("config.json", "model.safetensors")
]
json.dump(told, sys.stdout)
"""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with desk(tmp_path, monkeypatch) as at:
        yield at


def test_a_model_comes_whole_and_other_programs_find_it(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_PROCESSES", get_context("spawn"))  # as users have it
    answer = at.fetch()

    assert answer == FetchedModel("ann/tiny", str(at.place().snapshot))
    assert at.is_whole()
    assert not at.weights().exists()
    found = _hub_library(at, offline=True)
    assert [Path(path).read_bytes() for path in found] == [CONFIG, WEIGHTS]
    assert Path(found[0]).parent == at.place().snapshot


def test_a_head_beside_a_model_comes_along_and_drafts_for_it(at: Desk, tmp_path: Path) -> None:
    """Files that sort before the model's included, as heads' do."""
    without = write_chat_model(tmp_path / "without", "qwen3_5_text", **UNLIKE)
    head = with_mtp(without, tmp_path / "with")
    (made := tmp_path / "made").mkdir()
    write_hybrid_gguf(without, made / "tiny-7B-F32.gguf")
    small = GGMLQuantizationType.Q8_0
    write_hybrid_gguf(head, made / "mtp-Tiny-7B-Q8_0.gguf", kind=small, leave_out=["trunk"])
    model = at.hub.publish("ann/tiny-gguf", made)
    ((variant,), _) = gguf_variants(model.listed())
    job = Job("k", model.name, model.revision, variant.name, variant.packaging, variant.files)

    answer = at.fetch(job)

    assert isinstance(answer, FetchedModel)
    assert Path(answer.model) == model_path(job, at.place(job))
    assert Path(answer.model).name == "tiny-7B-F32.gguf"
    planned = plan_load(Load(Path(answer.model)), machine_with(64 << 30))
    (draft,) = planned.inspection.drafts
    assert draft.model.path == Path(answer.model).with_name("mtp-Tiny-7B-Q8_0.gguf")
    assert planned.summary.draft_is_head


def test_whoever_lists_downloads_imports_no_network() -> None:
    """A window pays for none of it."""
    look = (
        "import sys, engine.hub.download.queue as _;"
        "print([m for m in ('huggingface_hub', 'httpx', 'httpx2', 'requests') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.strip() == "[]"


def test_what_another_program_has_fetched_is_not_fetched_again(at: Desk) -> None:
    _hub_library(at, offline=False)
    before = at.hub.served.copy()

    assert isinstance(at.fetch(), FetchedModel)
    assert at.hub.served == before


def test_progress_counts_what_is_on_the_disk(at: Desk) -> None:
    *told, last = at.start().answers()

    assert isinstance(last, FetchedModel)
    assert all(isinstance(one, FetchProgress) and one.key == "ann/tiny" for one in told)
    done = [one.done for one in told if isinstance(one, FetchProgress)]
    assert done == sorted(done)
    assert done[-1] == len(CONFIG) + len(WEIGHTS)
    assert any(one.checking for one in told if isinstance(one, FetchProgress))


def test_dropped_connections_send_no_byte_twice(at: Desk) -> None:
    for place in (1, 70_000, 70_001, 299_999):
        at.hub.trap("model.safetensors", place, Act.DROP)

    assert isinstance(at.fetch(), FetchedModel)
    assert at.is_whole()
    assert at.served() == len(WEIGHTS)


def test_a_server_that_always_ends_too_early_is_given_up(at: Desk) -> None:
    at.hub.answer("model.safetensors", 200, body=WEIGHTS[:70_000], method="GET", times=5)

    refused = at.fetch()

    assert isinstance(refused, Refused)
    assert refused.kind == "dropped"
    assert at.weights().stat().st_size == 70_000


def test_a_server_without_ranges_begins_anew(at: Desk) -> None:
    at.hub.takes_ranges = False
    at.hub.trap("model.safetensors", 70_000, Act.DROP)

    assert isinstance(at.fetch(), FetchedModel)
    assert at.is_whole()
    assert at.served() == 70_000 + len(WEIGHTS)


def test_a_refusal_that_passes_is_waited_for(at: Desk) -> None:
    at.hub.answer("model.safetensors", 503, times=3)

    assert isinstance(at.fetch(), FetchedModel)
    assert at.is_whole()


def test_wrong_bytes_are_deleted_and_fetched_anew_the_next_time(at: Desk) -> None:
    at.hub.trap("model.safetensors", 123_456, Act.SPOIL)

    refused = at.fetch()
    assert isinstance(refused, Refused)
    assert refused.kind == "wrong_bytes"
    assert not at.weights().exists()
    assert at.place().whole(at.model.listed("model.safetensors")[0]) is None
    assert isinstance(at.fetch(), FetchedModel)
    assert at.is_whole()


@pytest.mark.parametrize("spoilt", ["wrong", "too long"])
def test_what_a_power_cut_has_left_is_not_believed(at: Desk, spoilt: str) -> None:
    at.weights().parent.mkdir(parents=True)
    left = bytes(1000) if spoilt == "wrong" else WEIGHTS + b"!"
    at.weights().write_bytes(left)

    answers = [at.fetch(), at.fetch()]

    assert isinstance(answers[-1], FetchedModel)
    assert at.is_whole()


def test_a_spoilt_file_in_the_cache_is_replaced(at: Desk) -> None:
    assert isinstance(at.fetch(), FetchedModel)
    blob = at.place().blob(at.model.listed("model.safetensors")[0])
    blob.write_bytes(WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1]))
    os.utime(blob, (1e9, 1e9))  # clocks of files may tick but every hundredth of a second

    assert isinstance(at.fetch(), FetchedModel)
    assert at.is_whole()
    assert at.served() == 2 * len(WEIGHTS)


def test_a_file_that_was_right_is_not_read_again(at: Desk) -> None:
    assert isinstance(at.fetch(), FetchedModel)
    told = list(at.start().answers())
    assert [type(one) for one in told] == [FetchedModel]  # nothing was checked

    (at.folder / "checked.json").write_text("[", encoding="utf-8")
    told = list(at.start().answers())
    assert any(isinstance(one, FetchProgress) and one.checking for one in told)
    assert isinstance(told[-1], FetchedModel)


def test_a_gguf_is_opened_by_its_first_part(at: Desk) -> None:
    parts = {f"small/tiny-0000{n}-of-00002.gguf": bytes([n]) * 50_000 for n in (1, 2)}
    model = at.hub.publish("ann/split", {**parts, "config.json": CONFIG})
    listed = tuple(reversed(model.listed(*parts)))
    job = Job("split", model.name, model.revision, "Q4_K_M", Packaging.GGUF, listed)

    answer = at.fetch(job)

    first = at.place(job).snapshot / "small" / "tiny-00001-of-00002.gguf"
    assert answer == FetchedModel("split", str(first))
    assert at.is_whole(job)
    assert at.hub.served["ann/split/config.json"] == 0


def test_equal_files_come_once(at: Desk) -> None:
    names = ("a.gguf", "b.gguf")
    model = at.hub.publish("ann/twins", dict.fromkeys(names, WEIGHTS))
    job = replace(at.job(model), packaging=Packaging.GGUF)

    assert isinstance(at.fetch(job), FetchedModel)
    assert at.is_whole(job)
    assert sum(at.hub.served[f"ann/twins/{name}"] for name in names) == len(WEIGHTS)


def test_an_empty_file_is_a_file(at: Desk) -> None:
    model = at.hub.publish("ann/empty", {"empty.json": b"", "config.json": CONFIG})
    job = at.job(model)

    assert isinstance(at.fetch(job), FetchedModel)
    assert at.is_whole(job)


def test_the_token_is_told_to_the_hub_alone(at: Desk) -> None:
    model = at.publish("ann/gated", gated=True)
    at.hub.tokens = {"hf_secret": {"ann/gated"}}

    answer = at.fetch(at.job(model), at.access("hf_secret"))

    assert isinstance(answer, FetchedModel)  # the CDN refuses who shows a token
    to_cdn = at.hub.requests("GET", "/cdn/")
    assert to_cdn
    assert not any("Authorization" in asked.headers for asked in to_cdn)


def test_all_goes_through_the_proxy(at: Desk) -> None:
    from loopback_proxy import LoopbackProxy

    with LoopbackProxy() as proxy:
        assert isinstance(at.fetch(access=at.access(proxy=proxy.url)), FetchedModel)

    assert at.is_whole()
    assert len(proxy.passed) == len(at.hub.asked) > 0
    assert any("/cdn/" in address for address in proxy.passed)


def test_the_process_ends_with_whoever_started_it(at: Desk) -> None:
    at.hub.trap("model.safetensors", 1000, Act.HOLD)
    started = at.start()
    process = started._process
    while at.served() < 1000:
        assert started.receive() is not None  # it is in the middle of a file

    started.pipe.close()  # as when this process is killed

    process.join(PATIENCE_S)
    assert process.exitcode == 0
    assert not at.is_whole()


def _hub_library(at: Desk, *, offline: bool) -> list[str]:
    """What the hub's own library finds in the cache, or puts there."""
    own = {
        "HF_ENDPOINT": at.hub.url,
        "HF_HUB_OFFLINE": "1" if offline else "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _FIND, at.model.name, at.model.revision, str(at.cache)],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found
