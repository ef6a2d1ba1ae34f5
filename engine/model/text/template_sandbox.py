"""Chat templates are programs written by strangers: this runs them fenced in.

A template cannot reach Python's internals, files or the network (jinja2's immutable sandbox, no
loader). Loops, calls, filters and operators check a deadline, texts and numbers are kept small at
every place where they can grow, and so is the output. What remains possible is a single slow
operation on data of the permitted size, such as comparing lists nested on purpose.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from engine.errors import UserFixable
from engine.language import tr

MAX_SOURCE = 1 << 20
MAX_NUMBER = 100_000
MAX_BITS = 4096
MAX_ITEMS = 1_000_000
SECONDS = 5.0
DROPPED_FILTERS = ("format", "lipsum", "pprint", "urlize", "wordwrap", "xmlattr", "filesizeformat")
TEXT_FILTERS = {"string", "tojson", "join", "escape", "e", "upper", "lower", "trim", "replace"}


class TemplateFailure(Exception):
    """A template refused the conversation or failed on it; the message is its own."""


class RenderBudget:
    """The text (in characters) and the time that one rendering may still use."""

    __slots__ = ("_deadline", "max_text", "text_left")

    def __init__(self, max_text: int, seconds: float = SECONDS) -> None:
        self.max_text = max_text
        self.text_left = 4 * max_text  # pieces may be captured and printed again
        self._deadline = time.monotonic() + seconds

    def tick(self) -> None:
        """Raise `UserFixable` when time is up."""
        if time.monotonic() > self._deadline:
            raise _too_much(tr("takes too long"))

    def allow(self, size: int) -> None:
        """Raise `UserFixable` for a text that may not become this long."""
        if size > self.max_text:
            raise _too_much(tr("grows without end"))

    def emit(self, size: int) -> None:
        """Count text that is written."""
        self.text_left -= size
        if self.text_left < 0:
            raise _too_much(tr("writes without end"))


def _too_much(what: str) -> UserFixable:
    return UserFixable(
        tr("The model's chat template was stopped because it {what}.").format(what=what),
        tr("Choose another model, or a copy of this one from a source you trust."),
    )


def _text_size(value: object) -> int:
    """Roughly how long `str(value)` is; stops counting at `MAX_ITEMS` members."""
    size, members, waiting = 0, 0, [value]
    while waiting:
        item = waiting.pop()
        members += 1
        if members > MAX_ITEMS:
            raise _too_much(tr("grows without end"))
        if isinstance(item, str):
            size += len(item)
        elif isinstance(item, Mapping):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        else:
            size += 20
    return size


class _Fences(NodeTransformer):
    """Route loops, output and concatenation through the checking filters."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - the visitor's naming
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_watch")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "_concat")

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [
            _filtered(
                nodes.Const(part.data, lineno=part.lineno)
                if isinstance(part, nodes.TemplateData)
                else part,
                "_emit",
            )
            for part in node.nodes
        ]
        return node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Generation(Extension):
    """`{% generation %}`: marks answers for training; for chatting it is only its body."""

    tags = {"generation"}  # noqa: RUF012 - as declared by the base class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class SandboxEnvironment(ImmutableSandboxedEnvironment):
    """The environment chat templates expect, with every growing or repeating step checked."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constant folding would run operators before there is a budget
            extensions=["jinja2.ext.loopcontrols", _Generation],
        )
        self._local = threading.local()
        self.globals.pop("lipsum", None)
        self.filters["tojson"] = _tojson
        for name in DROPPED_FILTERS:
            self.filters.pop(name, None)
        for name, function in list(self.filters.items()):
            self.filters[name] = self._guarded(name, function)
        self.filters.update(_watch=self._watch, _concat=self._concat, _emit=self._emit)

    @property
    def budget(self) -> RenderBudget:
        """The budget of the rendering in this thread."""
        budget: RenderBudget | None = getattr(self._local, "budget", None)
        return RenderBudget(MAX_SOURCE) if budget is None else budget

    @budget.setter
    def budget(self, budget: RenderBudget) -> None:
        self._local.budget = budget

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _Fences().visit(tree)
        return tree

    def call(  # the sandbox's own hook, with its own names
        self, context: Context, obj: object, /, *args: object, **kwargs: object
    ) -> object:
        """Call on behalf of the template, after a look at time and arguments."""
        self.budget.tick()
        method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps str.format
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            name = getattr(method, "__name__", "")
            self._check_text_call(name, owner, (*args, *kwargs.values()))
        else:
            self._check_numbers((*args, *kwargs.values()))
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        """Apply an operator unless its result would be too large."""
        self.budget.tick()
        for value, other in ((left, right), (right, left)):
            if isinstance(value, str | list | tuple):
                if operator == "*" and isinstance(other, int):
                    self.budget.allow(len(value) * other)
                elif operator == "+" and isinstance(other, str | list | tuple):
                    self.budget.allow(len(value) + len(other))
        if operator == "%" and isinstance(left, str):
            _check_format(left)
            self.budget.allow(len(left) + left.count("%") * _text_size(right))
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * right if operator == "**" else left.bit_length()
            if operator in ("*", "**") and bits + right.bit_length() > MAX_BITS:
                raise _too_much(tr("computes with huge numbers"))
        return super().call_binop(context, operator, left, right)

    def _guarded(self, name: str, function: Callable[..., object]) -> Callable[..., object]:
        skip = 1 if hasattr(function, "jinja_pass_arg") else 0

        @functools.wraps(function)
        def guarded(*args: object, **kwargs: object) -> object:
            self.budget.tick()
            if name == "join":  # an iterator could be measured only once
                args = (*args[:skip], list(_iterable(args[skip])), *args[skip + 1 :])
            values = (*args[skip:], *kwargs.values())
            if name in TEXT_FILTERS and values:
                self.budget.allow(_text_size(values[0]))
            if values and isinstance(values[0], str):
                self._check_text_call(name, values[0], values[1:])
            elif name == "join":
                self._check_text_call(name, str(values[1]) if len(values) > 1 else "", values[:1])
            else:
                self._check_numbers(values[1:])
            return function(*args, **kwargs)

        return guarded

    def _check_text_call(self, name: str, text: str, args: Sequence[object]) -> None:
        """Foresee how long the result of a text function can be."""
        self._check_numbers(args)
        if name in ("format", "format_map"):
            _check_format(text)
            self.budget.allow(len(text) + sum(map(_text_size, args)))
        elif name == "replace" and len(args) > 1:
            old, new = str(args[0]), str(args[1])
            self.budget.allow(len(text) + text.count(old) * len(new))
        elif name == "join" and args and isinstance(args[0], Sequence):
            self.budget.allow(len(text) * len(args[0]) + _text_size(args[0]))
        elif name in ("indent", "expandtabs", "translate"):
            widths = [value for value in args if isinstance(value, int)]
            self.budget.allow(len(text) * max(widths, default=8))

    def _check_numbers(self, values: Iterable[object]) -> None:
        for value in values:
            if isinstance(value, int) and abs(value) > MAX_NUMBER:
                raise _too_much(tr("counts too far"))
            if isinstance(value, str):
                self.budget.allow(len(value))

    @jinja2.pass_context  # keeps the compiler from doing it once and for all
    def _watch(self, _context: Context, items: Iterable[object]) -> Iterator[object]:
        for item in items:
            self.budget.tick()
            yield item

    @jinja2.pass_context
    def _concat(self, _context: Context, parts: Sequence[object]) -> str:
        self.budget.allow(_text_size(parts))
        return "".join(map(str, parts))

    @jinja2.pass_context
    def _emit(self, _context: Context, value: object) -> str:
        text = value if isinstance(value, str) else ""
        if not isinstance(value, str):
            self.budget.allow(_text_size(value))
            text = str(value)
        self.budget.emit(len(text) + 1)
        return text


def _iterable(value: object) -> Iterable[object]:
    if isinstance(value, Iterable):
        return value
    raise jinja2.TemplateError("join needs a list")


WIDE_FIELD = re.compile(r"%[^a-zA-Z%]*(\d{4}|\*)|\{[^{}]*(\{|\d{4})")


def _check_format(text: str) -> None:
    """Refuse formats that ask for wide fields; `%` and `str.format` would build them at once."""
    if WIDE_FIELD.search(text.replace("{{", "")):
        raise _too_much(tr("formats overly wide text"))


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON; jinja2's own filter escapes characters for HTML."""
    if indent is not None and indent > 16:
        raise _too_much(tr("formats overly wide text"))
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


