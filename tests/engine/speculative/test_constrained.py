"""Grammars: they filter what the target draws, so every loop writes the same constrained text."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import partial

import jsonschema
import numpy as np
import pytest
from folder_models import FOLDER_DRAFT, FOLDER_TARGET
from grammars import GRAMMARS, constraint
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from native_models import native_decoder
from parallel_runs import RandomPace, lane_of, run
from random_schemas import random_schema
from scripted_lanes import script_the_draft, script_time

from engine.backend.cpu import native_is_built
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger, Purpose
from engine.backend.native.library import Format
from engine.backend.prefix_cache import PrefixCache
from engine.backend.tree import TokenTree
from engine.errors import UserFixable
from engine.model.text.grammar import GrammarCompiler, check_grammar, closed
from engine.model.text.tokenizer import Tokenizer
from engine.request import Grammar, GrammarKind, SamplingParams
from engine.speculative.constraint import Constraint, mask
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.drafters.forced import ForcedDrafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

CONTEXT, TOKENS = 512, 60
QUESTIONS = (
    "Tell me about a customer.",
    "Which animals are there? A cat, a dog and a horse, a horse.",
    "a2-a4 b7-b5 1*2+3= yes no",
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(FOLDER_TARGET)


@pytest.fixture(scope="module")
def compiler(tokenizer: Tokenizer, target: Decoder) -> GrammarCompiler:
    return GrammarCompiler(tokenizer, target.config.vocab_size)


@pytest.fixture(scope="module")
def target() -> Decoder:
    if not native_is_built():
        pytest.skip("the native library is not built")
    return native_decoder(FOLDER_TARGET, Format.Q8)


@pytest.fixture(scope="module")
def draft() -> Decoder:
    return native_decoder(FOLDER_DRAFT, Format.Q8)


def drafters(target: Decoder, draft: Decoder) -> dict[str, Drafter]:
    def standalone(model: Decoder) -> StandaloneDrafter:
        context = min(CONTEXT, model.config.max_positions)
        return StandaloneDrafter(model, PrefixCache(model, context, 1 << 28))

    return {"draft": standalone(draft), "itself": standalone(target), "lookup": LookupDrafter()}


@pytest.mark.release(keep=6, reason="every grammar with every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("name", GRAMMARS)
def test_every_loop_writes_the_same(
    name: str,
    sampling: SamplingParams,
    target: Decoder,
    draft: Decoder,
    compiler: GrammarCompiler,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for seed, question in enumerate(QUESTIONS):
        every_loop(name, sampling, question, seed, target, draft, compiler, tokenizer, monkeypatch)


@pytest.mark.release(keep=2, reason="two hundred requests")
@pytest.mark.parametrize("number", range(200))
def test_every_loop_writes_the_same_for_a_random_request(
    number: int,
    target: Decoder,
    draft: Decoder,
    compiler: GrammarCompiler,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(number)
    name = chance.choice(list(GRAMMARS))
    sampling = replace(chance.choice(list(SAMPLINGS.values())), seed=chance.getrandbits(63))
    question = " ".join(chance.choices(" ".join(QUESTIONS).split(), k=chance.randint(1, 30)))
    every_loop(name, sampling, question, number, target, draft, compiler, tokenizer, monkeypatch)


def every_loop(
    name: str,
    sampling: SamplingParams,
    question: str,
    seed: int,
    target: Decoder,
    draft: Decoder,
    compiler: GrammarCompiler,
    tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Have the same request answered by every loop, with every draft; all texts agree."""
    follows = GRAMMARS[name][1]
    ends = tuple(tokenizer.eos_ids)
    rng = np.random.default_rng(seed)
    prompt = tokenizer.encode_text(question)
    write = partial(
        decode, target, prompt, sampling, stop_ids=ends, max_tokens=TOKENS, context=CONTEXT
    )
    plain = write(constraint=constraint(compiler, name, len(prompt)))
    if plain.tokens[-1] in ends:
        assert follows(tokenizer.decode(plain.tokens[:-1]))
    portable = write(constraint=constraint(compiler, name, len(prompt)), native=False)
    assert portable.tokens == plain.tokens, "the definition draws something else"
    oracle = OracleDrafter(plain.tokens, len(prompt), target.config.vocab_size, rng)
    for kind, drafter in {**drafters(target, draft), "oracle": oracle}.items():
        own = constraint(compiler, name, len(prompt))
        done = write(drafter=drafter, controller=RandomController(rng), constraint=own)
        assert done.tokens == plain.tokens, kind
    with monkeypatch.context() as patch:
        script_the_draft(patch)
        script_time(patch)
        own = constraint(compiler, name, len(prompt))
        beside = run(
            target,
            lane_of(draft, CONTEXT, [LookupDrafter()]),
            prompt,
            sampling,
            controller=RandomPace(rng),
            stop_ids=ends,
            max_tokens=TOKENS,
            constraint=own,
        )
        assert beside.tokens == plain.tokens, "parallel"


