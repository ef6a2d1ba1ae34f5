"""MTP heads of Qwen3.5 from files to drafts: transformers' numbers, both kinds of files, words."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_session import Session
from gguf import GGMLQuantizationType
from head_models import MTP, HeadWeights
from hybrid_models import (
    EXPERTS,
    UNLIKE,
    MtpReference,
    apart,
    head_of,
    with_mtp,
    write_hybrid,
    write_hybrid_gguf,
    write_qwen3_next,
)
from machines import machine_with
from safetensors.torch import load_file, save_file
from tiny_models import write_chat_model

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.round import Budget, DraftRequest, Ranking
from engine.backend.sequence import ROOT
from engine.backend.torch_cpu.segment import TorchCpuBackend
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.events import Failed, PlanReady, RoundFinished
from engine.loading.planned_load import plan_load
from engine.model.heads.description import DraftOnly
from engine.model.local_model import LocalModel
from engine.model.weights.readable import Floats
from engine.request import SamplingParams

TOKENS = np.random.default_rng(2).integers(3, 320, 75).tolist()
OWN = 3
QUESTION = "Tell me a story about a fox, a fox and a fox."
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mtp")
    return with_mtp(write_hybrid(root / "without"), root / "model")


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("chat")
    return with_mtp(write_chat_model(root / "without", "qwen3_5_text", **UNLIKE), root / "model")


def features(count: int) -> Floats:
    return np.random.default_rng(4).normal(0, 1, (count, 64)).astype(np.float32)


def chained(head: Decoder) -> tuple[Floats, Floats]:
    """Outputs and logits of the tokens, the last ones on from what the head has put out itself."""
    state, known = head.new_state(640), len(TOKENS) - OWN
    found = head.forward(state, TOKENS[:known], features=features(known))
    outputs, logits = [found.hidden.copy()], [found.logits.copy()]
    state.commit(range(known))
    for row, token in enumerate(TOKENS[known:]):
        parent = ROOT if not row else row - 1
        found = head.forward(state, [token], [parent], features=outputs[-1][-1:])
        outputs.append(found.hidden.copy())
        logits.append(found.logits.copy())
    return np.concatenate(outputs), np.concatenate(logits)


def expected(folder: Path) -> tuple[Floats, Floats]:
    return MtpReference(folder)(TOKENS, features(len(TOKENS) - OWN), OWN)


# ---- numbers -------------------------------------------------------------------------------------


def test_numbers_are_transformers(folder: Path) -> None:
    """Over features of the target, and on from its own outputs, which are normed."""
    for got, wanted in zip(chained(head_of(folder)), expected(folder), strict=True):
        assert apart(got, wanted) < 1e-4


def test_numbers_of_a_mixture_are_transformers(tmp_path: Path) -> None:
    mixture = with_mtp(write_hybrid(tmp_path / "without", **EXPERTS), tmp_path / "model")
    for got, wanted in zip(chained(head_of(mixture)), expected(mixture), strict=True):
        assert apart(got, wanted) < 1e-4


def test_numbers_of_qwen3_next_are_transformers(tmp_path: Path) -> None:
    model = with_mtp(write_qwen3_next(tmp_path / "without"), tmp_path / "model")
    for got, wanted in zip(chained(head_of(model)), expected(model), strict=True):
        assert apart(got, wanted) < 1e-4


def test_a_tree_is_of_what_transformers_finds_likely(folder: Path) -> None:
    """Grown in one call: every node's score is that of its path, written one by one."""
    head, known = head_of(folder), 40
    ranking = Ranking(0.0, 0, share_noise=False)
    request = DraftRequest(TOKENS[:known], ranking, Budget(14, 3, 3), features(known))
    tree = head.draft(head.new_state(640), request)
    reference = MtpReference(folder)
    paths: list[list[int]] = [[]]
    for node in range(1, len(tree.tokens)):
        path = [*paths[tree.parents[node]], tree.tokens[node]]
        paths.append(path)
        _, logits = reference(TOKENS[:known] + path[:-1], features(known), len(path) - 1)
        last = logits[-1].astype(np.float64)
        likely = last[path[-1]] - np.logaddexp.reduce(last)
        above = tree.scores[tree.parents[node]]
        assert tree.scores[node] - above == pytest.approx(likely, abs=2e-3)
    assert max(map(len, paths)) == 3


