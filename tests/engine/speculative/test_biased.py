"""A bias of tokens: it shifts what the target draws, so every loop writes the same biased text."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from grammars import constraint
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from native_models import native_decoder
from parallel_runs import RandomPace, lane_of, run
from scripted_lanes import script_the_draft, script_time

from engine.backend.cpu import native_is_built
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.prefix_cache import PrefixCache
from engine.model.text.grammar import GrammarCompiler
from engine.model.text.tokenizer import Tokenizer
from engine.request import Bias, SamplingParams
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

CONTEXT = 512

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")


@pytest.fixture(scope="module")
def target() -> Decoder:
    return native_decoder(FOLDER_TARGET, Format.Q8)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(FOLDER_TARGET)


def biases(rng: np.random.Generator, vocab: int, begins: int) -> Bias:
    """Some tokens that are wanted, some that are not, one that the vocabulary does not have.

    Among those that are not is `begins`, the token that the answer begins with otherwise.
    """
    chosen = rng.choice(vocab, 40, replace=False).tolist()
    values = [*rng.uniform(-100, -1, 20).tolist(), *rng.uniform(0.5, 6, 20).tolist()]
    biases = dict(zip(chosen, values, strict=True)) | {begins: -100.0, vocab + 7: 50.0}
    return tuple(biases.items())


@pytest.mark.release(keep=3, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_every_loop_writes_the_same(
    sampling: SamplingParams,
    target: Decoder,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft, vocab = native_decoder(FOLDER_DRAFT, Format.Q8), target.config.vocab_size
    context = min(CONTEXT, draft.config.max_positions)
    drafters = [StandaloneDrafter(draft, PrefixCache(draft, context, 1 << 28)), LookupDrafter()]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        prompt = tokenizer.encode_text("Tell me about the sea.")
        unbiased = decode(target, prompt, sampling, context=CONTEXT).tokens
        bias = biases(rng, vocab, unbiased[0])
        write = partial(decode, target, prompt, sampling, context=CONTEXT, bias=bias)
        plain = write()
        assert plain.tokens != unbiased
        assert write(native=False).tokens == plain.tokens, "the definition draws something else"
        oracle = OracleDrafter(plain.tokens, len(prompt), vocab, rng)
        for drafter in (*drafters, oracle):
            done = write(drafter=drafter, controller=RandomController(rng))
            assert done.tokens == plain.tokens, type(drafter)
        with monkeypatch.context() as patch:
            script_the_draft(patch)
            script_time(patch)
            lane, pace = lane_of(draft, CONTEXT, [LookupDrafter()]), RandomPace(rng)
            beside = run(target, lane, prompt, sampling, controller=pace, bias=bias)
            assert beside.tokens == plain.tokens, "parallel"


def test_a_bias_decides_among_what_a_grammar_allows(target: Decoder, tokenizer: Tokenizer) -> None:
    vocab = target.config.vocab_size
    compiler = GrammarCompiler(tokenizer, vocab)
    row = np.random.default_rng(4).normal(0, 2, vocab).astype(np.float32)
    own = constraint(compiler, "regex", 0)
    bits = np.unpackbits(own.allowed([]).view(np.uint8), bitorder="little")[:vocab]
    allowed, wanted = np.flatnonzero(bits).tolist(), int(np.flatnonzero(~bits.astype(bool))[0])
    for native in (True, False):
        for token in allowed[:5]:
            bias = ((token, 100.0), (wanted, 200.0))
            sampler = Sampler(SamplingParams(), constraint=own, native=native, bias=bias)
            assert sampler.draw(row, []) == token
