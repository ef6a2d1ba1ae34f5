"""The grammar that a request wants its answer to follow: clients have many names for it."""

from __future__ import annotations

import json
import re

from engine.errors import UserFixable
from engine.model.text.grammar import check_grammar
from engine.request import Grammar, GrammarKind
from engine.server.api_error import ApiError, bad_request
from engine.server.members import Members

_ANY_OBJECT = {"type": "object"}
_GUIDED = {
    "guided_json": GrammarKind.JSON_SCHEMA,
    "json_schema": GrammarKind.JSON_SCHEMA,
    "guided_regex": GrammarKind.REGEX,
    "guided_grammar": GrammarKind.GBNF,
    "grammar": GrammarKind.GBNF,
}
"""Names that vLLM and llama-server have for a grammar; `structured_outputs` has shorter ones."""
_STRUCTURED = {
    "json": GrammarKind.JSON_SCHEMA,
    "regex": GrammarKind.REGEX,
    "grammar": GrammarKind.GBNF,
}


def wanted_grammar(body: Members, form: Members | None = None) -> Grammar | None:
    """Return what an answer has to follow; None: nothing.

    Args:
        body: the request, with vLLM's and llama-server's members.
        form: the dialect's own member for it: an object with a type.

    Raises:
        ApiError: it cannot be used, or two are named.
    """
    found = [] if form is None else [_formatted(form)]
    found += [_guided(body, name, kind) for name, kind in _GUIDED.items()]
    found.append(_chosen(body, "guided_choice"))
    if (more := body.inner("structured_outputs")) is not None:
        found += [_guided(more, name, kind) for name, kind in _STRUCTURED.items()]
        found.append(_chosen(more, "choice"))
        more.only("structural_tag")
    named = [each for each in found if each is not None]
    if len(named) > 1:
        raise bad_request("An answer can follow one grammar only; this request names several.")
    return named[0] if named else None


def _formatted(form: Members) -> Grammar | None:
    """Return the grammar of OpenAI's `response_format`, or of one of its relatives."""
    kind = form.text("type")
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return _schema(form, "schema", form.raw("schema") or _ANY_OBJECT)
    if kind != "json_schema":
        raise form.unsupported("type")
    holder = form.inner("json_schema") or form
    return _schema(holder, "schema", holder.raw("schema"))


def _guided(body: Members, name: str, kind: GrammarKind) -> Grammar | None:
    value = body.raw(name)
    if value in (None, "", {}):
        return None
    if kind is GrammarKind.JSON_SCHEMA:
        return _schema(body, name, value)
    text = body.needed_text(name)
    lark = kind is GrammarKind.GBNF and "::=" not in text
    return _checked(Grammar(GrammarKind.LARK if lark else kind, text), body.place(name))


def _chosen(body: Members, name: str) -> Grammar | None:
    """Return the grammar of an answer that is one of some texts."""
    if not (texts := body.texts(name, 10_000)):
        return None
    return _checked(Grammar(GrammarKind.REGEX, "|".join(map(re.escape, texts))), body.place(name))


def _schema(holder: Members, name: str, value: object) -> Grammar:
    if not isinstance(value, str | dict):
        raise holder.wrong(name, "a JSON schema")
    text = value if isinstance(value, str) else json.dumps(value)
    return _checked(Grammar(GrammarKind.JSON_SCHEMA, text), holder.place(name))


def _checked(grammar: Grammar, place: str) -> Grammar:
    try:
        check_grammar(grammar)
    except UserFixable as refused:
        raise refusal(refused, place) from refused
    return grammar


def refusal(refused: UserFixable, place: str) -> ApiError:
    """Return the error of a grammar that cannot be used."""
    error = bad_request(refused.cause, place)
    error.code = "invalid_grammar"
    return error
