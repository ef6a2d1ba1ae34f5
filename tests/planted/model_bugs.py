"""Defects of what a model is: its files, its families, its text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from planting import everywhere


def _places(file_kind: str, change: Callable[[Any], Any]) -> None:
    """Change what is said of the stored tensors of one kind of file."""
    from engine.model.weights.parts import PLACES

    places: Any = PLACES
    honest = places[file_kind]
    places[file_kind] = lambda *tensor: map(change, honest(*tensor))


def neighbours_taken_for_halves() -> None:
    """llama.cpp stores the heads of Llama's queries and keys as it rotates them."""
    _places("gguf", lambda part: replace(part, pairs=0))


def rates_taken_as_stored() -> None:
    """The logarithm of a decay's rate is taken for the rate (Qwen3.5)."""
    _places("safetensors", lambda part: replace(part, log_rate=False))


def norms_without_their_one() -> None:
    """Gemma stores the factors of its norms less one."""
    _places("safetensors", lambda part: replace(part, plus_one=False))


def window_without_the_row_itself() -> None:
    """A window of n is the row's own position and n - 1 before it, not n."""
    from engine.model.families import common

    def with_windows(config: Any, source: Any, usual: Any) -> Any:
        blocks = honest(config, source, usual).blocks
        wider = (replace(b, window=b.window + 1) if b.window else b for b in blocks)
        return replace(config, blocks=tuple(wider))

    honest = common.with_windows
    for family in ("gemma", "gpt_oss", "llama", "qwen"):
        everywhere(f"engine.model.families.{family}", "with_windows", with_windows)


def experts_weighed_among_all() -> None:
    """Of the chosen experts some families' weights sum to one, and others' do not."""
    from engine.model import config

    experts: Any = config.Experts
    honest = experts.__init__

    def init(self: Any, *args: Any, **fields: Any) -> None:
        honest(self, *args, **fields)
        object.__setattr__(self, "normalise", not self.normalise)

    experts.__init__ = init


def factors_of_short_texts_for_long_ones() -> None:
    """Longrope has other frequencies once the planned context is longer than the trained one."""
    from engine.model.config import ModelConfig

    ModelConfig.for_context = lambda self, _context: self  # type: ignore[method-assign]


def cut_off_files_taken_for_whole() -> None:
    """A download that broke off has all of its header, and not all of its weights."""
    from engine.model.gguf import header

    def placed(_cursor: Any, tensors: Any, start: int) -> dict[str, Any]:
        return {name: replace(t, begin=start + t.begin) for name, t in tensors.items()}

    header._placed = placed


def damaged_scales_accepted() -> None:
    """A scale that is no number makes every row of its block NaN, much later."""
    from engine.backend.native.library import library

    repack = library().dt_repack_rows

    class Blind:
        def __getattr__(self, name: str) -> Any:
            return getattr(library(), name)

        def dt_repack_rows(self, *arguments: Any) -> int:
            repack(*arguments)
            return 0

    everywhere("engine.backend.native.matrix", "library", Blind)


def end_of_text_taken_for_html() -> None:
    """Phi-3 calls `</s>` a word: typed, it would be the token that ends a text."""
    from engine.model.text.vocabulary import library

    honest = library._with_control_mark
    library._with_control_mark = lambda token, marks: honest(token, set(marks) - {"s"})


def message_end_ends_the_answer() -> None:
    """gpt-oss's <|end|> closes a thought, and the answer stops before it has said anything."""
    from engine.model.text import template_source

    template_source._ANSWER_ENDS = ()  # type: ignore[assignment]


def spaces_behind_control_tokens_doubled() -> None:
    """A template's "[INST] " gets a second space from the vocabulary, as at the start of a text."""
    from engine.model.text.vocabulary import library

    honest = library.libraries

    def libraries(vocabulary: Any) -> Any:
        right = honest(vocabulary)
        return replace(right, inner=right.start)

    everywhere("engine.model.text.tokenizer", "libraries", libraries)