def test_gguf_has_the_same_head(folder: Path, tmp_path: Path) -> None:
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf")
    for got, wanted in zip(chained(head_of(file)), chained(head_of(folder)), strict=True):
        assert apart(got, wanted) < 1e-6


def test_gguf_has_the_same_head_of_a_mixture(tmp_path: Path) -> None:
    """Also of Qwen3-Next, whose blocks are mixtures, too."""
    for write in (write_hybrid, write_qwen3_next):
        root = tmp_path / write.__name__
        mixture = with_mtp(write(root / "without", **EXPERTS), root / "model")
        file = write_hybrid_gguf(mixture, root / "m.gguf")
        for got, wanted in zip(chained(head_of(file)), expected(mixture), strict=True):
            assert apart(got, wanted) < 1e-4


def test_gguf_without_a_norm_of_its_own_takes_the_models(folder: Path, tmp_path: Path) -> None:
    file = folder_with(folder, tmp_path / "same", {"mtp.norm.weight": "model.norm.weight"})
    whole = write_hybrid_gguf(file, tmp_path / "m.gguf")
    lacking = write_hybrid_gguf(
        folder_with(folder, tmp_path / "less", {"mtp.norm.weight": None}), tmp_path / "n.gguf"
    )
    assert np.array_equal(chained(head_of(whole))[0], chained(head_of(lacking))[0])


def test_a_step_of_the_converter_matters(folder: Path, tmp_path: Path) -> None:
    """So the test of GGUF fails where reading misses one."""
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf", leave_out=["plus one"])
    assert apart(chained(head_of(file))[1], expected(folder)[1]) > 0.05


def folder_with(folder: Path, to: Path, changes: dict[str, str | None]) -> Path:
    """A model some of whose tensors are others of it, or missing."""
    to.mkdir()
    (to / "config.json").write_bytes((folder / "config.json").read_bytes())
    tensors = load_file(folder / "model.safetensors")
    for name, other in changes.items():
        if other is None:
            del tensors[name]
        else:
            tensors[name] = tensors[other].clone()
    save_file(tensors, to / "model.safetensors")
    return to


def test_the_first_of_several_heads_drafts(folder: Path, tmp_path: Path) -> None:
    """A second one is left aside, in both kinds of files."""
    more = {"nextn_predict_layers": 2, "block_count": 7}
    second = ["blk.6.nextn.eh_proj.weight", "blk.6.attn_norm.weight"]
    file = write_hybrid_gguf(folder, tmp_path / "m.gguf", more=more, head=second)
    inside = [name for name in load_file(folder / "model.safetensors") if "mtp.layers.0." in name]
    both = {name.replace("layers.0", "layers.1"): name for name in inside}
    for each in (file, folder_with(folder, tmp_path / "both", dict(both))):
        assert apart(chained(head_of(each))[1], expected(folder)[1]) < 1e-4


# ---- words ---------------------------------------------------------------------------------------


def test_a_file_without_a_head_says_so(folder: Path, tmp_path: Path) -> None:
    without = {name: None for name in load_file(folder / "model.safetensors") if "mtp." in name}
    model = LocalModel.inspect(folder_with(folder, tmp_path / "without", dict(without)))
    assert model.has_mtp is False
    with pytest.raises(NotPossible, match="this file has no MTP head"):
        model.mtp()


def test_a_damaged_head_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    lacking = {"mtp.layers.0.self_attn.k_proj.weight": None}
    model = LocalModel.inspect(folder_with(folder, tmp_path / "damaged", dict(lacking)))
    with pytest.raises(UserFixable, match=r"k_proj\.weight of its MTP head is missing"):
        model.mtp()


