"""What tools say, before anybody reads it."""

from __future__ import annotations

import pytest
from tool_desk import ToolDesk

from app.tools import loop
from app.tools.entry import ToolResult
from app.tools.results import MOST, capped, harmless, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9\u4e2d\n\tend", "plain \u00e9\u4e2d\n\tend"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x00\x7f\x9b", "\ufffd" * 3),
        ("\ud800", "\ufffd"),
        ("user\u202egnp.exe\u2066", "user\ufffdgnp.exe\ufffd"),
        ("\u0915\u094d\u200d\u0937", "\u0915\u094d\u200d\u0937"),  # a joiner that its script needs
    ],
)
def test_control_characters_are_shown_as_what_they_are(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_a_long_result_leaves_room_for_an_answer() -> None:
    assert capped("x" * 100, 100) == "x" * 100
    assert len(capped("x" * 10**6, 4096)) < 6300
    assert len(capped("x" * 10**6)) < MOST + 60
    assert one_line("a\n b\x07" + "c" * 500, 20) == "a b\ufffd" + "c" * 15 + "\u2026"


def test_the_loop_keeps_no_control_characters(
    tools: ToolDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tool_desk import call_text

    from app.tools.call_phase import Decision

    said = ToolResult("a\x1b[2Jb")
    monkeypatch.setattr(tools.loop.toolbox, "run", lambda *told: (told[3](said), lambda: None)[1])
    assert loop.MOST_CALLS > 1
    tools.ask(call_text("calculator", expression="1"))
    tools.decide(Decision.ONCE, "Done.")
    assert tools.calls[0].text == "a\ufffd[2Jb"
