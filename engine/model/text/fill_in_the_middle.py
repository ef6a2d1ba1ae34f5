"""Prompts of models that write what stands between two texts, by the tokens of their vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.text.tokenizer import Tokenizer

_FORMS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen Coder, CodeGemma
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),  # SantaCoder
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek Coder
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),  # Code Llama
)
"""Tokens before the first text, before the second, and where the model begins."""
_SUFFIX_FIRST = "[SUFFIX]", "[PREFIX]"
"""Codestral's: the second text comes before the first, which the model then goes on with."""
_ENDS = ("<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "▁<EOT>", "<EOT>")
"""Tokens that say that what is missing is written; they are no ends of answers."""


def middle_prompt(before: str, behind: str, tokenizer: Tokenizer) -> list[int] | None:
    """Return the ids that ask for what stands between two texts; None: the model was not taught so.

    Args:
        before, behind: the texts, in which nothing is a control token.
        tokenizer: of the model.
    """
    first, last = tokenizer.encode_text(before), tokenizer.encode_text(behind)
    for form in _FORMS:
        if (marks := _ids(form, tokenizer)) is not None:
            return [marks[0], *first, marks[1], *last, marks[2]]
    if (marks := _ids(_SUFFIX_FIRST, tokenizer)) is not None:
        return [marks[0], *last, marks[1], *first]
    return None


def middle_ends(tokenizer: Tokenizer) -> frozenset[int]:
    """Return the tokens that end what stands in the middle."""
    found = (tokenizer.id_of(end) for end in _ENDS)
    return frozenset(each for each in found if each is not None)


def _ids(form: Sequence[str], tokenizer: Tokenizer) -> list[int] | None:
    """Return the ids of a form's tokens, where all are in the vocabulary."""
    found = [tokenizer.id_of(mark) for mark in form]
    known = [each for each in found if each is not None]
    return known if len(known) == len(form) else None
