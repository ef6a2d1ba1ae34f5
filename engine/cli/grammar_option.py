"""--schema and --grammar: the grammar of an answer, from a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.grammar import check_grammar
from engine.request import Grammar, GrammarKind


def add_grammar_options(parser: argparse.ArgumentParser) -> None:
    """Declare what `grammar_of` reads."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--schema",
        type=Path,
        metavar="FILE",
        help=tr("make the answer JSON that follows the JSON schema in this file"),
    )
    either.add_argument(
        "--grammar",
        type=Path,
        metavar="FILE",
        help=tr("make the answer follow the grammar in this file: GBNF, or Lark"),
    )


def grammar_of(arguments: argparse.Namespace) -> Grammar | None:
    """Return the grammar that the options name; None: none is wanted.

    Raises:
        UserFixable: the file cannot be read, or the grammar not be used.
    """
    file: Path | None = arguments.schema or arguments.grammar
    if file is None:
        return None
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The file “{name}” cannot be read.").format(name=file.name),
            tr("Name a text file in UTF-8."),
            str(error),
        ) from error
    if arguments.schema is not None:
        kind = GrammarKind.JSON_SCHEMA
    else:
        kind = GrammarKind.GBNF if "::=" in text else GrammarKind.LARK
    grammar = Grammar(kind, text)
    check_grammar(grammar)
    return grammar
