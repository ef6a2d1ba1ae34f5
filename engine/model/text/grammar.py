"""Grammars that an answer has to follow, by the library llguidance (constrained decoding).

The library is imported with the first grammar. It reads a vocabulary once, a second for one of
150,000 tokens; what may come next takes it some ten microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import tr
from engine.model.text.tokenizer import Tokenizer
from engine.request import Grammar, GrammarKind

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

_LEAST_CONSTANT = -(2**53)
"""Least number that a schema may have as a constant: from there on, every program has the same."""
_BYTES_A_TOKEN = 140
"""Bytes that the library holds for a token of a vocabulary, measured with one of 151,936."""
_OPEN = (
    *("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"),
    "minProperties",
)
"""Keywords of objects that may have properties without being told their names."""
_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
_SCHEMAS = ("items", "prefixItems", "additionalProperties", "anyOf", "oneOf")
_EMBEDDED = re.compile(r"%json\s*")
MOST_CHARACTERS = 256 * 1024
"""Longest text of a grammar."""
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How JSON is written: in one line, so that most of what is between values is certain."""
BODY = "BODY"
"""Stands for the grammars in the rules of an opening."""


class Reserved(Protocol):
    """Memory that was entered somewhere."""

    def lasts_as_long_as(self, holder: object) -> object:
        """Give it back when `holder` is garbage."""


class GrammarCompiler:
    """Compiles grammars for a model's tokens; reads its vocabulary when first asked.

    Args:
        tokenizer: of the model.
        vocab: width of its logits.
        reserve: enters what the vocabulary takes in this form, in bytes, when it is read. Raises
            where there is no memory for it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        vocab: int,
        reserve: Callable[[int], Reserved] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._reserve = reserve
        self._known: LLTokenizer | None = None

    def matcher(self, *grammars: Grammar, opening: str = "") -> GrammarMatcher:
        """Return what follows an answer and tells which tokens the grammars allow next.

        Args:
            grammars: the answer has to follow one of them.
            opening: Lark rules for what may come before: `start` holds `BODY` in their place;
                empty: nothing may.

        Raises:
            UserFixable: the grammar is wrong or too large, or asks for what is not supported.
        """
        from llguidance import LLMatcher

        if self._known is None:
            self._known = self._read_vocabulary()
        text = _described(grammars, opening)
        matcher = LLMatcher(self._known, text, log_level=0, limits=_limits())
        if matcher.is_error():
            raise _refusal(grammars[0], matcher.get_error())
        return GrammarMatcher(matcher, self._vocab, self._tokenizer.eos_ids)

    def _read_vocabulary(self) -> LLTokenizer:
        from llguidance import LLTokenizer

        if not self._tokenizer.eos_ids:
            raise UserFixable(
                tr("This model has no token that ends an answer, so no grammar can hold it."),
                tr("Choose another model, or ask without a grammar."),
            )
        if self._reserve is not None:
            self._reserve(_BYTES_A_TOKEN * self._vocab).lasts_as_long_as(self)
        ends = sorted(self._tokenizer.eos_ids)
        vocabulary = _Vocabulary(self._tokenizer, self._vocab)
        return LLTokenizer(vocabulary, n_vocab=self._vocab, eos_token=ends)  # type: ignore[arg-type]


class _Vocabulary:
    """A tokenizer as llguidance reads it. Control tokens are none of its texts."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer, vocab: int) -> None:
        self.eos_token_id = min(tokenizer.eos_ids)
        self.bos_token_id = tokenizer.bos_id
        self.tokens = [tokenizer.token_bytes(token) for token in range(vocab)]
        control = {*tokenizer.control_tokens.values(), *tokenizer.eos_ids}
        self.special_token_ids = sorted(token for token in control if token < vocab)
        self._encode_each = tokenizer.encode_each

    def __call__(self, text: str | bytes) -> list[int]:
        written = text.decode() if isinstance(text, bytes) else text
        return self._encode_each([written])[0]


