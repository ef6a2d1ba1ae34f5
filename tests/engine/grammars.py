"""Grammars of tests, and what a text has to be to follow them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from engine.model.text.grammar import GrammarCompiler
from engine.request import Grammar, GrammarKind
from engine.speculative.constraint import Constraint

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "kind": {"enum": ["customer", "supplier"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}
CHOICE = {"anyOf": [{"const": "yes"}, {"const": "no"}, {"type": "null"}]}
ANIMALS = r"(cat|dog|horse)( and (cat|dog|horse)){0,3}\."
CALCULATION = """
start: sum "="
sum: product ("+" product)*
product: NUMBER ("*" NUMBER)*
NUMBER: /[0-9]{1,3}/
"""
MOVES = """
root ::= move (" " move)* "."
move ::= [a-h] [1-8] "-" [a-h] [1-8]
"""


def _person(text: str) -> bool:
    found = json.loads(text)
    return list(found) == list(PERSON["properties"]) and found["kind"] in ("customer", "supplier")  # type: ignore[call-overload]


GRAMMARS: dict[str, tuple[Grammar, Callable[[str], object]]] = {
    "schema": (Grammar(GrammarKind.JSON_SCHEMA, json.dumps(PERSON)), _person),
    "choice": (
        Grammar(GrammarKind.JSON_SCHEMA, json.dumps(CHOICE)),
        lambda text: json.loads(text) in ("yes", "no", None),
    ),
    "regex": (Grammar(GrammarKind.REGEX, ANIMALS), re.compile(ANIMALS).fullmatch),
    "lark": (
        Grammar(GrammarKind.LARK, CALCULATION),
        re.compile(r"\d{1,3}([*+]\d{1,3})*=").fullmatch,
    ),
    "gbnf": (
        Grammar(GrammarKind.GBNF, MOVES),
        re.compile(r"[a-h][1-8]-[a-h][1-8]( [a-h][1-8]-[a-h][1-8])*\.").fullmatch,
    ),
}


def constraint(compiler: GrammarCompiler, name: str, start: int) -> Constraint:
    """A grammar for an answer that begins at a position."""
    return Constraint(compiler.matcher(GRAMMARS[name][0]), start)
