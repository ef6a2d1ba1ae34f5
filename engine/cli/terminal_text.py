"""Text of models and servers on a terminal: what would command the terminal is made visible."""

from __future__ import annotations

import sys

_KEPT = "\n\t"
_VISIBLE = dict.fromkeys((*range(32), *range(127, 160)), "�")
_VISIBLE |= {ord(character): character for character in _KEPT}
_VISIBLE[ord("\r")] = ""


def harmless(text: str) -> str:
    """Return a text in which nothing commands a terminal."""
    return text.translate(_VISIBLE)


def write(text: str) -> None:
    """Write to standard output; control characters never reach a terminal.

    They could change its title, clear it or write to the clipboard. A file or another program
    gets the text as it is.
    """
    shown = harmless(text) if sys.stdout.isatty() else text
    # Half an emoji on an ASCII terminal is not worth an abort.
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(shown.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()
