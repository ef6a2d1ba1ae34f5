from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.text.thinking import AnswerPart, ThoughtSplitter, parts

_MENTIONED = "R1 puts its thoughts between <think> and </think> tags, then answers."


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>\nhm\n</think>\n\nYes.", "hm", "Yes."),
        ("<thinking>hm</thinking>Yes.", "hm", "Yes."),
        ("\n<think></think>Yes.", "", "Yes."),
        ("<think>still at it", "still at it", ""),
        ("hm, so\n</think>\nYes.", "hm, so", "Yes."),
        ("Yes.", "", "Yes."),
        ("Write `</think>` at the end.", "", "Write `</think>` at the end."),
        ("```\n<think>\n```\nend", "", "```\n<think>\n```\nend"),
        ("The tag <think> opens it.", "", "The tag <think> opens it."),
        ("<think>a</think>b\n<think>c</think>d", "ac", "b\nd"),
        ("a < b and <thin", "", "a < b and <thin"),
        ("<think>a</think>b </think> c", "a", "b </think> c"),
        (_MENTIONED, "", _MENTIONED),
        (f"{_MENTIONED}\n</think>\nYes.", _MENTIONED, "Yes."),
        (f"<think>\nHm, <think>\n</think>{_MENTIONED}", "Hm, <think>", _MENTIONED),
        ("It ends with </think>, always.", "", "It ends with </think>, always."),
        ("hm </think> \t\nYes.", "hm", "Yes."),
        ("hm</think>", "hm", ""),
        (
            "between <think> and </think>\nand </think>\nYes",
            "between <think> and </think>\nand",
            "Yes",
        ),
        ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
        ("hm\n[/THINK]\nYes [1].", "hm", "Yes [1]."),
    ],
)
def test_what_is_thought_and_what_is_said(text: str, thought: str, said: str) -> None:
    assert parts(text) == (thought, said)


_WORDS = st.sampled_from(
    ["<think>", "</think>", "[THINK]", "[/THINK]", "`", "```", "\n", "a ", "<", "<th"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_WORDS, max_size=14).map("".join), st.lists(st.integers(0, 99), max_size=6))
def test_cut_anywhere_it_comes_to_the_same(text: str, cuts: list[int]) -> None:
    def pieces(edges: list[int]) -> list[tuple[AnswerPart, str]]:
        splitter = ThoughtSplitter()
        found: list[tuple[AnswerPart, str]] = []
        for start, end in pairwise(edges):
            found += [(piece.part, piece.text) for piece in splitter.feed(text[start:end])]
        found += [(piece.part, piece.text) for piece in splitter.finish()]
        joined: list[tuple[AnswerPart, str]] = []
        for part, piece in found:
            if joined and joined[-1][0] is part and part in {AnswerPart.SAID, AnswerPart.THOUGHT}:
                joined[-1] = (part, joined[-1][1] + piece)
            else:
                joined.append((part, piece))
        return joined

    whole = pieces([0, len(text)])
    assert "".join(piece for _, piece in whole) == text
    cut = pieces([0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)])
    assert cut == whole