class SandboxedTemplate:
    """A compiled template. `names` are the variables besides messages, such as `bos_token`."""

    __slots__ = ("_environment", "_names", "_template", "_today", "source")

    def __init__(self, source: str, names: Mapping[str, object], today: date) -> None:
        if len(source) > MAX_SOURCE:
            raise _too_much(tr("is far too long"))
        self.source = source
        self._names = dict(names)
        self._today = today
        self._environment = SandboxEnvironment()
        self._environment.globals["raise_exception"] = _raise_exception
        self._environment.globals["strftime_now"] = self._strftime_now
        try:
            self._template = self._environment.from_string(source)
        except Exception as error:  # a stranger's program may fail in any way
            raise UserFixable(
                tr("The model's chat template is damaged."),
                tr("Download the model again, or choose another one."),
                f"{type(error).__name__}: {error}",
            ) from error

    def render(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        add_generation_prompt: bool,
        switches: Mapping[str, bool] | None = None,
    ) -> str:
        """Return the conversation as text; any thread may ask.

        Args:
            messages: with "role" and "content" each.
            add_generation_prompt: whether the text ends with the beginning of an answer.
            switches: further variables of the template.

        Raises:
            TemplateFailure: the template objects to the conversation, in its own words.
            UserFixable: it takes too long or writes too much.
        """
        size = sum(len(message["content"]) for message in messages)
        self._environment.budget = RenderBudget(MAX_SOURCE + 4 * size)
        try:
            return self._template.render(
                messages=[dict(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._names,
                **(switches or {}),
            )
        except UserFixable:
            raise
        except jinja2.TemplateError as error:
            raise TemplateFailure(error.message or type(error).__name__) from error
        except Exception as error:
            raise TemplateFailure(f"{type(error).__name__}: {error}"[:500]) from error

    def _strftime_now(self, layout: str) -> str:
        _check_format(layout)
        return self._today.strftime(layout[:200])


def _raise_exception(message: object) -> None:
    raise jinja2.TemplateError(str(message)[:500])
