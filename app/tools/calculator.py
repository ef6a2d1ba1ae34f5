"""A calculator: expressions are parsed, and only numbers, operators and known functions count."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction

from engine.request import Tool

Number = int | float

CALCULATOR_TOOL = Tool(
    "calculator",
    "Calculate an arithmetic expression exactly, such as (3 + 4) * 2 ** 0.5. Knows + - * / // % "
    "**, parentheses, pi, e, and the functions abs, round, min, max, sum, sqrt, exp, log, log2, "
    "log10, sin, cos, tan, asin, acos, atan, degrees, radians, floor, ceil, factorial, gcd.",
    '{"type": "object", "properties": {"expression": {"type": "string"}}, "required": '
    '["expression"], "additionalProperties": false}',
)
_LONGEST = 1_000
_DEEPEST = 50
_MOST_BITS = 20_000
_MOST_FACTORIAL = 1_000
_DIGITS = 15


class BadExpression(Exception):
    """The expression cannot be calculated; the text says why, for the model."""


def _factorial(value: Number) -> int:
    if value != int(value) or not 0 <= value <= _MOST_FACTORIAL:
        raise BadExpression(f"factorial takes whole numbers from 0 to {_MOST_FACTORIAL}")
    return math.factorial(int(value))


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        if base.bit_length() * exponent > _MOST_BITS:
            raise BadExpression("the result is too large")
        power: int = base**exponent
        return power
    result: object = base**exponent
    if not isinstance(result, int | float):
        raise BadExpression("the result is not a real number")
    return result


def _divided(left: Number, right: Number) -> Number:
    """Return a quotient, whole where it is."""
    if isinstance(left, int) and isinstance(right, int):
        exact = Fraction(left, right)
        if exact.denominator == 1:
            return exact.numerator
    return left / right


def _rounded(value: Number, digits: Number = 0) -> Number:
    return round(value, int(digits)) if digits else round(value)


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_SIGNS: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_NAMES = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "round": _rounded,
    "min": min,
    "max": max,
    "sum": lambda *values: sum(values),
    "factorial": _factorial,
    "log": math.log,
    "gcd": lambda *values: math.gcd(*map(int, values)),
    **{
        name: getattr(math, name)
        for name in (
            *("sqrt", "exp", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("degrees", "radians", "floor", "ceil"),
        )
    },
}
_WRITTEN = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "^": "**"})


def calculate(expression: str) -> str:
    """Return the value of an expression, as text.

    Raises:
        BadExpression: it is none, or its value is no real number, or far too large.
    """
    text = expression.translate(_WRITTEN).strip().rstrip("=").strip()
    if not text or len(text) > _LONGEST:
        raise BadExpression(f"an expression has 1 to {_LONGEST} characters")
    try:
        value = _value(ast.parse(text, mode="eval").body, 0)
        return _as_text(value)
    except BadExpression:
        raise
    except ZeroDivisionError:
        raise BadExpression("division by zero") from None
    except (OverflowError, MemoryError, RecursionError):
        raise BadExpression("the result is too large") from None
    except (SyntaxError, ValueError, TypeError, ArithmeticError) as error:
        raise BadExpression(f"it cannot be calculated: {str(error)[:100]}") from None


def _value(node: ast.expr, depth: int) -> Number:
    if depth > _DEEPEST:
        raise BadExpression("it is nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _checked(value)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_value(inner, depth + 1))
        case ast.BinOp(left=left, op=does, right=right) if type(does) in _OPERATORS:
            operands = _value(left, depth + 1), _value(right, depth + 1)
            return _checked(_OPERATORS[type(does)](*operands))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _checked(_FUNCTIONS[name](*(_value(each, depth + 1) for each in args)))
    raise BadExpression("only numbers, operators and the functions of the description count")


def _checked(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise BadExpression("the result is too large")
    return value


def _as_text(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise BadExpression("the result is not a finite number")
    return f"{value:.{_DIGITS}g}"
