"""A mixture with states and a head of its own, as people have it: the same answers in every mode.

Sampled with a seed, under a grammar, with a thought that has to end, with alternatives told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_session import Session, answer_of, user
from gguf import GGMLQuantizationType
from grammars import GRAMMARS
from hybrid_models import EXPERTS, UNLIKE, with_mtp, write_hybrid_gguf
from tiny_models import write_chat_model

from engine.backend.cpu import native_is_built
from engine.commands import DraftChoice, Mode
from engine.events import Finished, RoundFinished
from engine.request import SamplingParams

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 1 << 30
STORY = "Tell me a story about a fox, a fox and a fox. " * 3
SAMPLED = SamplingParams(temperature=0.8, seed=12, top_k=40, top_p=0.95)
ASKED: dict[str, dict[str, Any]] = {
    "sampled": {},
    "greedy": {"sampling": SamplingParams(), "max_tokens": 40},
    "penalised": {"sampling": SamplingParams(temperature=0.8, seed=4, repetition_penalty=1.3)},
    "schema": {"grammar": GRAMMARS["schema"][0]},
    "thought": {"thought_tokens": 9},
    "alternatives": {"alternatives": 2, "max_tokens": 8},
}
MODES: dict[str, dict[str, Any]] = {
    "own head": {"mode": Mode.CPU, "draft": DraftChoice.MTP},
    "automatic draft": {"mode": Mode.CPU, "draft": DraftChoice.AUTO},
    "dovetail": {"mode": Mode.DOVETAIL, "simulate_gpu": GIB, "layers_on_gpu": 2},
    "most on the GPU": {"mode": Mode.DOVETAIL, "simulate_gpu": GIB, "layers_on_gpu": 4},
    "duo": {"mode": Mode.DUO, "simulate_gpu": GIB},
}


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file, which thinks before it answers; the head's experts have a type of their own."""
    root = tmp_path_factory.mktemp("mixture")
    shape = {**UNLIKE, **EXPERTS, "hidden_size": 64, "moe_intermediate_size": 64}
    shape["shared_expert_intermediate_size"] = 64
    folder = with_mtp(write_chat_model(root / "without", "qwen3_5_moe_text", **shape), root / "m")
    told = folder / "tokenizer_config.json"
    config = json.loads(told.read_text(encoding="utf-8"))
    config["chat_template"] += "{%- if add_generation_prompt %}{{- '<think>\\n' }}{%- endif %}"
    told.write_text(json.dumps(config), encoding="utf-8")
    kind, other = GGMLQuantizationType.Q8_0, {"blk.5.": GGMLQuantizationType.Q4_0}
    return write_hybrid_gguf(folder, root / "m.gguf", kind=kind, kinds=other)


def answers(session: Session) -> dict[str, Finished]:
    """What is answered to all that is asked, and to a second turn and an edited one."""
    told = {}
    for name, own in ASKED.items():
        wishes: dict[str, Any] = {"sampling": SAMPLED, "max_tokens": 24, **own}
        told[name] = session.ask(STORY, id=name, **wishes)
    turn = (user(STORY), answer_of(told["sampled"]))
    for name, last in (("turn", "And then?"), ("edit", "But why?"), ("again", "And then?")):
        told[name] = session.ask(*turn, last, id=name, sampling=SAMPLED, max_tokens=12)
    return told


@pytest.fixture(scope="module")
def plain(mixture: Path) -> Iterator[dict[str, Finished]]:
    session = Session()
    session.load(mixture, mode=Mode.PLAIN, draft=DraftChoice.NONE)
    yield answers(session)
    session.close()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_gives_the_same_answers(
    mode: str, mixture: Path, plain: dict[str, Finished], session: Session
) -> None:
    session.load(mixture, **{"draft": DraftChoice.MTP, **MODES[mode]})
    told = answers(session)
    for name, expected in plain.items():
        found = told[name]
        assert (found.token_ids, found.reason) == (expected.token_ids, expected.reason), name
    assert sum(each.drafted for each in session.of(RoundFinished)) > 10
    assert told["again"].token_ids == told["turn"].token_ids