def test_a_head_of_another_size_is_told(folder: Path, tmp_path: Path) -> None:
    other = {"mtp.fc.weight": "model.embed_tokens.weight"}
    model = LocalModel.inspect(folder_with(folder, tmp_path / "other", dict(other)))
    with pytest.raises(UserFixable, match=r"mtp\.fc\.weight is 320 x 64, not 64 x 128"):
        model.mtp()


def test_a_file_with_the_head_alone_is_a_draft(folder: Path, tmp_path: Path) -> None:
    file = write_hybrid_gguf(folder, tmp_path / "mtp-m.gguf", leave_out=["trunk"])
    model = LocalModel.inspect(file)
    assert isinstance(model.config, DraftOnly)
    assert model.config.kind == "mtp"


# ---- text ----------------------------------------------------------------------------------------


def test_answers_are_the_models_own(session: Session, chat: Path, tmp_path: Path) -> None:
    """Plain, and drafted by the head in the model's files: in a folder, a file, one of its own."""
    file = write_hybrid_gguf(chat, tmp_path / "m.gguf", kind=GGMLQuantizationType.Q8_0)
    alone = write_hybrid_gguf(chat, tmp_path / "mtp-m.gguf", leave_out=["trunk"])
    for model, drafts in ((chat, [DraftChoice.MTP]), (file, [DraftChoice.MTP, alone])):
        session.load(model, mode=Mode.PLAIN)
        plain = session.ask(QUESTION, sampling=GREEDY, max_tokens=40).token_ids
        for draft in drafts:
            before = len(session.of(RoundFinished))
            session.load(model, mode=Mode.CPU, draft=draft)
            again = session.ask(QUESTION, sampling=GREEDY, max_tokens=40)
            assert again.token_ids == plain
            assert any(each.drafted for each in session.of(RoundFinished)[before:])
            assert session.of(PlanReady)[-1].plan.draft_is_head


def test_automatic_looks_at_the_models_own_head_first(chat: Path) -> None:
    planned = plan_load(Load(chat), machine_with(64 << 30))
    assert [each.model.name for each in planned.inspection.drafts] == ["MTP head"]
    assert planned.summary.has_mtp


def test_the_head_may_lie_beside_the_models_file(chat: Path, tmp_path: Path) -> None:
    without = {name: None for name in load_file(chat / "model.safetensors") if "mtp." in name}
    lacking = folder_with(chat, tmp_path / "lacking", dict(without))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(chat / name, lacking / name)
    file, alone = tmp_path / "tiny-F32.gguf", tmp_path / "mtp-tiny-Q8_0.gguf"
    write_hybrid_gguf(lacking, file)
    write_hybrid_gguf(chat, alone, kind=GGMLQuantizationType.Q8_0, leave_out=["trunk"])
    planned = plan_load(Load(file, draft=DraftChoice.MTP), machine_with(64 << 30))
    assert [each.model.path for each in planned.inspection.drafts] == [alone]


def test_a_model_without_a_head_names_it(session: Session, tmp_path: Path) -> None:
    folder = write_chat_model(tmp_path / "chat", "qwen3_5_text", **UNLIKE)
    session.submit(Load(folder, draft=DraftChoice.MTP))
    assert "this file has no MTP head" in session.wait(Failed).cause


@pytest.mark.parametrize("where", ["CPU", "accelerator"])
def test_torch_refuses_what_it_would_compute_wrongly(where: str, folder: Path) -> None:
    """Gates, and outputs that are normed; plans keep both from there, see `facts.that_serves`."""
    card = TorchDevice("cpu").backend(WeightFormat.F32, "draft")
    backend = TorchCpuBackend() if where == "CPU" else card
    with pytest.raises(ValueError, match="gates are not computed here"):
        head_of(folder, backend)
    ungated = replace(MTP, blocks=(replace(MTP.blocks[0], gated=False),))
    with pytest.raises(ValueError, match="outputs of a head are not normed here"):
        Decoder.build(ungated, HeadWeights(ungated), backend)
