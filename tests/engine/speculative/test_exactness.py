"""Lossless: every loop writes what the target alone writes, token for token."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from native_models import native_decoder

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import PACKABLE
from engine.backend.prefix_cache import PrefixCache
from engine.model.text.tokenizer import Tokenizer
from engine.request import SamplingParams
from engine.speculative import decoding, loops
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import Drafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter

CONTEXT = 512


@pytest.fixture(params=["torch", "native"])
def target(request: pytest.FixtureRequest) -> Decoder:
    """Native models verify in one call; with others, each step can be seen."""
    return _pair(request)[0]


@pytest.fixture
def draft(request: pytest.FixtureRequest) -> Decoder:
    return _pair(request)[1]


def _pair(request: pytest.FixtureRequest) -> tuple[Decoder, Decoder]:
    if request.node.callspec.params["target"] == "torch":
        return request.getfixturevalue("tiny"), request.getfixturevalue("tiny_draft")
    native: tuple[Decoder, Decoder] = request.getfixturevalue("native")[Format.Q8]
    return native


def random_prompt(rng: np.random.Generator, vocab: int, most: int = 140) -> list[int]:
    length = int(rng.integers(1, most))
    tokens = rng.integers(3, vocab, length).tolist()
    # Repeats give lookup something to find.
    return tokens + tokens[-int(rng.integers(1, 20)) :]


def drafters(kind: str, target: Decoder, draft: Decoder) -> Drafter:
    def standalone(model: Decoder) -> StandaloneDrafter:
        context = min(CONTEXT, model.config.max_positions)
        return StandaloneDrafter(model, PrefixCache(model, context, 1 << 28))

    match kind:
        case "another model":
            return standalone(draft)
        case "the target itself":
            return standalone(target)
        case "lookup":
            return LookupDrafter()
        case _:
            return CombinedDrafter([standalone(draft), LookupDrafter(), standalone(target)])


@pytest.mark.release(keep=5, reason="every drafter with every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("kind", ["another model", "the target itself", "lookup", "all"])
def test_every_drafter_under_random_budgets(
    kind: str, sampling: SamplingParams, target: Decoder, draft: Decoder
) -> None:
    drafter = drafters(kind, target, draft)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng, target.config.vocab_size)
        plain = decode(target, prompt, sampling)
        speculative = decode(
            target, prompt, sampling, drafter=drafter, controller=RandomController(rng)
        )
        assert speculative.tokens == plain.tokens
    if kind == "the target itself":
        assert len(speculative.rounds) < len(plain.rounds)


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_random_trees_on_fresh_and_reused_states(sampling: SamplingParams, target: Decoder) -> None:
    vocab = target.config.vocab_size
    state = target.new_state(CONTEXT)
    accepted = 0
    for seed in range(6):
        rng = np.random.default_rng(100 + seed)
        prompt = random_prompt(rng, vocab)
        if seed % 2 and len(state):
            prompt = [*list(state.tokens)[: int(rng.integers(1, len(state)))], *prompt[:9]]
        plain = decode(target, prompt, sampling)
        drafter = OracleDrafter(plain.tokens, len(prompt), vocab, rng)
        speculative = decode(
            target, prompt, sampling, drafter=drafter, controller=RandomController(rng), state=state
        )
        assert speculative.tokens == plain.tokens
        accepted += sum(done.accepted for done in speculative.rounds)
    assert accepted > 60, "the trees hardly tested acceptance"


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_end_token_inside_a_draft_ends_the_answer(
    sampling: SamplingParams, target: Decoder
) -> None:
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(6):
        prompt = random_prompt(rng, target.config.vocab_size, most=30)
        free = decode(target, prompt, sampling, max_tokens=30)
        end = free.tokens[17]
        plain = decode(target, prompt, sampling, max_tokens=30, stop_ids=[end])
        assert plain.tokens[-1] == end
        drafter = OracleDrafter(free.tokens, len(prompt), target.config.vocab_size, rng)
        speculative = decode(
            target,
            prompt,
            sampling,
            drafter=drafter,
            controller=RandomController(rng),
            max_tokens=30,
            stop_ids=[end],
        )
        assert speculative.tokens == plain.tokens
        last = speculative.rounds[-1]
        inside += last.accepted == len(last.tokens)
    assert inside, "no end token was drafted"


@pytest.mark.release(keep=4, reason="every limit")
@pytest.mark.parametrize("max_tokens", [1, 2, 3, 7, None])
def test_the_limit_and_the_full_context_are_met_exactly(
    max_tokens: int | None, target: Decoder
) -> None:
    rng = np.random.default_rng(8)
    for context in (40, 64, 65, 130):
        prompt = rng.integers(3, 320, context - 12).tolist()
        sampling = SamplingParams(temperature=1.0, seed=context)
        plain = decode(target, prompt, sampling, max_tokens=max_tokens, context=context)
        assert len(plain.tokens) == min(max_tokens or 12, 12)
        drafter = OracleDrafter([*plain.tokens, *range(3, 40)], len(prompt), 320, rng)
        speculative = decode(
            target,
            prompt,
            sampling,
            drafter=drafter,
            controller=RandomController(rng),
            max_tokens=max_tokens,
            context=context,
        )
        assert speculative.tokens == plain.tokens


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_bundled_pair_with_its_own_controller(
    sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that only looks at it move: what pays does not depend on who else computes."""
    for module in (decoding, loops):
        monkeypatch.setattr(module, "perf_counter", count(0.0, 1e-3).__next__)
    trained, draft = (native_decoder(each, Format.Q8) for each in (FOLDER_TARGET, FOLDER_DRAFT))
    pool = PrefixCache(draft, CONTEXT, 1 << 28)
    drafter = CombinedDrafter([StandaloneDrafter(draft, pool), LookupDrafter()])
    tokenizer = Tokenizer.open(FOLDER_TARGET)
    prompt = [1, 2, *tokenizer.encode_text("Tell me a short story about a dog."), 4, 3]
    plain = decode(trained, prompt, sampling, max_tokens=80, stop_ids=[4])
    speculative = decode(trained, prompt, sampling, drafter=drafter, max_tokens=80, stop_ids=[4])
    assert speculative.tokens == plain.tokens
    drafting = [done for done in speculative.rounds if done.drafted]
    assert sum(len(done.tokens) for done in drafting) / len(drafting) > 1.8