class GrammarMatcher:
    """Follows one answer, token by token.

    Its members raise `UserFixable` where the grammar turns out to take too much work.
    """

    def __init__(self, matcher: LLMatcher, vocab: int, ends: Collection[int]) -> None:
        self._matcher = matcher
        self._ends = ends
        self._over = False  # the answer has ended; the library takes no end behind a whole text
        self._allowed = np.zeros((vocab + 31) // 32, dtype=np.uint32)

    def allowed(self) -> NDArray[np.uint32]:
        """Return the tokens that may come next, a bit each, the lowest first.

        The array is the same at every call.
        """
        self._matcher.unsafe_compute_mask_ptr(self._allowed.ctypes.data, self._allowed.nbytes)
        self._check()
        return self._allowed

    def consume(self, tokens: list[int]) -> bool:
        """Go on behind tokens; return whether the grammar allows them, else nothing is usable."""
        self._over = tokens[-1] in self._ends
        if not self._over:
            return self._matcher.consume_tokens(tokens)
        return self._matcher.consume_tokens(tokens[:-1]) and self._matcher.is_accepting()

    def take_back(self, count: int) -> None:
        """Go back by so many tokens."""
        if count:
            self._matcher.rollback(count - self._over)
            self._over = False

    def fitting(self, tokens: list[int]) -> int:
        """Return how many of these tokens the grammar allows, one behind the other."""
        return self._matcher.validate_tokens(tokens)

    def forced(self) -> list[int]:
        """Return the tokens that have to come next, as far as there is no choice.

        The token that ends the answer is one of them; behind it nothing comes.
        """
        if self._over:
            return []
        forced = self._matcher.compute_ff_tokens()
        self._check()
        if forced and self._matcher.consume_tokens(forced):
            ends = self._matcher.is_stopped()
            self._matcher.rollback(len(forced))
        else:
            ends = self._matcher.is_stopped()
        self._check()
        return [*forced, min(self._ends)] if ends else forced

    def _check(self) -> None:
        if self._matcher.is_error():
            raise UserFixable(
                tr("The grammar takes too much work to follow."),
                tr("Make it simpler, and ask again."),
                self._matcher.get_error()[:500],
            )


def check_grammar(grammar: Grammar) -> None:
    """Look at a grammar without any model.

    Raises:
        UserFixable: it is wrong or too large, or asks for what is not supported.
    """
    from llguidance import LLMatcher

    error = LLMatcher.validate_grammar(_described((grammar,), ""), limits=_limits())
    if error and not error.startswith("WARNING"):
        raise _refusal(grammar, error)


def _described(grammars: Sequence[Grammar], opening: str) -> str:
    """Return grammars in the library's own form, behind their opening."""
    parts = [{"name": f"body_{i}", **_part(each)} for i, each in enumerate(grammars)]
    if not opening and len(parts) == 1:
        return json.dumps({"grammars": parts})
    either = " | ".join(f"@body_{i}" for i in range(len(parts)))
    first = (opening or f"start: {BODY}\n").replace(BODY, f"({either})", 1)
    return json.dumps({"grammars": [{"lark_grammar": first}, *parts]})


def _part(grammar: Grammar) -> dict[str, object]:
    if len(grammar.text) > MOST_CHARACTERS:
        raise UserFixable(
            tr("The grammar is longer than {count} characters.").format(count=MOST_CHARACTERS),
            tr("Make it shorter, and ask again."),
        )
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return {"json_schema": _schema(grammar)}
        case GrammarKind.REGEX:
            from llguidance import LLMatcher

            (found,) = json.loads(LLMatcher.grammar_from_regex(grammar.text))["grammars"]
            return {"lark_grammar": found["lark_grammar"]}
        case GrammarKind.GBNF:
            return {"lark_grammar": _lark_of_gbnf(grammar)}
        case GrammarKind.LARK:
            for schema in _schemas_in(grammar.text):
                _check_constants(schema, grammar)
            return {"lark_grammar": grammar.text}


def _schema(grammar: Grammar) -> object:
    try:
        schema = json.loads(grammar.text)
    except (ValueError, RecursionError) as error:
        raise _refusal(grammar, str(error)) from error
    _check_constants(schema, grammar)
    if isinstance(schema, dict):
        return {**closed(schema), "x-guidance": COMPACT}
    if isinstance(schema, bool):
        return {"x-guidance": COMPACT} if schema else {"enum": []}
    raise _refusal(grammar, "a schema is an object")


def closed(schema: dict[str, object]) -> dict[str, object]:
    """Return a schema whose objects have the properties that it names, and no others.

    What follows it follows the schema, too. Small models have no end of further properties, and
    other programs' grammars allow none either where a schema says nothing of them. One that
    puts objects together from several parts stays as it is.
    """
    try:
        return schema if _combines(schema) else _closed(schema)
    except RecursionError:  # the library refuses it in words
        return schema


def _closed(schema: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {key: _closed_below(key, each) for key, each in schema.items()}
    names, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(names, dict) or any(key in schema for key in _OPEN):
        return found
    if isinstance(required, list) and all(each in names for each in map(str, required)):
        found["additionalProperties"] = False
    return found


def _closed_below(key: str, value: object) -> object:
    """Return what stands under a keyword, the schemas in it closed."""
    if key in _NAMED_SCHEMAS and isinstance(value, dict):
        return {name: _closed_below("items", each) for name, each in value.items()}
    if key not in _SCHEMAS:
        return value
    if isinstance(value, list):
        return [_closed_below("items", each) for each in value]
    return _closed(value) if isinstance(value, dict) else value


def _combines(value: object) -> bool:
    """Tell whether a schema puts an object together from several schemas."""
    if isinstance(value, list):
        return any(map(_combines, value))
    if not isinstance(value, dict):
        return False
    parts = sum(key in value for key in ("properties", "$ref", "anyOf", "oneOf", "if", "not"))
    return "allOf" in value or parts > 1 or any(map(_combines, value.values()))


def _check_constants(schema: object, grammar: Grammar) -> None:
    """Refuse what would end the process: the library overflows its stack, which nothing catches."""
    try:
        least = min(_constants(schema), default=0.0)
    except RecursionError as error:
        raise _refusal(grammar, "it is nested too deeply") from error
    if least < _LEAST_CONSTANT:
        raise _refusal(grammar, "constants below -2^53 are not supported")


def _constants(value: object, *, inside: bool = False) -> Iterator[float]:
    """Yield the numbers among the constants of a schema."""
    match value:
        case dict():
            for key, each in value.items():
                yield from _constants(each, inside=inside or key in ("const", "enum"))
        case list():
            for each in value:
                yield from _constants(each, inside=inside)
        case int() | float() if inside:
            yield value


def _schemas_in(lark: str) -> Iterator[object]:
    """Yield the JSON schemas in a Lark grammar."""
    for match in _EMBEDDED.finditer(lark):
        with suppress(ValueError):  # the library says what is wrong with it
            yield json.JSONDecoder().raw_decode(lark, match.end())[0]


def _lark_of_gbnf(grammar: Grammar) -> str:
    from llguidance.gbnf_to_lark import any_to_lark

    try:
        return any_to_lark(grammar.text)
    except (ValueError, RecursionError, KeyError, IndexError) as error:
        raise _refusal(grammar, str(error)) from error
    except Exception as error:  # the library's own, which it does not export as one type
        raise _refusal(grammar, str(error)) from error


def _limits() -> LLParserLimits:
    from llguidance import LLParserLimits

    return LLParserLimits(verbose_errors=False)


def _refusal(grammar: Grammar, error: str) -> UserFixable:
    """Return the sentence for a grammar that the library does not take."""
    words = " ".join(error.split())[:500]
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        return UserFixable(
            tr("The JSON schema cannot be used: {reason}.").format(reason=words.rstrip(".")),
            tr("Correct it, or leave out what is not supported."),
            words,
        )
    return UserFixable(
        tr("The grammar cannot be used: {reason}.").format(reason=words.rstrip(".")),
        tr("Correct it, and ask again."),
        words,
    )
