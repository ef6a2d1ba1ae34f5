"""`duotail completion`: what has a shell complete commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from engine.cli.exit_code import ExitCode
from engine.language import tr

_SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def add_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    whole: Callable[[], argparse.ArgumentParser],
) -> None:
    """Declare the sub-command; `whole` makes the parser of all commands."""
    parser = commands.add_parser(
        "completion",
        help=tr("print a script that has your shell complete commands and options"),
        description=tr(
            "Print a script for your shell. For bash: duotail completion bash > "
            "~/.local/share/bash-completion/completions/duotail. For zsh: duotail completion zsh > "
            "a file named _duotail in a folder of $fpath. For fish: duotail completion fish > "
            "~/.config/fish/completions/duotail.fish."
        ),
    )
    parser.add_argument("shell", choices=_SHELLS, help=tr("the shell to write for"))
    parser.set_defaults(run=lambda arguments: _print(whole(), arguments.shell), json=False)


def _print(parser: argparse.ArgumentParser, shell: str) -> ExitCode:
    import shtab  # no other command's

    sys.stdout.write(shtab.complete(parser, shell=shell) + "\n")
    return ExitCode.DONE
