"""Every model on the disk as a draft for another one, with the reason it is or is not usable."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from gguf_models import Kind, write_gguf
from head_folders import write_head
from reduced_drafts import write_reduced
from tiny_models import write_chat_model, write_model

from engine.hub.advice import DraftCandidate, Verdict
from engine.hub.curated import curated
from engine.hub.draft_candidates import Vocabularies, candidates, compared, published
from engine.hub.predictions import Predictions
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.machine.facts import Host, Machine
from engine.machine.speeds import Speeds
from engine.model.families import open_config
from engine.model.local_model import LocalModel
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import TokenList, differing, folder_tokens, unshared

GIB = 2**30
SMALL = {"hidden_size": 32, "num_hidden_layers": 1}


def kept(path: Path, **more: object) -> KeptModel:
    return KeptModel(path, path.name, ModelOrigin.IN_PLACE, 1, **more)  # type: ignore[arg-type]


def judged(target: Path, *others: KeptModel) -> dict[str, DraftCandidate]:
    return {each.name: each for each in candidates(target, others, Vocabularies())}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A smaller sibling of the chat model."""
    return write_chat_model(tmp_path_factory.mktemp("drafts") / "small", **SMALL)


def with_vocabulary(folder: Path, change: Callable[[dict[str, int]], dict[str, int]]) -> Path:
    file = folder / "tokenizer.json"
    described = json.loads(file.read_text(encoding="utf-8"))
    described["model"]["vocab"] = change(described["model"]["vocab"])
    described["model"]["merges"] = []
    file.write_text(json.dumps(described), encoding="utf-8")
    return folder


def swapped(vocabulary: dict[str, int]) -> dict[str, int]:
    """Two tokens have each other's number."""
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    one, other = names[1000], names[1001]
    return {**vocabulary, one: vocabulary[other], other: vocabulary[one]}


def renamed(vocabulary: dict[str, int]) -> dict[str, int]:
    """Most tokens are other ones."""
    return {
        name if number < 300 else f"other{number}": number for name, number in vocabulary.items()
    }


def enlarged(vocabulary: dict[str, int]) -> dict[str, int]:
    """Most tokens are other ones, and there are many more."""
    kept = {name: number for name, number in vocabulary.items() if number < 300}
    return kept | {f"other{number}": number for number in range(300, 9000)}


def test_a_smaller_sibling_fits(chat_model: Path, small: Path) -> None:
    found = judged(chat_model, kept(small))["small"]
    assert found.verdict is Verdict.FITS
    assert found.path == small
    assert "the same vocabulary" in found.reason
    assert "of the parameters" in found.reason


def test_a_gguf_file_is_compared_with_a_folder(
    chat_model: Path, small: Path, tmp_path: Path
) -> None:
    file = write_gguf(small, tmp_path / "small-q8.gguf", Kind.Q8_0)
    assert judged(chat_model, kept(file))["small-q8.gguf"].verdict is Verdict.FITS


def test_tokens_that_differ_are_counted(chat_model: Path, small: Path, tmp_path: Path) -> None:
    other = with_vocabulary(Path(shutil.copytree(small, tmp_path / "swapped")), swapped)
    found = judged(chat_model, kept(other))["swapped"]
    assert found.verdict is Verdict.FITS
    assert "differs in 2 tokens, such as" in found.reason
    assert "never drafts those" in found.reason


def test_another_vocabulary_is_told_as_such(chat_model: Path, small: Path, tmp_path: Path) -> None:
    other = with_vocabulary(Path(shutil.copytree(small, tmp_path / "renamed")), renamed)
    found = judged(chat_model, kept(other))["renamed"]
    assert (found.verdict, found.reason) == (Verdict.NO, "It has another vocabulary.")


def test_a_control_token_that_is_missing_is_the_example(small: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(small, tmp_path / "thinking"))
    file = other / "tokenizer.json"
    described = json.loads(file.read_text(encoding="utf-8"))
    pattern = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    described["added_tokens"].append({"id": 4096, "content": "<think>", "special": True, **pattern})
    file.write_text(json.dumps(described), encoding="utf-8")
    ours, theirs = (LocalModel.inspect(each).tokens() for each in (small, other))
    result = compared(ours, theirs)
    assert (result.different, result.control, result.example) == (1, 1, "<think>")
    assert result.words.startswith("Its vocabulary differs in 1 token, such as “<think>”.")
    assert not compared(ours, ours).different


