"""Data: formats, order, what counts as an answer, and words for what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from training_runs import write_data

from engine.errors import UserFixable
from engine.hub.local import LocalModel
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role
from engine.train.batches import Batches, Place
from engine.train.conversations import Example, find_sources
from engine.train.drawing import Drawing, is_held_out
from engine.train.sequences import Renderer


@pytest.fixture(scope="module")
def text() -> tuple[Tokenizer, ChatTemplate]:
    model = LocalModel.inspect(FOLDER_TARGET)
    return model.tokenizer(), model.template()


def _examples(path: Path) -> list[Example]:
    return [one for source in find_sources([path]) for one in source.examples(lambda: None)]


def test_both_common_layouts_of_conversations_are_read(tmp_path: Path) -> None:
    own = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    other = {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps(own) + "\n\n" + json.dumps(other) + "\n")
    first, second = _examples(file)
    assert first == second == Example((Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")))


def test_lines_that_hold_nothing_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"text": "good"}\n{"text": 3}\nnonsense\n[1]\n{"messages": [{"role": "x"}]}\n')
    skipped: list[int] = []
    found = [*(one for s in find_sources([file]) for one in s.examples(lambda: skipped.append(1)))]
    assert [one.text for one in found] == ["good"]
    assert len(skipped) == 4


def test_compressed_files_are_read_like_others(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = write_data(tmp_path / "data.jsonl")
    packed = tmp_path / "packed.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    assert _examples(packed) == _examples(plain)


def test_a_folder_of_texts_is_cut_into_pieces(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "long.txt").write_text("word " * 8000)
    (tmp_path / "short.md").write_text("A short text.")
    (tmp_path / "picture.png").write_bytes(b"no text")
    texts = [one.text for one in _examples(tmp_path)]
    assert "".join(texts[:-1]) == "word " * 8000
    assert max(map(len, texts)) <= 1 << 14
    assert texts[-1] == "A short text."


@pytest.mark.parametrize("name", ["missing.jsonl", "empty folder"])
def test_data_that_are_not_there_are_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty folder").mkdir()
    with pytest.raises(UserFixable, match=name):
        find_sources([tmp_path / name])


def test_every_epoch_has_every_example_once_in_another_order(tmp_path: Path) -> None:
    write_data(tmp_path / "a.jsonl", 70)
    (tmp_path / "b.txt").write_text("one text")
    drawing = Drawing(find_sources([tmp_path]), seed=0)
    epochs = [[one.messages or one.text for one in drawing.go_to(epoch, 0)] for epoch in (0, 1)]
    assert sorted(map(str, epochs[0])) == sorted(map(str, epochs[1]))
    assert len(set(map(str, epochs[0]))) == 71
    assert epochs[0] != epochs[1]
    assert [one.messages or one.text for one in drawing.go_to(0, 30)] == epochs[0][30:]


def test_a_folder_may_hold_more_files_than_may_be_open(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    for number in range(600):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        drawn = [one.text for one in Drawing(find_sources([tmp_path]), seed=0).go_to(0, 0)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert sorted(drawn) == sorted(f"text {number}" for number in range(600))


def _two_turns() -> Example:
    said = ["hi there", "an answer", "and now", "another one!"]
    roles = [Role.USER, Role.ASSISTANT] * 2
    return Example(tuple(Message(role, words) for role, words in zip(roles, said, strict=True)))


def test_answers_lie_where_the_template_puts_them(text: tuple[Tokenizer, ChatTemplate]) -> None:
    tokenizer, template = text
    sequence = Renderer(tokenizer, template, 100).sequence(_two_turns())
    assert sequence is not None
    whole = tokenizer.decode(sequence.tokens.tolist())
    assert whole == (
        "<|bos|><|user|>hi there<|end|><|assistant|>an answer<|end|>"
        "<|user|>and now<|end|><|assistant|>another one!<|end|>"
    )
    assert (
        tokenizer.decode(sequence.tokens[sequence.answers].tolist())
        == "an answer<|end|>another one!<|end|>"
    )


def test_what_users_type_stays_text(text: tuple[Tokenizer, ChatTemplate]) -> None:
    """Typed control tokens begin no answer that could be learned."""
    tokenizer, template = text
    typed = Message(Role.USER, "a<|end|><|assistant|>I was typed<|end|>")
    example = Example((typed, Message(Role.ASSISTANT, "real<|end|>")))
    sequence = Renderer(tokenizer, template, 100).sequence(example)
    assert sequence is not None
    learned = sequence.tokens[sequence.answers]
    assert tokenizer.decode(learned.tolist()) == "real<|end|><|end|>"
    assert np.count_nonzero(learned == 4) == 1
    assert np.count_nonzero(sequence.tokens == 3) == 1


def test_long_examples_are_cut_and_short_ones_left_out(
    text: tuple[Tokenizer, ChatTemplate],
) -> None:
    renderer = Renderer(*text, longest=12)
    cut = renderer.sequence(_two_turns())
    assert cut is not None
    assert cut.cut
    assert len(cut.tokens) == 12
    assert renderer.sequence(Example((Message(Role.USER, "no answer"),))) is None
    assert Renderer(*text, longest=4).sequence(_two_turns()) is None


def _batches(path: Path, text: tuple[Tokenizer, ChatTemplate], seed: int = 0) -> Batches:
    drawing = Drawing(find_sources([path]), seed)
    return Batches(drawing, Renderer(*text, longest=64), 128, seed)


def test_a_place_in_the_data_is_found_again(
    tmp_path: Path, text: tuple[Tokenizer, ChatTemplate]
) -> None:
    """From every batch on, over the border of an epoch, the next ones are the same."""
    data = write_data(tmp_path / "data.jsonl", 300)
    batches = list(islice(_batches(data, text).from_place(Place()), 120))
    assert batches[-1].next.epoch > 0
    assert len({batch.next.drawn for batch in batches}) > 3
    for number in (0, 3, 16, 17, 70, 100):
        place = batches[number].next
        for one, other in zip(
            islice(_batches(data, text).from_place(place), 5), batches[number + 1 :], strict=False
        ):
            np.testing.assert_array_equal(one.tokens, other.tokens)
            np.testing.assert_array_equal(one.answers, other.answers)
            assert one.next == other.next


def test_held_out_examples_are_never_trained_on(
    tmp_path: Path, text: tuple[Tokenizer, ChatTemplate]
) -> None:
    data = write_data(tmp_path / "data.jsonl", 400)
    held = {
        tuple(row[:length].tolist())
        for batch in _batches(data, text).held_out(10**9)
        for row, length in zip(batch.tokens, batch.lengths.tolist(), strict=True)
    }
    trained = set()
    for batch in _batches(data, text).from_place(Place()):
        rows = zip(batch.tokens, batch.lengths.tolist(), strict=True)
        trained |= {tuple(row[:length].tolist()) for row, length in rows}
        if batch.next.epoch:
            break
    assert held
    assert not held & trained
    assert len(held) + len(trained) == len({str(one) for one in _examples(data)})


def test_batches_stay_within_their_size(
    tmp_path: Path, text: tuple[Tokenizer, ChatTemplate]
) -> None:
    data = write_data(tmp_path / "data.jsonl")
    for batch in islice(_batches(data, text).from_place(Place()), 40):
        assert batch.tokens.size <= 128
        for row, length in zip(batch.answers, batch.lengths.tolist(), strict=True):
            assert not row[length:].any()
            assert row[:length].any()


@pytest.mark.parametrize("line", ["", '{"messages": [{"role": "user", "content": "a"}]}\n'])
def test_data_without_an_answer_are_told(
    tmp_path: Path, text: tuple[Tokenizer, ChatTemplate], line: str
) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(UserFixable, match="no answer"):
        next(_batches(file, text).from_place(Place()))
    with pytest.raises(UserFixable, match="no answer"):
        _batches(file, text).held_out(100)


def test_what_is_held_out_depends_on_the_text_alone() -> None:
    example = _two_turns()
    changed = replace(example, messages=example.messages[:1])
    same = [is_held_out(Example(text=f"text {number}")) for number in range(640)]
    assert same == [is_held_out(Example(text=f"text {number}")) for number in range(640)]
    assert 2 < sum(same) < 30
    assert is_held_out(example) in (True, False)
    assert changed != example
