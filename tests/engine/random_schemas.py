"""Random JSON schemas of the keywords that are supported, whose texts all have an end.

A small model that draws its tokens writes decimals, addresses and host names without one.
"""

from __future__ import annotations

import random
from typing import Any

FORMATS = ("date", "ipv4", "uuid")
_NAMES = ("name", "age", "city", "tags", "price", "kind", "notes", "id")
_PATTERNS = ("^[a-z]{2,5}$", "^[A-Z][0-9]{3}$", "^(red|green|blue)$")


def random_schema(chance: random.Random, depth: int = 3) -> dict[str, Any]:
    """An object, with a definition that it may refer to."""
    schema = _object(chance, depth)
    schema["$defs"] = {"point": _object(chance, 0)}
    if chance.random() < 0.3:
        schema["properties"]["place"] = {"$ref": "#/$defs/point"}
        schema["required"] = [*schema["required"], "place"]
    return schema


def _object(chance: random.Random, depth: int) -> dict[str, Any]:
    names = chance.sample(_NAMES, chance.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _value(chance, depth) for name in names},
        "required": names if chance.random() < 0.7 else names[:1],
        "additionalProperties": False,
    }


def _value(chance: random.Random, depth: int) -> dict[str, Any]:
    kinds = [_text, _number, _choice]
    if depth > 0:
        kinds += [
            lambda c: _object(c, depth - 1),
            lambda c: _array(c, depth - 1),
            lambda c: {"anyOf": [_value(c, depth - 1), {"type": "null"}]},
        ]
    return chance.choice(kinds)(chance)


def _text(chance: random.Random) -> dict[str, Any]:
    kind = chance.randrange(3)
    if kind == 0:
        return {"type": "string", "format": chance.choice(FORMATS)}
    if kind == 1:
        return {"type": "string", "pattern": chance.choice(_PATTERNS)}
    low = chance.randint(0, 3)
    return {"type": "string", "minLength": low, "maxLength": low + chance.randint(0, 12)}


def _number(chance: random.Random) -> dict[str, Any]:
    low = chance.randint(-50, 50)
    bounds = {"minimum": low, "maximum": low + chance.randint(1, 1000)}
    if chance.random() < 0.5:
        return {"type": "integer", **bounds}
    return {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + 9}


def _choice(chance: random.Random) -> dict[str, Any]:
    return chance.choice(
        [
            {"enum": ["small", "large", 3, None]},
            {"const": "fixed"},
            {"type": "boolean"},
            {"type": ["string", "null"], "maxLength": 6},
        ]
    )


def _array(chance: random.Random, depth: int) -> dict[str, Any]:
    low = chance.randint(0, 2)
    return {
        "type": "array",
        "items": _value(chance, depth),
        "minItems": low,
        "maxItems": low + chance.randint(0, 2),
    }
