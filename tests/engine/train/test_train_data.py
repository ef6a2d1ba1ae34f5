"""Data: formats, order, what counts as an answer, and words for what is wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from folder_models import FOLDER_TARGET
from training_runs import write_data

from engine.errors import Absent, UserFixable
from engine.model.local_model import LocalModel
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.request import Message, Role
from engine.train.answers import Renderer, TokenSequence
from engine.train.batches import Batch, Batches, BatchPlace
from engine.train.conversations import Example, ShuffledExamples, find_sources
from engine.train.recording import (
    Recorded,
    Recording,
    RecordingWriter,
    held_out,
    record,
    shard_files,
    write_whole,
)


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


def test_lines_that_hold_nothing_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.train.conversations.LONGEST_LINE", 60)
    file = tmp_path / "data.jsonl"
    wrong = ('{"text": 3}', "nonsense", "[1]", '{"messages": [{"role": "x"}]}')
    more = ('{"messages": ["x"]}', json.dumps({"text": "long " * 100}), '{"text": "as good"}')
    file.write_text("\n".join(('{"text": "good"}', *wrong, *more)) + "\n")
    examples = ShuffledExamples(find_sources([file]), seed=0)
    assert {one.text for one in examples} == {"good", "as good"}
    assert examples.skipped == 6


def test_compressed_files_are_read_like_others(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    plain = write_data(tmp_path / "data.jsonl")
    packed = tmp_path / "packed.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    assert _examples(packed) == _examples(plain)
    packed.write_bytes(packed.read_bytes() * 2)
    assert _examples(packed) == _examples(plain) * 2
    packed.write_bytes(b"no frame at all")
    with pytest.raises(UserFixable, match="cannot be read"):
        _examples(packed)


def test_compressed_files_need_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression", "compression.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "packed.jsonl.zst").write_bytes(b"x")
    with pytest.raises(Absent) as error:
        _examples(tmp_path / "packed.jsonl.zst")
    assert "zstandard" in error.value.remedy


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


@pytest.mark.parametrize(("examples", "characters"), [(4096, 32 << 20), (8, 32 << 20), (4096, 300)])
def test_every_seed_has_every_example_once_in_another_order(
    tmp_path: Path, examples: int, characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.train.conversations.BUFFER", examples)
    monkeypatch.setattr("engine.train.conversations.BUFFER_CHARACTERS", characters)
    write_data(tmp_path / "a.jsonl", 70)
    (tmp_path / "b.txt").write_text("one text")
    sources = find_sources([tmp_path])
    drawn = [list(ShuffledExamples(sources, seed)) for seed in (0, 1, 0)]
    assert sorted(map(str, drawn[0])) == sorted(map(str, drawn[1]))
    assert len(set(map(str, drawn[0]))) == 71
    assert drawn[0] != drawn[1]
    assert drawn[0] == drawn[2]


def test_recordings_of_earlier_versions_find_their_examples_again(tmp_path: Path) -> None:
    """An example is known by its place in the order."""
    write_data(tmp_path / "a.jsonl", 70)
    first = [one.messages[0].text for one in ShuffledExamples(find_sources([tmp_path]), 0)][:3]
    assert first == [
        "at the clock 62", "nobody looks at the clock 24", "sea while nobody looks at the clock 4",
    ]  # fmt: skip


def test_a_folder_may_hold_more_files_than_may_be_open(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    for number in range(600):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (150, hard))
    try:
        drawn = [one.text for one in ShuffledExamples(find_sources([tmp_path]), seed=0)]
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
    assert len(cut.tokens) == 12
    assert renderer.sequence(Example((Message(Role.USER, "no answer"),))) is None
    assert Renderer(*text, longest=4).sequence(_two_turns()) is None


def test_all_of_a_plain_text_is_learned(text: tuple[Tokenizer, ChatTemplate]) -> None:
    tokenizer, template = text
    sequence = Renderer(tokenizer, template, 100).sequence(Example(text="A calm sea."))
    assert sequence is not None
    assert tokenizer.decode(sequence.tokens.tolist()) == "<|bos|>A calm sea."
    assert sequence.answers.tolist() == [False] + [True] * (len(sequence.tokens) - 1)


def test_templates_that_change_earlier_turns_or_refuse(
    text: tuple[Tokenizer, ChatTemplate], tmp_path: Path
) -> None:
    def rendered(template: str) -> TokenSequence | None:
        (tmp_path / "chat_template.jinja").write_text(template)
        return Renderer(text[0], ChatTemplate.open(tmp_path), 100).sequence(_two_turns())

    shutil.copy(FOLDER_TARGET / "tokenizer_config.json", tmp_path)
    marked = "{%- for m in messages %}{{- ('now: ' if loop.last else '') + m.content }}{% endfor %}"
    sequence = rendered(marked)
    assert sequence is not None
    learned = sequence.tokens[sequence.answers].tolist()
    assert text[0].decode(learned) == "another one!"
    assert text[0].decode(sequence.tokens.tolist()).endswith("now: and nowanother one!")
    assert rendered("{{ raise_exception('not these roles') }}") is None


def _recorded(folder: Path, lengths: list[int], taps: tuple[int, ...] = (4,)) -> Recording:
    recorder, rng = RecordingWriter(folder, "test", taps), np.random.default_rng(0)
    for index, length in enumerate(lengths):
        tokens = rng.integers(0, 300, length).astype(np.int32)
        states = rng.standard_normal((length, len(taps) + 1, 8))
        halves = torch.from_numpy(states).to(torch.bfloat16)
        recorder.add(Recorded(index, tokens, np.arange(length) >= 3, halves))
    recorder.flush()
    return Recording(folder, "test", taps)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    lengths = np.random.default_rng(1).integers(8, 60, 400).tolist()
    with _recorded(tmp_path / "recording", lengths) as recording:
        yield recording


def test_a_place_in_the_data_is_found_again(recording: Recording) -> None:
    """From every batch on, over the border of an epoch, the next ones are the same."""

    def from_place(place: BatchPlace) -> Iterator[Batch]:
        return Batches(recording, 1, 256, seed=0).from_place(place)

    batches = list(islice(from_place(BatchPlace()), 120))
    assert batches[-1].next.epoch > 0
    for number in (0, 3, 16, 17, 70, 100):
        following = islice(from_place(batches[number].next), 5)
        for one, other in zip(following, batches[number + 1 :], strict=False):
            assert torch.equal(one.tokens, other.tokens)
            assert torch.equal(one.features, other.features)
            assert one.next == other.next


def test_held_out_sequences_are_never_trained_on(recording: Recording) -> None:
    def rows(batch: Batch) -> set[tuple[int, ...]]:
        pairs = zip(batch.tokens, batch.lengths.tolist(), strict=True)
        return {tuple(row[:length].tolist()) for row, length in pairs}

    batches, trained = Batches(recording, 0, 256, seed=0), set[tuple[int, ...]]()
    held = set[tuple[int, ...]]().union(*map(rows, batches.held_out(10**9)))
    assert [len(batch.tokens) for batch in batches.held_out(1)] == [1]
    for batch in batches.from_place(BatchPlace()):
        trained |= rows(batch)
        if batch.next.epoch:
            break
    assert held
    assert not held & trained
    assert len(held) + len(trained) == len(recording)


def test_batches_stay_within_their_size_and_have_their_own_states(recording: Recording) -> None:
    states = {
        tuple(tokens.tolist()): recording.states(number)
        for number, tokens in enumerate(recording.tokens)
    }
    for batch in islice(Batches(recording, 1, 256, seed=0).from_place(BatchPlace()), 40):
        assert batch.tokens.numel() <= 256
        for row, length in enumerate(batch.lengths.tolist()):
            known = states[tuple(batch.tokens[row, :length].tolist())].float()
            assert torch.equal(batch.features[row, :length], known[:, 0])
            assert torch.equal(batch.hidden[row, :length], known[:, 1])
            assert not batch.hidden[row, length:].any()
            assert batch.answers[row].nonzero().flatten().tolist() == list(range(3, length))


def test_a_recording_serves_all_drafts_whose_blocks_it_has(tmp_path: Path) -> None:
    with _recorded(tmp_path, [9, 30], taps=(1, 4, 7)) as whole:
        every = whole.states(1)
    assert every.shape == (30, 4, 8)
    for taps, parts in (((), [3]), ((4,), [1, 3]), ((1, 7), [0, 2, 3])):
        with Recording(tmp_path, "test", taps) as some:
            assert torch.equal(some.states(1), every[:, parts])
    with pytest.raises(UserFixable, match="was recorded with another model"):
        Recording(tmp_path, "test", (1, 2))
    with pytest.raises(UserFixable, match="was recorded with another model"):
        RecordingWriter(tmp_path, "test", (2,))


def test_a_recording_is_kept_in_files_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.train.recording.SHARD_TOKENS", 100)
    with _recorded(tmp_path, [40] * 10) as recording:
        assert len(shard_files(tmp_path)) == 4
        assert len(recording) == 10
    writer = RecordingWriter(tmp_path, "test")
    assert writer.tokens == 400
    assert writer.indices == set(range(10))
    with pytest.raises(UserFixable, match="recorded with another"):
        RecordingWriter(tmp_path, "other")


def test_a_recording_ends_with_enough_tokens_and_goes_on_from_those(tmp_path: Path) -> None:
    def sequences(count: int) -> Iterator[Recorded]:
        for index in range(count):
            tokens = np.full(40, index, dtype=np.int32)
            yield Recorded(index, tokens, tokens == tokens, torch.zeros(40, 2, 8))
        pytest.fail("there were enough")

    record(sequences(3), RecordingWriter(tmp_path, "test"), 100, lambda _: None)
    writer = RecordingWriter(tmp_path, "test")
    assert writer.tokens == 120
    record(sequences(0), writer, 100, lambda _: None)
    with Recording(tmp_path, "test") as recording:
        ids, covered = recording.frequent_tokens(2, 10, np.array([7, 9]))
        more, _ = recording.frequent_tokens(6, 10, np.array([7, 9]))
    assert ids.tolist() == [0, 1]
    assert more.tolist() == [0, 1, 2, 3, 7, 9]
    assert covered == pytest.approx(2 / 3)
    (file,) = shard_files(tmp_path)
    file.write_bytes(b"cut off")
    with pytest.raises(UserFixable, match="is damaged"):
        RecordingWriter(tmp_path, "test")


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "The disk is full"), (errno.EIO, "cannot be written")]
)
def test_what_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(number, os.strerror(number))

    file = tmp_path / "file"
    write_whole(file, b"before")
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(UserFixable, match=words):
        write_whole(file, b"after")
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]


def test_an_empty_recording_is_told(tmp_path: Path) -> None:
    with _recorded(tmp_path, []) as recording, pytest.raises(UserFixable, match="no answer"):
        Batches(recording, 0, 256, seed=0)


def test_what_is_held_out_depends_on_what_was_asked_alone() -> None:
    def apart(asked: list[int], answer: list[int]) -> bool:
        tokens = np.array([*asked, *answer], dtype=np.int32)
        return held_out(tokens, np.arange(len(tokens)) >= len(asked))

    questions = [[*range(40), number] for number in range(640)]
    same = [apart(asked, [1, 2, 3]) for asked in questions]
    assert same == [apart(asked, [4, 5]) for asked in questions]
    assert 2 < sum(same) < 30
