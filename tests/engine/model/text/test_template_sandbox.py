"""Hostile chat templates end quickly and reach nothing."""

from __future__ import annotations

import pytest

from engine.errors import UserFixable
from engine.model.text import template_sandbox
from engine.model.text.template_sandbox import SandboxedTemplate, TemplateFailure

MESSAGES = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "ab"}]


def render(source: str, **names: object) -> str:
    template = SandboxedTemplate(source, names)
    return template.render(MESSAGES, add_generation_prompt=True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "{% for m in messages %}{{ loop.index }}/{{ loop.length }}{{ m.role }} {% endfor %}",
            "1/2user 2/2assistant ",
        ),
        (
            (
                "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}x{% break %}"
                "{% endfor %}"
            ),
            "x",
        ),
        ("{% for m in nothing %}x{% else %}none{% endfor %}", "none"),
        ("{% for m in messages %}{{ loop.previtem.role if loop.previtem }}{% endfor %}", "user"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "user, assistant"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "hello"}'),
        ("{{ {'a': '<é>'} | tojson(indent=2) }}", '{\n  "a": "<é>"\n}'),
        ("{{ strftime_now('%d %b %Y') }}", "01 Jan 2025"),
        (
            (
                "{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = n.x + 1 %}"
                "{% endfor %}{{ n.x }}"
            ),
            "2",
        ),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f('a') ~ f(1) ~ none }}", "[a][1]None"),
        ("{% generation %}x{% endgeneration %}", "x"),
        ("{% for i in range(3) %}{{ i % 2 }}{{ '-' * i }}{% endfor %}", "01-0--"),
        ("{{ bos_token }}{{ missing }}|{{ messages[5].content is defined }}", None),
        ("{{ 'In 2024, %s' % 1 }}{{ '{{2024}} {:>3}'.format(1) }}", "In 2024, 1{2024}   1"),
        ("{{ 'a,b'.split(',') }}{{ '%s!' % 'x' }}{{ 2 ** 3 }}", "['a', 'b']x!8"),
        ("{{ messages[::-1][0].content | upper | replace('A', 'c') }}", "cB"),
        ("  {% if true %}\n  x\n  {% endif %}\n", "  x\n"),
        ("{% set x %}a{{ 1 }}{% endset %}{{ x }}{{ x | length }}", "a12"),
        ("{% filter upper %}abc{% endfilter %}", "ABC"),
    ],
)
def test_templates_work_as_usual(source: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(TemplateFailure):
            render(source)
    else:
        assert render(source) == expected


def growing(start: str, step: str, ending: str = "") -> str:
    """A template that applies `step` to ns.x sixty times."""
    return (
        f"{{% set ns = namespace(x={start}) %}}"
        f"{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}{ending}"
    )


NESTED = (
    "{% set a = namespace(x=[0]) %}{% set b = namespace(x=[0]) %}{% for i in range(60) %}"
    "{% set a.x = [a.x, a.x] %}{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}"
)
BOMBS = [
    NESTED,
    "{{ ([[1] * 9999] * 9999) | map('join', 'x') | join }}",
    "{{ (range(99999) | list).__len__() * ('a'.encode() * 10**9) }}",
    "{{ ('a' * 9**7).encode().replace('a'.encode(), ('b' * 99999).encode()) }}",
    "{{ '%999999999d' % 1 ~ '%999999999d' % 1 }}",
    "{{ ['a'] | map('center', 10**10) | list }}",
    "{% if 0 %}" + "{{ 1 + 1 }}" * 150_000 + "{% endif %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(99999) %}{{ 'spam' * 1000 }}{% endfor %}",
    "{% for i in range(99999) %}" + "spam" * 1000 + "{% endfor %}",
    "{% set x %}{% for i in range(99999) %}{{ 'spam' * 1000 }}{% endfor %}{% endset %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for x in [[[]]] recursive %}{{ loop([x, x]) }}{% endfor %}",
    "{{ 'a' * 10**10 }}",
    "{{ 10**10 * 'a' }}",
    "{{ [1] * 10**10 }}",
    "{{ 9 ** (9 ** 9) }}",
    growing("9", "ns.x * ns.x"),
    growing("'aa'", "ns.x + ns.x"),
    growing("'aa'", "ns.x ~ ns.x"),
    growing("'aa'", "ns.x.replace('a', 'aaaa')"),
    growing("'aa'", "ns.x | replace('a', 'aaaa')"),
    growing("'aa'", "[ns.x, ns.x] | join(ns.x)"),
    growing("'aa'", "ns.x.join([ns.x, ns.x])"),
    growing("'aa'", "'%s%s' % (ns.x, ns.x)"),
    growing("'aa'", "'{0}{0}'.format(ns.x)"),
    growing("[1]", "[ns.x, ns.x]", "{{ ns.x }}"),
    growing("[1]", "[ns.x, ns.x]", "{{ ns.x | tojson }}"),
    growing("[1]", "[ns.x, ns.x]", "{{ ns.x ~ '' }}"),
    growing("[1]", "ns.x + ns.x"),
    "{{ 'a' | center(10**10) }}",
    "{{ 'a'.ljust(10**10) }}",
    "{{ '%10000000000d' % 1 }}",
    "{{ '%*d' % (10**10, 1) }}",
    "{{ '{:10000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10**10) }}",
    "{{ '{x:{y}}'.format_map({'x': 1, 'y': 10**10}) }}",
    "{{ [1] | tojson(indent=10**10) }}",
    "{{ ('a\n' * 50000) | indent(90000) }}",
    "{{ ('\t' * 50000).expandtabs(90000) }}",
    "{{ range(99999) | map('string') | join('a' * 99999) }}",
]


@pytest.mark.release(keep=12, reason="every bomb")
@pytest.mark.parametrize("source", BOMBS)
def test_bombs_are_defused(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert render("{{ 'as before' }}") == "as before"  # a new process has much to import
    with monkeypatch.context() as hasty:
        hasty.setattr(template_sandbox, "SECONDS", 0.2)
        with pytest.raises((UserFixable, TemplateFailure)):
            render(source)
    assert render("{{ 'as before' }}") == "as before"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__.os }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os.getcwd() }}",
        "{{ lipsum(5) }}",
        "{{ 1 / 0 }}",
        "{{ undefined_function() }}",
        "{{ raise_exception('no system role') }}",
        "{{ [1] | first | first }}",
    ],
)
def test_what_a_template_may_not_do_is_a_failure(source: str) -> None:
    with pytest.raises((TemplateFailure, UserFixable)):
        render(source)


def test_messages_are_not_changed_by_a_template() -> None:
    before = [dict(message) for message in MESSAGES]
    with pytest.raises(TemplateFailure):
        render("{{ messages[0].clear() }}")
    assert before == MESSAGES


def test_the_templates_own_words_are_kept() -> None:
    with pytest.raises(TemplateFailure, match="no system role"):
        render("{{ raise_exception('no system role') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{{ 'unclosed }}",
        "{{ x | no_such_filter }}",
        "(" * 5 + "{{ " + "(" * 5000 + " }}",
        "{% for a in [1] %}" * 50 + "{% endfor %}" * 50,
        "x" * (template_sandbox.MAX_SOURCE + 1),
    ],
)
def test_damaged_templates_are_refused_when_opened(source: str) -> None:
    with pytest.raises(UserFixable):
        SandboxedTemplate(source, {})