@pytest.mark.release(keep=1, reason="a thousand schemas")
@pytest.mark.parametrize("batch", range(100))
def test_answers_to_random_schemas_are_valid(
    batch: int, target: Decoder, compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    ends = tuple(tokenizer.eos_ids)
    for number in range(10 * batch, 10 * batch + 10):
        schema = random_schema(random.Random(number))
        prompt = tokenizer.encode_text(QUESTIONS[number % len(QUESTIONS)])
        matcher = compiler.matcher(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema)))
        done = decode(
            target,
            prompt,
            SamplingParams(temperature=0.8, seed=number),
            drafter=ForcedDrafter(),
            stop_ids=ends,
            max_tokens=700,
            context=1024,
            constraint=Constraint(matcher, len(prompt)),
        )
        assert done.tokens[-1] in ends, f"{number}: {schema}"
        told = json.loads(tokenizer.decode(done.tokens[:-1]))
        jsonschema.validate(told, schema, format_checker=jsonschema.FormatChecker())


def test_forced_tokens_are_drafts(
    target: Decoder, compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    """Separators and names of members come for nothing, and the target verifies them all."""
    prompt = tokenizer.encode_text(QUESTIONS[0])
    write = partial(decode, target, prompt, SamplingParams(), stop_ids=tuple(tokenizer.eos_ids))
    own = constraint(compiler, "schema", len(prompt))
    done = write(drafter=ForcedDrafter(), constraint=own)
    accepted = sum(each.accepted for each in done.rounds)
    assert accepted == sum(each.drafted for each in done.rounds), "they cannot be wrong"
    assert accepted >= len(tokenizer.encode_text('{"name": ""')) - 2
    assert len(done.rounds) < len(done.tokens)


def test_what_is_forced_ends_with_the_answer(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    own = constraint(compiler, "choice", 0)
    begun = tokenizer.encode_text('"no')
    (end,) = set(own.forced(begun)) & tokenizer.eos_ids
    closing = own.forced(begun)
    assert tokenizer.decode(closing[:-1]) == '"'
    assert closing[-1] == end
    assert own.forced([*begun, *closing]) == []


def test_nodes_that_are_forbidden_are_not_verified(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    own = constraint(compiler, "regex", 1)
    cat, dog = tokenizer.encode_text("cat"), tokenizer.encode_text("dog")
    wrong = tokenizer.encode_text("Zebra")
    nodes: list[tuple[int, int, float]] = []
    for path in (cat, wrong, [*dog, *wrong]):
        parent = 0
        for token in path:
            nodes.append((parent, token, -0.1 * len(nodes)))
            parent = len(nodes)
    tree = TokenTree.build(5, nodes)
    pruned = own.pruned(tree, [5])
    assert sorted(pruned.tokens) == sorted({5, *cat, *dog})
    assert all(parent < node for node, parent in enumerate(pruned.parents))


def test_a_path_that_is_given_up_leaves_nothing(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    """The constraint is a pure function of the path, whatever it was asked before."""
    rng = np.random.default_rng(3)
    asked = constraint(compiler, "lark", 2)
    path: list[int] = []
    for _ in range(60):
        path = path[: int(rng.integers(0, len(path) + 1))]
        fresh = constraint(compiler, "lark", 2).allowed([7, 8], path).copy()
        assert (asked.allowed([7, 8], path) == fresh).all()
        choices = np.flatnonzero(mask(fresh, 32 * len(fresh)))
        token = int(rng.choice(choices))
        path = [] if token in tokenizer.eos_ids else [*path, token]


def test_filters_come_after_the_grammar(compiler: GrammarCompiler) -> None:
    """Top-k, top-p and min-p count among what is allowed; else nothing might be left of it."""
    vocab = compiler._vocab
    rng = np.random.default_rng(0)
    allowed = mask(constraint(compiler, "regex", 0).allowed([]), vocab)
    for trial in range(30):
        logits = rng.normal(0, 4, vocab).astype(np.float32)
        params = SamplingParams(
            temperature=1.3, seed=trial, top_k=[0, 1, 5, 300][trial % 4], top_p=0.6, min_p=0.01
        )
        drawn = [
            Sampler(params, constraint=constraint(compiler, "regex", 0), native=native).draw(
                logits, []
            )
            for native in (True, False)
        ]
        assert drawn[0] == drawn[1]
        assert allowed[drawn[0]]


def test_no_constraint_proposes_nothing() -> None:
    context = DraftContext([1, 2], Sampler(SamplingParams()), lambda: False)
    assert ForcedDrafter().at_once(context, 9) == TokenTree.root(2)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (GrammarKind.JSON_SCHEMA, "{", "The JSON schema cannot be used"),
        (GrammarKind.JSON_SCHEMA, "[]", "a schema is an object"),
        (GrammarKind.JSON_SCHEMA, '{"type": "set"}', "Invalid type: set"),
        (GrammarKind.JSON_SCHEMA, '{"not": {"type": "null"}}', "not"),
        (GrammarKind.JSON_SCHEMA, '{"uniqueItems": true, "type": "array"}', "uniqueItems"),
        (GrammarKind.JSON_SCHEMA, '{"$ref": "http://a.example/b"}', "http://a.example/b"),
        (GrammarKind.JSON_SCHEMA, "[" * 100_000, "The JSON schema cannot be used"),
        (GrammarKind.REGEX, "(a", "The grammar cannot be used"),
        (GrammarKind.LARK, "start: other", "other"),
        (GrammarKind.LARK, "x" * 300_000, "longer than"),
        (GrammarKind.GBNF, "root ::= (", "The grammar cannot be used"),
        (GrammarKind.GBNF, "", "The grammar cannot be used"),
    ],
)
def test_bad_grammars_are_refused_in_words(
    kind: GrammarKind, text: str, says: str, compiler: GrammarCompiler
) -> None:
    for refuse in (compiler.matcher, check_grammar):
        with pytest.raises(UserFixable) as refusal:
            refuse(Grammar(kind, text))
        assert says in str(refusal.value.cause)
        assert refusal.value.remedy


def test_a_begun_answer_that_does_not_follow(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    begun = tokenizer.encode_text("Once upon")
    own = Constraint(compiler.matcher(Grammar(GrammarKind.JSON_SCHEMA, json.dumps({}))), 0)
    with pytest.raises(UserFixable, match="beginning of the answer"):
        own.allowed(begun)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(GrammarKind.JSON_SCHEMA, '{"const": -9223372036854775807}'),
        Grammar(GrammarKind.JSON_SCHEMA, '{"anyOf": [{"type": "integer", "enum": [1, -1e308]}]}'),
        Grammar(GrammarKind.LARK, 'start: "a" %json {"const": [{"b": -1e19}]}\n'),
        Grammar(GrammarKind.JSON_SCHEMA, '{"a":' * 700 + "1" + "}" * 700),
    ],
    ids=["const", "enum", "lark", "nested"],
)
def test_schemas_that_end_the_library_never_reach_it(grammar: Grammar) -> None:
    """The library's stack overflows at constants far below zero: the process would be gone."""
    with pytest.raises(UserFixable, match=r"below -2\^53|nested|recursion"):
        check_grammar(grammar)


def test_bounds_may_be_any_number() -> None:
    schema = {"type": "integer", "minimum": -(10**18), "maximum": 2**63}
    check_grammar(Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema)))