def test_siblings_share_all_but_a_few_tokens() -> None:
    words = {f"w{number}": number for number in range(1000)}
    qwen = words | {"<|im_end|>": 1000}
    qwq = qwen | {
        "<tool_response>": 1001,
        "</tool_response>": 1002,
        "<think>": 1003,
        "</think>": 1004,
    }
    assert unshared(qwq, qwen) == {1001, 1002, 1003, 1004}
    assert unshared(qwen, qwq) == unshared(qwq, qwen)
    llama = words | {"<|reserved_special_token_2|>": 1000, "<|eot_id|>": 1001}
    later = words | {"<|finetune_right_pad_id|>": 1000, "<|eot_id|>": 1001}
    assert unshared(later, llama) == {1000}
    assert unshared(llama, later) == {1000}
    assert unshared(words, {f"x{number}": number for number in range(1000)}) is None


def test_names_of_rows_that_stand_for_no_token_do_not_count() -> None:
    ours = {"a": 0, "b": 1}
    assert not differing(ours, {**ours, "[PAD2]": 2, "<unused7>": 3})
    assert differing(ours, {**ours, "c": 2}) == {"c"}
    assert differing(ours, {"a": 1, "b": 0}) == {"a", "b"}


def test_one_that_is_not_smaller_is_refused_without_reading_its_vocabulary(
    chat_model: Path, other_chat_model: Path
) -> None:
    found = judged(chat_model, kept(other_chat_model))["Mumbler"]
    assert found.verdict is Verdict.NO
    assert "not smaller" in found.reason


def test_a_head_fits_its_target_and_no_other(tmp_path: Path) -> None:
    target = write_chat_model(tmp_path / "target", num_hidden_layers=7)
    config = open_config(target)
    right = write_head(tmp_path / "right", "dgf", config)
    wider = write_chat_model(tmp_path / "wider", num_hidden_layers=7, hidden_size=96)
    other = write_head(tmp_path / "other", "eagle3", open_config(wider))
    found = judged(target, kept(right, head=True), kept(other, head=True))
    assert found["right"].verdict is Verdict.FITS
    assert "Some target" in found["right"].reason
    assert found["right"].head
    assert found["other"].verdict is Verdict.NO
    assert "hidden states of 96 numbers, and this model's have 64" in found["other"].reason