@pytest.mark.release(keep=8, reason="every format")
@pytest.mark.parametrize("fmt", PACKABLE, ids=lambda fmt: fmt.name)
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_quantised_models_under_random_budgets_and_trees(
    fmt: Format, sampling: SamplingParams, native: dict[Format, tuple[Decoder, Decoder]]
) -> None:
    target, draft = native[fmt]
    drafter = drafters("all", target, draft)
    state = target.new_state(CONTEXT)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng, target.config.vocab_size)
        plain = decode(target, prompt, sampling)
        random = OracleDrafter(plain.tokens, len(prompt), target.config.vocab_size, rng)
        for source in (drafter, random):
            speculative = decode(
                target,
                prompt,
                sampling,
                drafter=source,
                controller=RandomController(rng),
                state=state if source is random else None,
            )
            assert speculative.tokens == plain.tokens


@pytest.mark.release(keep=8, reason="every feature")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("name", ["gemma2", "gemma3_text", "gpt_oss", "every feature"])
def test_windows_softcaps_and_experts(
    name: str, sampling: SamplingParams, featured: dict[str, Decoder]
) -> None:
    target = featured[name]
    drafter = drafters("the target itself", target, target)
    rng = np.random.default_rng(3)
    prompt = random_prompt(rng, target.config.vocab_size)
    plain = decode(target, prompt, sampling)
    random = OracleDrafter(plain.tokens, len(prompt), target.config.vocab_size, rng)
    for source in (drafter, random):
        speculative = decode(
            target, prompt, sampling, drafter=source, controller=RandomController(rng)
        )
        assert speculative.tokens == plain.tokens
        assert len(speculative.rounds) < len(plain.rounds)


@pytest.mark.release(keep=1, reason="every backend")
def test_a_second_turn_reuses_the_first(target: Decoder, draft: Decoder) -> None:
    rng = np.random.default_rng(21)
    sampling = SAMPLINGS["sampled"]
    drafter = drafters("all", target, draft)
    prompt = random_prompt(rng, 320)
    first = decode(target, prompt, sampling, drafter=drafter, controller=RandomController(rng))
    follow_up = [*prompt, *first.tokens, 7, 8, 9]
    again = decode(
        target,
        follow_up,
        sampling,
        drafter=drafter,
        controller=RandomController(rng),
        state=first.state,
    )
    assert again.tokens == decode(target, follow_up, sampling).tokens


def test_an_interrupted_answer_continues_as_if_it_had_not_been(target: Decoder) -> None:
    sampling = SAMPLINGS["sampled"]
    prompt = list(range(3, 30))
    whole = decode(target, prompt, sampling, max_tokens=40).tokens
    begun = decode(target, prompt, sampling, max_tokens=13).tokens
    rest = decode(target, [*prompt, *begun], sampling, max_tokens=27).tokens
    assert [*begun, *rest] == whole
