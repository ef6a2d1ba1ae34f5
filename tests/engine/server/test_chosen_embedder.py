"""Embeddings by a model that was chosen for them."""

from __future__ import annotations

import base64
import struct
from typing import Any

import numpy as np
import pytest
from encoder_models import TEXTS, bert
from played_engine import PlayedEngine, Reply, ask

from engine.encoder.encoder import Encoder, load_encoder

EMBEDDINGS = "/v1/embeddings"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(bert(tmp_path_factory.mktemp("models") / "tiny-bert"))


def reply(encoder: Encoder, body: Any, path: str = EMBEDDINGS, **settings: Any) -> Reply:
    return ask(PlayedEngine().application(encoder=encoder, **settings), path, body)


@pytest.mark.parametrize("model", ["", "tiny-bert", "Tiny-Bert:latest", "gpt-4o"])
def test_it_answers_in_place_of_the_loaded_model(encoder: Encoder, model: str) -> None:
    engine = PlayedEngine()
    app = engine.application(encoder=encoder, any_name=True)
    told = ask(app, EMBEDDINGS, {"input": list(TEXTS), "model": model}).json
    ours = [encoder.embed(text) for text in TEXTS]
    for entry, expected in zip(told["data"], ours, strict=True):
        np.testing.assert_allclose(entry["embedding"], expected.vector, rtol=1e-6)
    assert told["model"] == "tiny-bert", "the true one"
    assert told["usage"]["prompt_tokens"] == sum(each.tokens for each in ours)
    assert engine.commands == [], "the loaded model is not asked"


def test_it_answers_in_each_form(encoder: Encoder) -> None:
    expected = pytest.approx(encoder.embed("rain").vector.tolist(), rel=1e-6)
    packed = reply(encoder, {"input": "rain", "encoding_format": "base64"}).json["data"][0]
    raw = base64.b64decode(packed["embedding"])
    assert list(struct.unpack(f"<{encoder.width}f", raw)) == expected
    assert reply(encoder, {"input": ["rain"]}, "/api/embed").json["embeddings"] == [expected]
    assert reply(encoder, {"prompt": "rain"}, "/api/embeddings").json == {"embedding": expected}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"input": [1, 2]}, 400),
        ({"input": []}, 400),
        ({"input": "rain", "dimensions": 3}, 400),
        ({"input": "rain " * 500}, 400),
        ({"input": "rain", "model": "another"}, 404),
    ],
    ids=["tokens", "nothing", "fewer dimensions", "too long", "another model"],
)
def test_what_it_cannot_answer_is_refused(encoder: Encoder, body: Any, status: int) -> None:
    assert reply(encoder, body).status == status


def test_a_text_that_is_too_long_is_told_in_the_words_that_clients_look_for(
    encoder: Encoder,
) -> None:
    error = reply(encoder, {"input": ["rain", "rain " * 500]}).json["error"]
    assert error["code"] == "context_length_exceeded"
    assert f"maximum context length is {encoder.longest} tokens" in error["message"]


def test_it_is_among_the_models(encoder: Encoder) -> None:
    app = PlayedEngine().application(encoder=encoder)
    listed = ask(app, "/v1/models", None, method="GET").json["data"]
    assert "tiny-bert" in [each["id"] for each in listed]
    shown = ask(app, "/api/show", {"model": "tiny-bert"}).json
    assert shown["capabilities"] == ["embedding"]
