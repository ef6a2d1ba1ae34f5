"""Chat templates as strangers write them: published ones with mistakes, and programs that harm."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

_FOLDER = Path(__file__).parents[1] / "engine" / "model" / "templates"
PUBLISHED = tuple(path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.jinja")))
CHEAP = (
    "",
    " ",
    "{{ '' }}",
    "{% if messages %}{% endif %}",
    "{{ bos_token }}",
    "{{ messages }}",
    "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "{{ raise_exception(messages) }}",
    "{{ raise_exception('a' * 9999) }}",
    "{{ strftime_now('%' * 99) }}",
    "{{ strftime_now(1) }}",
    "{{ strftime_now('\\0%Y') }}",
    "{{ '\\ud800' }}",
    "{{ '\\udfff' ~ messages[0].content }}",
    "{{ '\\0\\x1b[2J' }}",
    "{{ '\\U0010fffd\\U0010fffc' }}",
    "{{ 9 ** 4300 }}",
    "{{ 10 ** 5000 }}",
    "{{ messages[0].content[9 ** 99] }}",
    "{{ self }}{{ self._TemplateReference__context }}",
    "{% block a %}{% endblock %}{{ self.a() }}",
    "{% extends 'a' %}",
    "{% include ['a', 'b'] %}",
    "{% import messages as m %}",
    "{% set messages = 1 %}{{ messages.x.y }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ caller() }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "{{ cycler() }}{{ joiner }}{{ namespace(1) }}",
    "{{ dict(a=1) | xmlattr }}{{ 'a' | urlize | wordwrap(0) }}",
    "{{ messages | groupby(1) }}{{ 1 | batch(0) | list }}",
    "{{ [1, 'a'] | sort }}{{ none | max }}{{ {} | first }}",
    "{{ '%s' | format }}{{ '{}'.format() }}{{ '%c' % -1 }}",
    "{{ (messages | tojson).encode('utf-16') }}",
    "{{ messages[0].content.encode('idna') }}",
    "{% raw %}",
    "{% set x %}",
    "{# ",
    "{%- -%}",
    "{{ }}",
    "{{ 0x }}",
    "{{ 1_000_ }}",
    "{{ '' if }}",
    "{{ loop }}",
    "{% break %}",
    "{% generation %}",
    "{" * 500,
    "{{ " + "-" * 3000 + "1 }}",
    "{{ " + "[" * 300 + "]" * 300 + " }}",
    "{{ x" + ".a" * 3000 + " }}",
    "{% if a %}" * 150 + "{% endif %}" * 150,
)
COSTLY = (
    "{% for i in range(10 ** 9) %}{% endfor %}",
    "{{ 'a' * 10 ** 10 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ [1] * 10 ** 9 }}",
    "{{ ('a' * 10 ** 8) | list | length }}",
    "{{ 'a' | center(10 ** 10) }}",
    "{{ '%*d' % (10 ** 10, 1) }}",
    "{{ range(10 ** 9) | list }}",
    "{{ range(10 ** 12) | sum }}",
    "{{ 'a' * 9 ** 8 }}",
    "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "{% macro f(n) %}{{ f(n - 1) }}{{ f(n - 1) }}{% endmacro %}{{ f(90) }}",
    "{{ ('a ' * 999999) | wordcount }}{{ ('<' * 9999999) | striptags }}",
    "{{ ('a' * 99999) | urlize }}",
    "{{ (messages[0].content ~ '9' * 99999) | int ** 2 }}",
)
_WORDS = (
    "messages", "message", "content", "role", "loop", "bos_token", "eos_token", "none", "namespace",
    "add_generation_prompt", "tools", "system", "true", "1", "-1", "''", "[]", "{}", "[0]", "[-9]",
    "|", "~", "+", "*", "%", "==", " in ", " is ", "not ", "(", ")", "{{", "}}", "{%", "%}", "{#",
    "endif", "endfor", "else", "elif ", "set ", "if ", "for ", "| trim", "| tojson", "| list",
    ".split('')", ".strip()", ".items()", "[::0]", "\0", "\ud83e", "\U0010fffd", "'", '"', "\n",
)  # fmt: skip

_OPERAND = re.compile(r"'[^'\n{}%]*'|\b(?:messages|message|loop\.\w+|true|false|none|\d+)\b")
_OPERANDS = (
    "messages", "messages[0]", "messages[-1]['content']", "loop", "none", "0", "-1", "1.5", "9**9",
    "[]", "[messages, messages]", "{}", "{'a': messages}", "''", "'\\ud800'", "'\U0010fffd'",
    "'<s>'", "bos_token", "missing", "missing.x", "range(9)", "namespace(x=1)", "true", "(1, 2)",
    "(messages | tojson)", "strftime_now", "raise_exception('no')", "dict(a=dict)", "self",
)  # fmt: skip


def hostile_template(random: Random, *, costly: float) -> str:
    """One template; `costly` is the share of those that ask for much time or memory."""
    if random.random() < costly:
        return _spliced(random, random.choice(PUBLISHED), random.choice(COSTLY))
    match random.randrange(8):
        case 0:
            return random.choice(CHEAP)
        case 1:
            return _spliced(random, random.choice(PUBLISHED), random.choice(CHEAP))
        case 2:
            return "".join(random.choice(_WORDS) for _ in range(random.randrange(1, 60)))
        case 3:
            source = random.choice(PUBLISHED)
            for _ in range(random.randrange(1, 4)):
                source = _edited(random, source)
            return source
        case _:
            source = random.choice(PUBLISHED)
            for _ in range(random.randrange(1, 6)):
                source = _with_another_value(random, source)
            return source


def _spliced(random: Random, source: str, more: str) -> str:
    at = random.choice([0, len(source), random.randrange(len(source))])
    return source[:at] + more + source[at:]


def _with_another_value(random: Random, source: str) -> str:
    """Replace an operand, so that most templates still compile."""
    found = random.choice(list(_OPERAND.finditer(source)) or [None])
    if found is None:
        return source
    return source[: found.start()] + random.choice(_OPERANDS) + source[found.end() :]


def _edited(random: Random, source: str) -> str:
    start = random.randrange(len(source) + 1)
    end = min(len(source), start + random.choice([0, 1, 3, 10, 100]))
    match random.randrange(4):
        case 0:
            new = ""
        case 1:
            new = source[start:end] * 2
        case 2:
            at = random.randrange(len(source) + 1)
            new = source[at : at + random.randrange(40)]
        case _:
            new = random.choice(_WORDS)
    return source[:start] + new + source[end:]
