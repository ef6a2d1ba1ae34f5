"""Chat templates compiled and rendered, in the sandbox's process, which has limits.

A template cannot reach Python's internals, files or the network: jinja2's immutable sandbox without
a loader. Time and memory are the process's concern.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache, partial

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_KEPT_TEMPLATES = 8


class _Generation(Extension):
    """`{% generation %}`: marks answers for training; for chatting it is only its body."""

    tags = {"generation"}  # noqa: RUF012 - as declared by the base class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


@lru_cache(_KEPT_TEMPLATES)
def _compiled(source: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", _Generation],
    )
    environment.globals["raise_exception"] = _raise_exception
    environment.globals.pop("lipsum")  # chance would make a prompt another one each time
    environment.filters.pop("random")
    environment.filters["tojson"] = _tojson
    template: jinja2.Template = environment.from_string(source)
    return template


def check(source: str) -> str:
    """Compile a template; return what is wrong with it, "" if nothing."""
    try:
        _compiled(source)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's program may fail in any way
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def render(
    source: str,
    messages: Sequence[Mapping[str, object]],
    names: Mapping[str, object],
    today: str,
) -> dict[str, str]:
    """Render a conversation.

    Args:
        source: the template.
        messages: with "role" and "content" each.
        names: further variables.
        today: the date that templates are told, as in "2025-01-01".

    Returns:
        "text", or "failure" with the template's own words.
    """
    try:
        text = _compiled(source).render(
            messages=messages,
            documents=None,
            strftime_now=partial(_strftime, date.fromisoformat(today)),
            **names,
        )
    except jinja2.TemplateError as error:
        return {"failure": error.message or type(error).__name__}
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001
        return {"failure": f"{type(error).__name__}: {error}"[:500]}
    return {"text": text}


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON; jinja2's own filter escapes characters for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _strftime(today: date, layout: str) -> str:
    return today.strftime(layout[:200])


def _raise_exception(message: object) -> None:
    raise jinja2.TemplateError(str(message)[:500])
