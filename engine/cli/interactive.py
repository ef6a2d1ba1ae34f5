"""`duotail chat` at a terminal: lines with editing and history, and commands such as “/help”."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.cli.exit_code import ExitCode
from engine.errors import UserFixable
from engine.events import Finished
from engine.language import later, number, sentences, tr, tr_count
from engine.language.units import acceptance_length, tokens_per_s
from engine.request import Message, Role

HISTORY = "chat_history"
"""File in the user's data folder with the lines that were typed."""

_COMMANDS = {
    "/help": later("list these commands"),
    "/model": later("show the model; with a name or a file, load that one"),
    "/system": later("show the system prompt; with a text, use that one"),
    "/clear": later("begin a new conversation"),
    "/save": later("write the conversation into a Markdown file"),
    "/stats": later("show the statistics of the last answer"),
    "/exit": later("end, as Ctrl-D does"),
}


@dataclass(slots=True)
class InteractiveChat:
    """A conversation at the terminal.

    Attributes:
        ask: writes the answer to messages, and shows it meanwhile.
        load: loads another model; raises UserFixable where there is none of that name.
        model: name of the model that answers.
        write: shows text.
        messages: the conversation, its system prompt first if it has one.
    """

    ask: Callable[[list[Message]], Finished]
    load: Callable[[str], str]
    model: str
    write: Callable[[str], None]
    messages: list[Message] = field(default_factory=list)
    _last: Finished | None = None

    def converse(self, read: Callable[[], str | None]) -> ExitCode:
        """Answer line after line until `read` gives None."""
        while (line := read()) is not None:
            if not line.strip():
                continue
            try:
                if not line.startswith("/"):
                    self._answer(line)
                elif not self._obey(*line.split(maxsplit=1)):
                    return ExitCode.DONE
            except UserFixable as error:
                self.write(sentences(error.cause, error.remedy) + "\n")
        return ExitCode.DONE

    def _answer(self, line: str) -> None:
        self.messages.append(Message(Role.USER, line))
        try:
            finished = self.ask(self.messages)
        except UserFixable:
            self.messages.pop()
            raise
        self.messages.append(Message(Role.ASSISTANT, finished.text, finished.token_ids))
        self._last = finished
        speed = finished.stats.tokens_per_s
        tokens = tr_count("{n} token", "{n} tokens", finished.stats.committed)
        said = tr("{tokens}, {speed} per second").format(
            tokens=tokens, speed=tokens_per_s(speed or 0)
        )
        self.write(f"\n[{said}]\n")

    def _obey(self, command: str, rest: str = "") -> bool:
        """Carry out a command; return whether the conversation goes on."""
        rest = rest.strip()
        match command:
            case "/help":
                told = self._help()
            case "/model":
                self.model = self.load(rest) if rest else self.model
                told = self.model
            case "/system":
                if rest:
                    self.messages = [Message(Role.SYSTEM, rest), *self._said]
                told = self._system[0].text if self._system else tr("no system prompt")
            case "/clear":
                self.messages, self._last = self._system, None
                told = tr("A new conversation begins.")
            case "/save":
                told = self._save(rest)
            case "/stats":
                told = self._statistics()
            case "/exit":
                return False
            case _:
                raise UserFixable(
                    tr("There is no command “{name}”.").format(name=command),
                    tr("“/help” lists the commands."),
                )
        self.write(told + "\n")
        return True

    @property
    def _system(self) -> list[Message]:
        return [each for each in self.messages if each.role is Role.SYSTEM]

    @property
    def _said(self) -> list[Message]:
        return [each for each in self.messages if each.role is not Role.SYSTEM]

    @staticmethod
    def _help() -> str:
        wide = max(map(len, _COMMANDS))
        lines = [f"{name:<{wide}}  {tr(about)}" for name, about in _COMMANDS.items()]
        keys = tr(
            "Alt-Enter begins a new line, Ctrl-C stops an answer, Ctrl-R searches your lines."
        )
        return "\n".join([*lines, keys])

    def _save(self, name: str) -> str:
        if not name:
            raise UserFixable(tr("A file name is missing."), tr("Write “/save notes.md”."))
        heads = {Role.SYSTEM: tr("System prompt"), Role.USER: tr("You"), Role.ASSISTANT: self.model}
        parts = [f"## {heads[each.role]}\n\n{each.text}\n" for each in self.messages if each.text]
        path = Path(name).expanduser()
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write("\n".join(parts))
        except FileExistsError as error:
            raise UserFixable(
                tr("{file} is there already.").format(file=path), tr("Choose another name.")
            ) from error
        except OSError as error:
            raise UserFixable(
                tr("{file} cannot be written.").format(file=path),
                tr("Choose another place."),
                str(error),
            ) from error
        return tr("Saved in {file}.").format(file=path)

    def _statistics(self) -> str:
        if self._last is None:
            raise UserFixable(tr("Nothing was answered yet."), tr("Ask something first."))
        stats = self._last.stats
        rows = (
            (tr("Tokens"), number(stats.committed, "d")),
            (tr("Tokens per second"), tokens_per_s(stats.tokens_per_s or 0)),
            (tr("Time to the first token"), f"{number(stats.ttft_s or 0, '.2f')} s"),
            (tr("Acceptance length"), acceptance_length(stats.acceptance_length or 0)),
            (tr("Verifications"), number(stats.rounds, "d")),
        )
        wide = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{wide}}  {value}" for name, value in rows)


def read_lines(data: Path) -> Callable[[], str | None]:
    """Return what reads a line that is typed, with editing and history; None at its end.

    Args:
        data: the user's data folder, where the history is kept for this user alone.
    """
    from prompt_toolkit import PromptSession  # a terminal's, and nobody else's
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import create_output

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    history: History = InMemoryHistory()
    try:
        data.mkdir(parents=True, exist_ok=True)
        os.close(os.open(data / HISTORY, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        history = FileHistory(str(data / HISTORY))
    except OSError as error:  # a conversation needs no history
        sys.stderr.write(
            tr("The lines you type are not kept: {reason}.").format(reason=error) + "\n"
        )
    session: PromptSession[str] = PromptSession(
        "> ",
        history=history,
        key_bindings=keys,
        completer=WordCompleter([*_COMMANDS], sentence=True),
        output=create_output(sys.stderr),  # standard output holds the answers
    )

    def read() -> str | None:
        while True:
            try:
                return session.prompt()
            except KeyboardInterrupt:
                continue  # the line is given up
            except EOFError:
                return None

    return read
