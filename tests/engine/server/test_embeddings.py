"""Embeddings, and what is no request for any."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from dialect_bodies import (
    at_home,
    told,
)
from household import Household
from played_engine import PlayedEngine, ask

EMBEDDINGS = "/v1/embeddings"


@pytest.mark.parametrize("value", ["Rain", ["Rain"], [5, 6], [[5, 6]]])
def test_embeddings_have_length_one(value: Any) -> None:
    engine = PlayedEngine()
    whole = told(EMBEDDINGS, {"input": value}, engine)
    (entry,) = whole["data"]
    assert entry["embedding"] == pytest.approx([0.6, -0.8])
    assert (entry["index"], whole["usage"]) == (0, {"prompt_tokens": 5, "total_tokens": 5})
    assert (engine.asked.request.max_tokens, engine.asked.gives_way) == (0, True)


def test_embeddings_as_base64() -> None:
    whole = told(EMBEDDINGS, {"input": ["a", "b"], "encoding_format": "base64"})
    packed = [base64.b64decode(each["embedding"]) for each in whole["data"]]
    assert [struct.unpack("<2f", each) for each in packed] == [pytest.approx((0.6, -0.8))] * 2


@pytest.mark.parametrize(
    "body",
    [{}, {"input": []}, {"input": [1, "a"]}, {"input": "a", "dimensions": 5}, {"input": {}},
     {"input": "a", "encoding_format": "int8"}, {"input": ["a"] * 3000}],
    ids=lambda body: str(body)[:40],
)  # fmt: skip
def test_no_embeddings(body: Any) -> None:
    assert ask(PlayedEngine().application(), EMBEDDINGS, body).status == 400


def test_embeddings_of_a_model_are_told_apart_and_repeat(household: Household) -> None:
    texts = ["A cat sleeps.", "A cat is asleep.", "A cat sleeps.", "x " * 90]
    first = at_home(household, EMBEDDINGS, {"input": texts})
    a, b, again, long = (each["embedding"] for each in first["data"])
    assert a == again
    assert a != b
    assert sum(value * value for value in long) == pytest.approx(1)
    alone = at_home(household, EMBEDDINGS, {"input": texts[1]})
    assert alone["data"][0]["embedding"] == b
