"""llama.cpp as a writer of benchmark answers: plain decoding of the model that a pair has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.bench.harness import BenchAnswer
from engine.bench.pair_writer import PairWriter
from engine.bench.peer.side import LlamaCppSide, PeerSettings, llama_cpp, llama_cpp_of_file
from engine.bench.subject import stored_subject
from engine.loading.load import LoadedPair
from engine.model.local_model import LocalModel
from engine.request import ChatRequest
from engine.session.answer import read
from engine.session.tally import Tally


class PeerWriter:
    """llama.cpp as a `engine.bench.harness.Writer`.

    It has the prompt's token ids from us, and goes on for as many tokens as our plain answer had.

    Args:
        side: the peer.
        plain: the same model decoding plainly, which answers first.
    """

    def __init__(self, side: LlamaCppSide, plain: PairWriter) -> None:
        self._side, self._plain = side, plain

    @property
    def settings(self) -> PeerSettings:
        """Versions and settings that it was measured with."""
        return self._side.settings

    def write(self, request: ChatRequest) -> BenchAnswer:
        """See `Writer`."""
        pair, count = self._plain.pair, self._plain.tokens
        prompt = read(request, pair.template, pair.tokenizer)
        tokens, seconds = self._side.answer(prompt.ids, count + 1, request.sampling)
        tally = Tally(
            committed=count + 1, first_at=0.0, last_at=seconds, rounds=count, plain_rounds=count
        )
        return BenchAnswer(tally.stats(0.0, None), tuple(tokens), ended=False)


@contextmanager
def peer_writer(plain: PairWriter) -> Iterator[PeerWriter]:
    """llama.cpp with the file of the pair's target; weights in safetensors are written as GGUF.

    Raises:
        Absent: it is not installed.
        UserFixable: it cannot have the same model, or it fails.
    """
    with _side(plain.pair) as side:
        yield PeerWriter(side, plain)


@contextmanager
def _side(pair: LoadedPair) -> Iterator[LlamaCppSide]:
    gguf = LocalModel.inspect(pair.path).gguf
    context, vocab = pair.plan.context, pair.target.config.vocab_size
    if gguf is not None:
        with llama_cpp_of_file(gguf.files[0], vocab, context) as side:
            yield side
    else:
        subject = stored_subject(pair.path, pair.command.weights)
        with llama_cpp(subject.config, subject.weights, context=context) as side:
            yield side
