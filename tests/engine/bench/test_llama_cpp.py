"""llama.cpp computes the same from the file that we write; skipped where it is not installed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
from folder_models import FOLDER_TARGET
from gguf_models import write_gguf
from llama_files import needs_peer
from peer_models import small_config, small_subject

from engine.backend.native.library import Format
from engine.bench.forward import forwards_in_turns
from engine.bench.pair_writer import PairWriter, without_draft
from engine.bench.peer.process import DRAFTING, PeerProcess, find_interpreter
from engine.bench.peer.side import llama_cpp, peer_writer
from engine.cli import main
from engine.commands import DraftChoice, Load
from engine.errors import Absent
from engine.loading.devices import DeviceManager
from engine.loading.load import load
from engine.loading.planned_load import plan_load
from engine.model.config import ModelConfig
from engine.request import ChatRequest, Message, Role, SamplingParams

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


@needs_peer
@pytest.mark.parametrize(
    ("config", "fmt"),
    [
        (small_config("llama"), Format.Q4),
        (small_config("llama", attention_bias=True, rope_parameters=LLAMA3), Format.Q8),
        (small_config("qwen2", tie_word_embeddings=True), Format.Q4),
        (small_config("qwen2"), Format.BF16),
    ],
)
def test_same_logits(config: ModelConfig, fmt: Format) -> None:
    subject = small_subject(config, fmt)
    tokens = np.random.default_rng(1).integers(0, config.vocab_size, 48).tolist()
    ours = subject.decoder.forward(subject.decoder.new_state(64), tokens).logits
    with llama_cpp(config, subject.weights, threads=1) as peer:
        theirs = peer.logits(tokens)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (ours * theirs).sum(axis=1) / lengths
    assert cosines.min() > 0.999
    assert (ours.argmax(axis=1) == theirs.argmax(axis=1)).mean() > 0.9


def _stops(pid: int) -> bool:
    """Wait until the child stops, or ends."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    return os.WIFSTOPPED(status)


@needs_peer
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_it_sleeps_between_its_turns_and_leaves_nothing_behind() -> None:
    before = set(psutil.Process().children())
    subject = small_subject(small_config("qwen2"), Format.Q8)
    with llama_cpp(subject.config, subject.weights, threads=1) as peer:
        (child,) = set(psutil.Process().children()) - before
        assert _stops(child.pid)
        with peer.awake():
            assert child.status() != psutil.STATUS_STOPPED
        assert _stops(child.pid)
        seconds = forwards_in_turns([peer], (1, 16), runs=3)[0]
        assert seconds[1] > 0
        assert seconds[16] > 0
        assert peer.settings.threads == 1
        assert peer.settings.version
    assert not child.is_running()


def test_without_a_peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DUOTAIL_PEER_PYTHON", raising=False)
    monkeypatch.setattr("engine.bench.peer.process.find_spec", lambda _name: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    with pytest.raises(Absent, match="make bench-peer"):
        find_interpreter()
    beside = tmp_path / ".venv-peer" / "bin" / "python"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert find_interpreter() == beside


def test_a_python_that_is_not_there_or_lacks_the_packages(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="make bench-peer"):
        PeerProcess(tmp_path / "python")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such package >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(Absent) as caught:
        PeerProcess(broken)
    assert "no such package" in caught.value.details


@needs_peer
def test_the_commands_compare(capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for kind in ("decode", "verify", "prefill"):
        options = ["--peer", "llama.cpp", "--threads", "1", "--runs", "2", "--json"]
        assert main(["bench", kind, *options]) == 0
        found[kind] = json.loads(capsys.readouterr().out)
        assert found[kind]["peer"]["version"]
    for kind in ("decode", "prefill"):
        ours, peer = (found[kind][f"{side}tokens_per_s"] for side in ("", "peer_"))
        assert found[kind]["ratio"] == pytest.approx(ours / peer)
    assert found["decode"]["runs"] == 2
    assert len(found["verify"]["peer_ms"]) == len(found["verify"]["n"])


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of the peer's would wait for each other turning round and round."""
    monkeypatch.setattr("engine.bench.peer.side.default_threads", lambda: 1)


@needs_peer
@pytest.mark.usefixtures("one_thread")
def test_it_writes_as_much_as_our_plain_answer() -> None:
    manager = DeviceManager()
    machine = manager.look(None)
    command = Load(FOLDER_TARGET, draft=DraftChoice.LOOKUP)
    pair = load(plan_load(command, machine, manager.speeds(machine)), manager.open)
    question = Message(Role.USER, "Tell me a story about a fox.")
    request = ChatRequest("one", (question,), SamplingParams(), 24)
    plain = PairWriter(without_draft(pair))
    ours = plain.write(request)
    with peer_writer(plain) as peer:
        theirs = peer.write(request)
        drawn = peer.write(replace(request, sampling=SamplingParams(temperature=0.8, seed=3)))
    assert ours.token_ids is not None
    assert theirs.token_ids is not None
    assert theirs.token_ids[:6] == ours.token_ids[:6], "it is the same model"
    assert theirs.tokens == drawn.tokens == ours.tokens == len(theirs.token_ids) - 1
    assert theirs.seconds > 0
    assert drawn.token_ids != theirs.token_ids


@needs_peer
@pytest.mark.usefixtures("one_thread")
def test_speculation_beside_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gguf = write_gguf(FOLDER_TARGET, tmp_path / "model.gguf")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is rain?", "utf-8")
    options = ["--model", str(gguf), "--draft", "lookup", "--prompts", str(prompts)]
    limits = ["--max-tokens", "16", "--peer", "llama.cpp", "--json"]
    assert main(["bench", "speculate", *options, *limits]) == 0
    report = json.loads(capsys.readouterr().out)
    row = report["categories"]["everyday"]
    assert row["exact"]
    assert row["ratio_to_peer"] == pytest.approx(row["tokens_per_s"] / row["peer_tokens_per_s"])
    plain = row["plain_tokens_per_s"] / row["peer_tokens_per_s"]
    assert row["plain_ratio_to_peer"] == pytest.approx(plain)
    assert report["peer"]["version"]


@pytest.fixture
def _drafting_peer() -> None:
    try:
        PeerProcess(find_interpreter(DRAFTING), DRAFTING).close()
    except Absent:
        pytest.skip("no llama.cpp that drafts is installed")


@pytest.mark.usefixtures("one_thread", "_drafting_peer")
def test_speculation_beside_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gguf = write_gguf(FOLDER_TARGET, tmp_path / "model.gguf")
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("What is rain?", "utf-8")
    options = ["--model", str(gguf), "--draft", str(gguf), "--prompts", str(prompts)]
    limits = ["--max-tokens", "16", "--peer", "llama.cpp-draft", "--json"]
    assert main(["bench", "speculate", *options, *limits]) == 0
    report = json.loads(capsys.readouterr().out)
    row = report["categories"]["everyday"]
    assert row["exact"]
    assert row["ratio_to_peer"] == pytest.approx(row["tokens_per_s"] / row["peer_tokens_per_s"])
    assert report["peer"]["depth"] == 3
    assert report["peer"]["package"]
