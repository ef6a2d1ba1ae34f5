"""Answers written many at a time are those that the target writes alone; so are their states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from native_models import native_decoder

from engine.backend.cpu import native_is_built
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import ROWS, NativeSegment
from engine.backend.native.sequence_batch import SequenceBatch
from engine.commands import WeightFormat
from engine.errors import NotPossible
from engine.request import Message, Role
from engine.train.answers import LANES, TEMPERATURES, TargetWriter, own_answers
from engine.train.conversations import Example
from engine.train.recording import Recorded
from engine.train.targets import open_target

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native backend is not built")


@pytest.fixture
def decoder(chat_model: Path) -> Decoder:
    return native_decoder(chat_model, Format.Q8)


def _prompts(count: int) -> list[list[int]]:
    rng = np.random.default_rng(2)
    return [rng.integers(10, 200, 5 + 11 * (number % 13)).tolist() for number in range(count)]


def test_each_row_has_the_numbers_that_it_has_alone(decoder: Decoder) -> None:
    segment = decoder.segments[0]
    assert isinstance(segment, NativeSegment)
    sequences = [row[:70] for row in _prompts(3)]
    batch, found = SequenceBatch(segment, 4, 100), [list[np.ndarray]() for _ in sequences]
    for place in range(max(map(len, sequences))):
        lanes = [lane for lane, row in enumerate(sequences) if place < len(row)]
        tokens = [sequences[lane][place] for lane in lanes]
        output = batch.forward([lane + 1 for lane in lanes], tokens, range(len(lanes)))
        assert output.logits is not None
        for row, lane in enumerate(lanes):
            found[lane].append(np.concatenate((output.hidden[row], output.logits[row])))
    for rows, tokens in zip(found, sequences, strict=True):
        alone = decoder.forward(decoder.new_state(100), tokens)
        np.testing.assert_array_equal(rows, np.concatenate((alone.hidden, alone.logits), 1))


def test_a_lane_that_is_cleared_begins_anew_and_a_full_one_is_refused(decoder: Decoder) -> None:
    segment = decoder.segments[0]
    assert isinstance(segment, NativeSegment)
    batch = SequenceBatch(segment, 2, 64)
    first = batch.forward([0] * 64, list(range(64)), [63]).hidden.copy()
    with pytest.raises(ValueError, match="room"):
        batch.forward([0], [1], [0])
    batch.clear(0)
    np.testing.assert_array_equal(batch.forward([0] * 64, list(range(64)), [63]).hidden, first)
    assert batch.lengths.tolist() == [64, 0]


def test_greedy_answers_and_all_states_are_the_targets_own(decoder: Decoder) -> None:
    prompts, taps, written = _prompts(LANES + 9), (0, 1), dict[int, Recorded]()
    ends = set(range(0, 320, 16))
    writer = TargetWriter(decoder, ends, longest=200, longest_answer=24, taps=taps)

    for one in writer.write(iter(enumerate(prompts))):
        written[one.index] = one
    assert sorted(written) == list(range(len(prompts)))
    for index, prompt in enumerate(prompts):
        one = written[index]
        tokens = one.tokens.tolist()
        assert tokens[: len(prompt)] == prompt
        assert one.answers.tolist() == [False] * len(prompt) + [True] * (len(tokens) - len(prompt))
        assert len(tokens) - len(prompt) == 24 or tokens[-1] in ends
        assert not ends & set(tokens[len(prompt) : -1])
        alone = decoder.forward(decoder.new_state(250), tokens, taps=taps)
        if TEMPERATURES[index % len(TEMPERATURES)] == 0:
            likeliest = alone.logits.argmax(1).tolist()
            assert tokens[len(prompt) :] == likeliest[len(prompt) - 1 : -1]
        states = np.stack([alone.taps[0], alone.taps[1], alone.hidden], 1)[:-1]
        kept = one.states.float().numpy()
        np.testing.assert_array_equal(
            kept[:-1], torch.from_numpy(states).to(torch.bfloat16).float().numpy()
        )
        assert not kept[-1].any()


def test_a_prompt_longer_than_a_forward_is_read_in_parts(decoder: Decoder) -> None:
    prompt = [number % 300 for number in range(2 * ROWS + 5)]
    writer = TargetWriter(decoder, (), longest=600, longest_answer=4)
    (one,) = writer.write(iter([(0, prompt)]))
    assert one.tokens.tolist()[: len(prompt)] == prompt
    forward = decoder.forward(decoder.new_state(600), prompt, logit_rows=(len(prompt) - 1,))
    assert one.tokens[len(prompt)] == forward.logits[0].argmax()


def test_questions_alone_are_answered_each_once(chat_model: Path) -> None:
    ask, said = Message(Role.USER, "Hello"), Message(Role.ASSISTANT, "Hi")
    examples = [
        Example(text="no question"),
        Example((ask, said)),
        Example((said,)),
        Example((ask,)),
    ]
    cpu = torch.device("cpu")
    with open_target(chat_model, WeightFormat.Q8, cpu, 1, 64) as target:
        found = own_answers(target, examples, {1}, taps=(), longest=64, longest_answer=4, seed=0)
        assert [one.index for one in found] == [3]


def test_warm_answers_depend_on_the_seed_and_the_prompt_alone(decoder: Decoder) -> None:
    def answers(count: int, seed: int) -> dict[int, list[int]]:
        writer = TargetWriter(decoder, (), longest=200, longest_answer=12, seed=seed)
        every = enumerate(_prompts(count))
        return {one.index: one.tokens.tolist() for one in writer.write(every)}

    few, many, other = answers(4, 0), answers(40, 0), answers(4, 1)
    assert few == {index: many[index] for index in few}
    assert other[0] == few[0]
    assert other[1] != few[1]


def test_only_a_whole_native_model_writes(chat_model: Path) -> None:
    from engine.backend.torch_cpu.segment import TorchCpuBackend
    from engine.model.families import open_config
    from engine.model.weights.model_weights import ModelWeights

    config = open_config(chat_model)
    other = Decoder.build(config, ModelWeights.of_folder(config, chat_model), TorchCpuBackend())
    with pytest.raises(NotPossible, match="CPU"):
        TargetWriter(other, (), longest=64, longest_answer=8)
