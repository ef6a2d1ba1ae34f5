"""The engine without a window: `duotail chat`, `serve`, `bench`, `plan`, `models` and others.

Exit codes: 0 done, 2 bad usage or input, 3 something optional is absent, 130 interrupted by
Ctrl-C. With `--json` stdout holds exactly one object.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import language
from engine.cli import (
    bench,
    chat,
    completion,
    hardware,
    models_command,
    plan,
    pytorch,
    serve,
    train_draft,
)
from engine.cli.exit_code import ExitCode, report
from engine.errors import Absent, UserFixable
from engine.language import tr


def main(argv: Sequence[str], data: Path | None = None) -> int:
    """Run a sub-command, in the language of the environment, and return the exit code.

    Args:
        argv: the sub-command and its arguments.
        data: folder of the user's data; None: the usual one.
    """
    language.use(language.of_environment(os.environ))
    known = argparse.Namespace(data=data, json=False)
    try:
        arguments = command_parser().parse_args(models_command.completed(list(argv)), known)
        code: ExitCode = arguments.run(arguments)
        sys.stdout.flush()
    except UserFixable as error:
        report(error, as_json=known.json)
        return ExitCode.ABSENT if isinstance(error, Absent) else ExitCode.BAD_INPUT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.READER_GONE
    return code


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all sub-commands, in the language in use."""
    parser = argparse.ArgumentParser(
        prog="duotail",
        description=tr("Duotail's engine without the window."),
        epilog=tr(
            "Exit codes: 0 done, 2 wrong usage or input, 3 something optional is missing, "
            "130 interrupted by Ctrl-C. With --json, stdout holds exactly one JSON object."
        ),
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (chat, serve, bench, plan, hardware, models_command, train_draft, pytorch):
        module.add_parser(commands)
    completion.add_parser(commands, command_parser)
    return parser