def test_what_a_vocabulary_takes_is_entered_as_long_as_it_is_held(tokenizer: Tokenizer) -> None:
    ledger = Ledger("cpu", "CPU")
    reserve = partial(Account(ledger, "target").take, Purpose.WORKSPACE)
    compiler = GrammarCompiler(tokenizer, tokenizer.vocab_size, reserve)
    assert ledger.held == 0
    for name in ("regex", "choice"):
        compiler.matcher(GRAMMARS[name][0])
        assert ledger.held == 140 * tokenizer.vocab_size
    del compiler
    assert ledger.held == 0


def test_objects_have_the_properties_that_are_named() -> None:
    text = {"type": "string"}
    point = {"type": "object", "properties": {"x": text}, "required": ["x"]}
    shut = {**point, "additionalProperties": False}
    assert closed(point) == shut
    assert closed({"type": "array", "items": point}) == {"type": "array", "items": shut}
    assert closed({"$defs": {"p": point}, "$ref": "#/$defs/p"})["$defs"] == {"p": shut}
    assert closed({"anyOf": [point, text]}) == {"anyOf": [shut, text]}
    nested = closed({"properties": {"properties": point}})
    assert nested["properties"] == {"properties": shut}
    for schema in (
        {"type": "object"},
        {**point, "additionalProperties": text},
        {**point, "required": ["x", "y"]},
        {**point, "minProperties": 3},
        {"allOf": [point, {"properties": {"y": text}}]},
        {**point, "anyOf": [{"properties": {"y": text}}]},
        {"$defs": {"p": point}, "$ref": "#/$defs/p", "properties": {"y": text}},
        {"const": point},
    ):
        assert closed(schema) == schema
