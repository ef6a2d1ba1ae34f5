"""A view of text as tests make it, and what can be seen of it."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.text.selection import selected_text
from app.chat.text.text_view import TextView

MIXED = """\
# Title

Some *words* with `code` and a [link](https://example.org).

1. one
2. two
   - nested

> quoted

```python
def f(x):
    return x  # done
```

| a | b |
|---|--:|
| 1 | 2 |

---

- [ ] open
- last
"""


def text_view(host: QWidget) -> TextView:
    """Return a view of the usual width, shown."""
    result = TextView("Answer", host)
    result.resize(700, 100)
    result.show()
    return result


def everything(view: TextView) -> str:
    """Return what copying all of it gives."""
    cursor = QTextCursor(view.document())
    cursor.select(QTextCursor.SelectionType.Document)
    return selected_text(cursor)


def looks(view: TextView) -> list[tuple[object, ...]]:
    """Every text block with what decides its look."""
    looks: list[tuple[object, ...]] = []
    block = view.document().begin()
    while block.isValid():
        style = block.blockFormat()
        in_list = block.textList() is not None
        colours = [(span.start, span.length) for span in block.layout().formats()]
        look = (block.text(), style.leftMargin(), style.topMargin(), in_list, tuple(colours))
        looks.append(look)
        block = block.next()
    return looks
