"""`duotail chat`: one answer for a prompt, or a conversation on a terminal."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING

from engine.cli.exit_code import ExitCode, on_interrupt
from engine.cli.grammar_option import add_grammar_options, grammar_of
from engine.cli.interactive import InteractiveChat, read_lines
from engine.cli.loaded import error_of, wait_for_model
from engine.cli.options import (
    add_model_options,
    add_options,
    add_sampling_options,
    load_command,
    one_or_more,
    sampling,
)
from engine.cli.prompt_text import add_prompt_options, files_text, is_interactive, prompt_text
from engine.cli.terminal_text import write
from engine.commands import DraftChoice, Generate, Load, Stop
from engine.errors import UserFixable
from engine.events import (
    AnswerStats,
    Event,
    Failed,
    Finished,
    FinishReason,
    TextDelta,
)
from engine.hub.shelf.names import model_named
from engine.hub.starter import user_data
from engine.language import tr
from engine.request import ChatRequest, Message, Role
from engine.service.engine import Engine

if TYPE_CHECKING:
    from engine.cli.remote_chat import RemoteConversation

_ANSWER_ID = "cli"

_REASONS = {
    FinishReason.STOP: "stop",
    FinishReason.STOPPED: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT: "length",
    FinishReason.REPETITION: "repetition",
    FinishReason.ERROR: "error",
}

_STATISTICS = (
    "committed", "rounds", "plain_rounds", "fallback_reason", "acceptance_length",
    "accepted_by_depth", "ttft_s", "tokens_per_s", "draft_idle", "verify_idle", "draft_useful",
    "draft_wasted",
)  # fmt: skip
"""Fields of `AnswerStats` that `--json` prints, in order."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("chat", help=tr("answer a prompt, or chat on the terminal"))
    add_model_options(parser)
    parser.add_argument(
        "--server",
        metavar="URL",
        help=tr(
            "have a model on this OpenAI-compatible server answer, named by --model (default: its "
            "first); its key is in DUOTAIL_SERVER_KEY, or saved by the window"
        ),
    )
    add_sampling_options(parser)
    add_prompt_options(parser)
    add_options(parser, "--system")
    parser.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="TEXT",
        help=tr("end an answer before this text; may be given several times"),
    )
    parser.add_argument(
        "--think",
        action=argparse.BooleanOptionalAction,
        help=tr("turn thinking on or off, if the model offers the choice"),
    )
    parser.add_argument(
        "--thinking-budget",
        type=one_or_more,
        metavar="TOKENS",
        help=tr("end a thought after so many tokens; the model then answers"),
    )
    parser.add_argument(
        "--stop-repetition",
        action="store_true",
        help=tr("end an answer that keeps repeating the same passage"),
    )
    add_grammar_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Answer and print. Ctrl-C stops the answer; what was written by then is printed.

    With `--json` its finish_reason is "stop", as for any answer that did not run into a limit;
    the exit code tells that it was interrupted.
    """
    load = None if arguments.server is not None else load_command(arguments)
    params, grammar = sampling(arguments), grammar_of(arguments)
    opening = [Message(Role.SYSTEM, arguments.system)] if arguments.system else []
    interactive = is_interactive(arguments)
    first = files_text(arguments.file) if interactive else prompt_text(arguments)
    conversation: _Conversation | RemoteConversation
    conversation = _Conversation(load, arguments.data) if load else _elsewhere(arguments)
    said: list[str] = []
    try:

        def ask(messages: list[Message]) -> Finished:
            request = ChatRequest(
                _ANSWER_ID,
                tuple(messages),
                params,
                arguments.max_tokens,
                tuple(arguments.stop),
                perf_counter(),
                arguments.think,
                thought_tokens=arguments.thinking_budget,
                stop_repetition=arguments.stop_repetition,
                grammar=grammar,
            )
            return conversation.ask(request, said.append if arguments.json else write)

        if interactive:
            begun = [*opening, *([Message(Role.USER, first)] if first else [])]
            chat = InteractiveChat(ask, conversation.load, conversation.model, write, begun)
            return chat.converse(read_lines(arguments.data or user_data()))
        finished = ask([*opening, Message(Role.USER, first)])
    except UserFixable as error:
        error.said = "".join(said)
        raise
    finally:
        conversation.close()
    write(_as_json(finished) if arguments.json else "\n")
    interrupted = finished.reason is FinishReason.STOPPED
    return ExitCode.INTERRUPTED if interrupted else ExitCode.DONE


def _elsewhere(arguments: argparse.Namespace) -> RemoteConversation:
    from engine.cli.remote_chat import RemoteConversation  # its libraries are no other command's

    return RemoteConversation(arguments)


class _Conversation:
    """Waits for the events of an engine in their order.

    Args:
        load: the model, and how.
        data: the user's data folder, for names of other models.

    Raises:
        UserFixable: the model cannot be loaded.
    """

    def __init__(self, load: Load, data: Path | None) -> None:
        self._load, self._data = load, data
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.engine = Engine(self._events.put, sample_devices=False)
        try:
            self.model = self._loaded(load)
        except BaseException:
            self.close()
            raise

    def _loaded(self, load: Load) -> str:
        self.engine.submit(load)
        return wait_for_model(self._events).model_name

    def load(self, name: str) -> str:
        """Load another model and return its name; the present one stays where that fails."""
        model = model_named(name, self._data)
        self.model = self._loaded(replace(self._load, model=model, draft=DraftChoice.AUTO))
        return self.model

    def close(self) -> None:
        """End the engine."""
        self.engine.close()

    def ask(self, request: ChatRequest, show: Callable[[str], None]) -> Finished:
        """Wait for an answer; `show` gets its pieces. Raises UserFixable where it failed."""
        failure: Failed | None = None
        with on_interrupt(lambda: self.engine.submit(Stop(request.id))):
            self.engine.submit(Generate(request))
            while True:
                event = self._events.get()
                if isinstance(event, TextDelta):
                    show(event.text)
                elif isinstance(event, Failed):
                    failure = event
                elif isinstance(event, Finished):
                    if failure is not None:
                        raise error_of(failure)
                    return event


def _as_json(finished: Finished) -> str:
    stats = finished.stats
    answer: dict[str, object] = {
        "text": finished.text,
        "tokens": list(finished.token_ids or ()),
        "finish_reason": _REASONS[finished.reason],
        "mode": stats.mode,
        "signature": finished.signature,
    }
    answer |= {name: getattr(stats, name) for name in _STATISTICS}
    answer["accepted_by_depth"] = _shares_by_depth(stats)
    return json.dumps(answer) + "\n"


def _shares_by_depth(stats: AnswerStats) -> list[float]:
    """Return accepted / drafted tokens at depth 1, 2, ..."""
    pairs = zip(stats.accepted_by_depth, stats.drafted_by_depth, strict=True)
    return [round(accepted / offered, 4) for accepted, offered in pairs if offered]
