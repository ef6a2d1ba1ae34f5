"""`duotail chat` at a terminal: a conversation line by line, and its commands."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_line import Duotail

import engine.cli.chat
import engine.cli.prompt_text
from engine.cli.interactive import HISTORY

PATIENCE_S = 240.0


def typed(monkeypatch: pytest.MonkeyPatch, lines: Iterable[str]) -> None:
    """Somebody is at the terminal and types these lines."""
    left = iter(lines)
    monkeypatch.setattr(engine.cli.prompt_text, "at_terminal", lambda: True)
    monkeypatch.setattr(engine.cli.chat, "read_lines", lambda _data: lambda: next(left, None))


def test_a_conversation(duotail: Duotail, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, ["Hello", "", "\N{REPLACEMENT CHARACTER}?", "And you?"])
    done = duotail("chat", "--max-tokens", "8")
    assert done.code == 0
    assert done.out.count(" per second]") == 3, "the empty line asked for nothing"


def test_a_conversation_goes_on_after_what_cannot_be_answered(
    duotail: Duotail, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, ["Hello", "Hi " * 500, "And you?"])
    done = duotail("chat", "--max-tokens", "4", "--context", "64")
    assert done.code == 0
    assert done.out.count("the context holds 64") == 1
    assert done.out.count(" per second]") == 2


def test_its_commands(duotail: Duotail, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    saved = tmp_path / "notes.md"
    typed(
        monkeypatch,
        [
            *("/help", "/stats", "/system", "/system You are a fox.", "/system"),
            *("Hello", "/stats", "/model", f"/save {saved}", f"/save {saved}", "/save"),
            *("/clear", f"/save {tmp_path / 'again.md'}", "/colour", "/exit", "Never read"),
        ],
    )
    done = duotail("chat", "--max-tokens", "6")
    assert done.code == 0
    for said in (
        *("begin a new conversation", "Nothing was answered yet.", "no system prompt"),
        *("You are a fox.\nYou are a fox.\n", "Acceptance length", "is there already"),
        *("A file name is missing.", "A new conversation begins.", "no command “/colour”"),
    ):
        assert said in done.out
    assert done.out.count(" per second]") == 1
    text = saved.read_text()
    assert text.startswith("## System prompt\n\nYou are a fox.\n\n## You\n\nHello\n")
    assert "\n## Duotail 7M\n" in text
    again = (tmp_path / "again.md").read_text()
    assert again == "## System prompt\n\nYou are a fox.\n", "the system prompt stays"


def test_another_model_answers_or_the_present_one_stays(
    duotail: Duotail, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing else")
    lines = [f"/model {broken}", "/model", "Hello", "/model duotail-7m", "Hello"]
    typed(monkeypatch, lines)
    done = duotail("chat", "--max-tokens", "4", "--model", "smollm2-135m-instruct")
    assert done.out.count(" per second]") == 2
    assert "SmolLM2" in done.out


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminal here")
def test_lines_are_edited_and_kept_for_this_user_alone(tmp_path: Path) -> None:
    """A real process at a real terminal: a line, a correction, an old line again, the end."""
    import pty

    ours, theirs = pty.openpty()
    code = "import sys; from engine.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "chat", "--max-tokens", "4"]
    environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    environment["DUOTAIL_DATA_DIR"] = str(tmp_path)
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    seen = b""

    def until(words: bytes) -> None:
        nonlocal seen
        while words not in seen:
            assert select.select([ours], [], [], PATIENCE_S)[0], seen
            seen += os.read(ours, 4096)
        seen = seen.split(words, 1)[1]

    try:
        until(b">")
        os.write(ours, b"Helllo\x1b[D\x1b[D\x7f\r")  # two to the left, one letter taken back
        until(b" per second]")
        until(b">")
        os.write(ours, b"\x1b[A\r")  # the line before, once more
        until(b" per second]")
        until(b">")
        os.write(ours, b"\x04")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    history = tmp_path / HISTORY
    assert [line for line in history.read_text().splitlines() if line.startswith("+")] == ["+Hello"]
    assert history.stat().st_mode & 0o777 == 0o600