def test_broken_models_and_other_families_say_why(
    chat_model: Path, small: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    cut = Path(shutil.copytree(small, tmp_path / "cut"))
    (cut / "model.safetensors").write_bytes(b"no")
    wordless = write_model(tmp_path / "wordless", vocab_size=4096, **SMALL)
    told = kept(tmp_path / "told", problem="The file is half as long as it should be.")
    found = judged(chat_model, kept(gone), kept(cut), kept(wordless), told)
    assert {each.verdict for each in found.values()} == {Verdict.NO}
    assert found["told"].reason == told.problem
    assert "tokenizer.json" in found["wordless"].reason
    assert all(each.reason for each in found.values())


def test_drafts_of_few_rows_fit_the_target_that_they_were_made_for(
    chat_model: Path, small: Path, tmp_path: Path
) -> None:
    more = with_vocabulary(Path(shutil.copytree(small, tmp_path / "more")), enlarged)
    right = write_reduced(tmp_path / "right", chat_model)
    wrong = write_reduced(tmp_path / "wrong", more)
    told = Predictions(Machine(Host(2, GIB, GIB)), Speeds({}))
    drafts = [kept(right, head=True), kept(wrong, head=True), kept(more)]
    found = candidates(chat_model, drafts, Vocabularies(), speedup=told.speedup)
    assert [each.verdict for each in found] == [Verdict.FITS, Verdict.NO, Verdict.NO]
    assert found[0].name == "right"
    assert found[0].speedup == told.speedup(*map(LocalModel.inspect, (chat_model, right)))
    assert found[0].speedup is not None
    reasons = {each.name: each.reason for each in found}
    assert reasons["wrong"] == "It has another vocabulary."
    assert reasons["more"] == "It has another vocabulary: 9,000 tokens instead of 4,096."
    assert "nothing drafts for it" in judged(right, kept(small))["small"].reason


def test_models_that_transformers_runs_neither_draft_nor_are_drafted_for(
    chat_model: Path, small: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(small, tmp_path / "other"))
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    family = {"model_type": "stablelm", "architectures": ["StableLmForCausalLM"]}
    (other / "config.json").write_text(json.dumps(config | family), encoding="utf-8")
    assert "so they cannot draft" in judged(chat_model, kept(other))["other"].reason
    assert "where nothing can draft" in judged(other, kept(small))["small"].reason
    told = Predictions(Machine(Host(2, GIB, GIB)), Speeds({}))
    target, stranger = LocalModel.inspect(chat_model), LocalModel.inspect(other)
    assert told.speedup(stranger, target) is None
    assert told.speedup(target, stranger) is None


def test_the_best_comes_first_and_the_target_is_none_of_them(chat_model: Path, small: Path) -> None:
    models = [kept(chat_model), kept(FOLDER_TARGET), kept(small)]
    found = candidates(chat_model, models, Vocabularies(), speedup=lambda _t, _d: 1.5)
    assert found[0].name == "small"
    assert found[0].speedup == 1.5
    assert len(found) == 2


def test_a_trained_pair_fits() -> None:
    (found,) = judged(FOLDER_TARGET, kept(FOLDER_DRAFT)).values()
    assert found.verdict is Verdict.FITS


def test_a_vocabulary_is_read_once_and_again_when_it_changes(
    chat_model: Path, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    as_before = LocalModel.tokens

    def counting(model: LocalModel) -> TokenList:
        reads.append(model.path)
        return as_before(model)

    monkeypatch.setattr(LocalModel, "tokens", counting)
    draft, known = Path(shutil.copytree(small, tmp_path / "draft")), Vocabularies()
    with (draft / "tokenizer.json").open("a") as stream:
        stream.write("\n")  # the same tokens in another file
    candidates(chat_model, [kept(draft), kept(small)], known)
    candidates(chat_model, [kept(draft), kept(small)], known)
    assert reads == [chat_model, draft], "of siblings with the same file one is read"
    with_vocabulary(draft, renamed)
    (found,) = candidates(chat_model, [kept(draft)], known)
    assert found.verdict is Verdict.NO


def test_tokens_are_those_that_the_tokenizer_has(
    small: Path, split_gguf: Path, small_gguf: Path
) -> None:
    for path in (small, FOLDER_TARGET, split_gguf, small_gguf):
        model = LocalModel.inspect(path)
        tokens, tokenizer = model.tokens(), model.tokenizer()
        assert tokens.ids == tokenizer.vocabulary
        assert tokenizer.control_tokens.keys() <= tokens.added | {"<unk>"}


@pytest.mark.release(keep=2, reason="every vocabulary")
@pytest.mark.parametrize("name", ["gpt-neox-20b", "gpt2", "mistral", "phi-2", "phi-3-mini"])
def test_published_vocabularies_are_read_as_the_tokenizer_reads_them(
    name: str, published_folder: Path
) -> None:
    folder = published_folder / name
    assert folder_tokens(folder).ids == Tokenizer.open(folder).vocabulary


def test_a_file_that_the_tokenizer_passes_over_is_no_difference(
    published_folder: Path, tmp_path: Path
) -> None:
    """This tokenizer.json has lost its no-break spaces; tokenizer.model says the same, unharmed."""
    shape = {"vocab_size": 32000, "hidden_size": 32, "num_hidden_layers": 1}
    draft = write_model(tmp_path / "draft", intermediate_size=32, **shape)
    target = write_model(tmp_path / "target", **shape)
    files = published_folder / "llama2"
    for folder in (draft, target):
        shutil.copy(files / "tokenizer.model", folder)
    shutil.copy(files / "tokenizer.json", target)
    assert judged(target, kept(draft))["draft"].verdict is Verdict.FITS


def test_what_is_published_is_told_unless_it_is_here() -> None:
    target = curated().model("llama3.1-8b")
    found = list(published(target, curated()))
    assert [each.repo for each in found if not each.head] == ["unsloth/Llama-3.2-1B-Instruct-GGUF"]
    assert [each.head for each in found] == [False, True]
    assert {each.verdict for each in found} == {Verdict.LIKELY}
    assert "15" in found[0].reason
    here = {"meta-llama/llama-3.2-1b-instruct"}
    assert [each.head for each in published(target, curated(), here)] == [True]
    assert not list(published(target, curated(), {*here, str(found[1].repo).lower()}))


def test_a_target_of_a_listed_shape_is_offered_its_drafts(tmp_path: Path) -> None:
    from hollow_models import write_hollow_model

    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2048,
        "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
    }  # fmt: skip
    target = write_hollow_model(tmp_path / "my tuned one", config)
    (found,) = candidates(target, [], Vocabularies())
    assert found.repo == "Qwen/Qwen3-0.6B-GGUF"
