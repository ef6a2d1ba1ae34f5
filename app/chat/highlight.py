"""Colours for code, as overlays on laid-out lines: the text itself is not touched."""

from __future__ import annotations

from PySide6.QtGui import QColor, QTextCharFormat, QTextLayout

from app.theme.tokens import Tokens

_MAX_CHARACTERS = 40_000
"""Longer code stays uncoloured: lexing it would be felt."""


def line_formats(
    code: str, language: str, tokens: Tokens
) -> list[list[QTextLayout.FormatRange]] | None:
    """Colour ranges for every line of `code`; None when the language is unknown or the code long.

    Ranges count UTF-16 code units from the start of their line.
    """
    if not language or len(code) > _MAX_CHARACTERS:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    lines: list[list[QTextLayout.FormatRange]] = [[]]
    column = 0
    for kind, text in lexer.get_tokens(code):
        colour = _colour(str(kind), tokens)
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
                column = 0
            length = utf16_length(part)
            if colour and length:
                span = QTextLayout.FormatRange()
                span.start, span.length = column, length
                style = QTextCharFormat()
                style.setForeground(QColor(colour))
                span.format = style
                lines[-1].append(span)
            column += length
    return lines


def utf16_length(text: str) -> int:
    """How many UTF-16 code units `text` has, which is what Qt counts."""
    return len(text) + sum(character > "\uffff" for character in text)


def _colour(kind: str, tokens: Tokens) -> str | None:
    kind = kind.removeprefix("Token.")
    rules = (
        ("Comment.Preproc", tokens.code_keyword),
        ("Comment", tokens.code_comment),
        ("Keyword.Type", tokens.code_type),
        ("Keyword", tokens.code_keyword),
        ("Operator.Word", tokens.code_keyword),
        ("Literal.String", tokens.code_string),
        ("Literal.Number", tokens.code_number),
        ("Name.Function", tokens.code_name),
        ("Name.Class", tokens.code_type),
        ("Name.Decorator", tokens.code_name),
        ("Name.Builtin", tokens.code_type),
        ("Name.Exception", tokens.code_type),
        ("Name.Namespace", tokens.code_type),
        ("Name.Tag", tokens.code_keyword),
        ("Name.Attribute", tokens.code_name),
        ("Generic.Deleted", tokens.danger),
        ("Generic.Inserted", tokens.success),
    )
    return next((colour for prefix, colour in rules if kind.startswith(prefix)), None)
