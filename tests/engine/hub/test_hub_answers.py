"""Questions to a real server on loopback: what is asked, and what becomes of the answers."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from huggingface_hub import close_session
from local_hub import LocalHub
from stopwatch import least

from engine.hub.messages import (
    Access,
    Describe,
    FoundRepository,
    Order,
    Packaging,
    Repository,
    Search,
)
from engine.hub.remote.addresses import prepare
from engine.hub.remote.connection import Connection, StaleRequest
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, trouble_of
from engine.hub.remote.queries import describe, found_in, search

REPO = "someone/some-model"
TOKEN = "hf_abcdefghijklmnop"
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
}  # fmt: skip
FOLDER = {
    "config.json": json.dumps(LLAMA).encode(),
    "model.safetensors": b"weights",
    "tokenizer.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "LICENSE": b"Do what you like.",
}
GGUF = {"m-Q4_K_M.gguf": b"small", "m-Q8_0.gguf": b"larger one", "README.md": b"#"}
GGUF_FACTS = {
    "tags": ["gguf", "license:mit", "base_model:quantized:maker/base", "conversational"],
    "pipeline_tag": "text-generation",
    "gguf": {"total": 600_000_000, "architecture": "qwen3", "context_length": 32768,
             "chat_template": "{{ messages }}"},
    "downloads": 1000,
}  # fmt: skip


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with LocalHub() as running:
        running.publish(REPO, FOLDER, facts={"tags": ["safetensors"], "downloads": 5000})
        running.publish("someone/some-gguf", GGUF, facts=GGUF_FACTS)
        yield running
    close_session()


def through(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New connections, as a process begins with them."""
    close_session()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    prepare(Access(proxy=proxy))


def found(
    hub: LocalHub, words: str, token: str | None = None, **more: Any
) -> tuple[FoundRepository, ...]:
    access = Access(endpoint=hub.url, token=token)
    return search(Connection(access), Search(access, words, **more)).found


def told(
    hub: LocalHub, repo: str = REPO, token: str | None = None, revision: str | None = None
) -> Repository:
    access = Access(endpoint=f"{hub.url}/", token=token)
    return describe(Connection(access), Describe(access, repo, revision))


def fault(error: pytest.ExceptionInfo[HubError]) -> Fault:
    return error.value.trouble.fault


# -- search ----------------------------------------------------------------------------------


def test_search_by_words(hub: LocalHub) -> None:
    assert [each.repo for each in found(hub, "SOME")] == [REPO, "someone/some-gguf"]
    assert found(hub, "nothing like it") == ()
    (gguf,) = found(hub, "gguf")
    assert gguf == FoundRepository(
        repo="someone/some-gguf",
        packagings=(Packaging.GGUF,),
        downloads=1000,
        parameters=600_000_000,
        updated=1767312000.0,
        licence="mit",
        gated=False,
        architecture="qwen3",
        base="maker/base",
    )


def test_search_asks_for_an_order_a_number_and_a_packaging(hub: LocalHub) -> None:
    assert [each.repo for each in found(hub, "some", limit=1)] == [REPO]
    (only,) = found(hub, "some", packaging=Packaging.GGUF, order=Order.TRENDING)
    assert only.repo == "someone/some-gguf"
    asked = hub.requests("GET", "/api/models?")[-1].path
    assert "sort=trendingScore" in asked
    assert "filter=gguf" in asked
    assert found(hub, "some", limit=0) == ()


def test_without_words_models_that_write_are_listed(hub: LocalHub) -> None:
    assert [each.repo for each in found(hub, "  ")] == ["someone/some-gguf"]


@pytest.mark.parametrize(
    "typed",
    [
        "someone/some-gguf",
        "https://huggingface.co/someone/some-gguf",
        "huggingface.co/someone/some-gguf/tree/main",
        "https://huggingface.co/someone/some-gguf/blob/main/m-Q8_0.gguf",
        "hf.co/someone/some-gguf:Q4_K_M",
        "hf://someone/some-gguf",
        "HUB/someone/some-gguf?not-for-all-audiences=true#top",
    ],
)
def test_a_name_or_an_address_finds_just_that_one(hub: LocalHub, typed: str) -> None:
    (only,) = found(hub, typed.replace("HUB", hub.url))
    assert (only.repo, only.downloads) == ("someone/some-gguf", 1000)


def test_a_name_that_is_not_finished_yet_is_searched_for(hub: LocalHub) -> None:
    assert [each.repo for each in found(hub, "someone/some")] == [REPO, "someone/some-gguf"]


def test_an_address_of_nothing_is_refused(hub: LocalHub) -> None:
    with pytest.raises(HubError) as error:
        found(hub, f"{hub.url}/someone/else")
    assert fault(error) is Fault.SIGN_IN
    hub.tokens[TOKEN] = set()
    with pytest.raises(HubError) as error:
        found(hub, f"{hub.url}/someone/else", token=TOKEN)
    assert fault(error) is Fault.NOT_FOUND


def test_what_cannot_be_used_has_no_packaging(hub: LocalHub) -> None:
    for name, facts in {
        "pictures": {"tags": ["safetensors", "diffusers"], "pipeline_tag": "text-to-image"},
        "adapter": {"tags": ["safetensors", "base_model:adapter:a/b"], "library_name": "peft"},
        "vectors": {"tags": ["safetensors"], "library_name": "sentence-transformers"},
        "old": {"tags": ["pytorch"]},
    }.items():
        hub.publish(f"other/{name}", FOLDER, facts=facts)
    assert {each.repo: each.packagings for each in found(hub, "other/")} == {
        f"other/{name}": () for name in ("pictures", "adapter", "vectors", "old")
    }


def test_nonsense_about_a_model_is_left_out_not_believed(hub: LocalHub) -> None:
    facts = {
        "tags": [5, None, "gguf", "license:\x1b[2J"],
        "downloads": -5,
        "gguf": {"total": 10**30, "architecture": 3},
        "safetensors": "none",
        "cardData": ["x"],
        "config": None,
        "lastModified": "yesterday",
        "gated": "manual",
    }
    hub.publish("odd/model", GGUF, facts=facts)
    assert found(hub, "odd/mod") == (
        FoundRepository("odd/model", packagings=(Packaging.GGUF,), gated=True),
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Sign in to the network</html>", b"{}", b"7", b"null", b"\xff\xfe", b"[" * 100_000,
     b'[{"id": NaN}]'],
)  # fmt: skip
def test_an_answer_that_no_hub_gives_is_unreadable(hub: LocalHub, body: bytes) -> None:
    hub.answer("/api/models", 200, body=body)
    with pytest.raises(HubError) as error:
        found(hub, "words")
    assert fault(error) is Fault.UNREADABLE


def test_entries_that_are_no_models_are_left_out(hub: LocalHub) -> None:
    body = json.dumps([7, None, {}, {"id": "../up"}, {"id": 3}, {"id": "a/b"}]).encode()
    hub.answer("/api/models", 200, body=body)
    assert found(hub, "words") == (FoundRepository("a/b"),)


@pytest.mark.release(reason="a stopwatch")
def test_five_hundred_models_are_read_at_once() -> None:
    """What a list of the real hub holds of each: tags, a card, a template of several kB."""
    model = {**GGUF_FACTS, "cardData": {"license": "mit", "tags": ["x"] * 20}, "id": "a/b",
             "gguf": {**GGUF_FACTS["gguf"], "chat_template": "{{ x }}" * 800}}  # fmt: skip
    models = [{**model, "id": f"owner/model-{n}"} for n in range(500)]
    body = json.dumps(models).encode()
    asked = Search(Access(), "model", limit=500)

    def once() -> float:
        gc.disable()
        try:
            start = time.thread_time()  # of this thread only: other programs are no matter
            found = found_in(json.loads(body), asked)
            return time.thread_time() - start if len(found) == 500 else 1.0
        finally:
            gc.enable()

    assert least(once, 0.1) < 0.1


# -- describe --------------------------------------------------------------------------------


def test_a_folder_is_described(hub: LocalHub) -> None:
    repository = told(hub)
    published = hub.repository(REPO)
    assert published is not None
    assert repository.revision == published.revision
    assert repository.found.packagings == (Packaging.SAFETENSORS,)
    (variant,) = repository.variants
    assert set(variant.files) == set(
        published.listed(
            "model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"
        )
    )
    assert variant.nbytes == sum(len(FOLDER[file.path]) for file in variant.files)
    assert json.loads(repository.config) == LLAMA
    assert (repository.context, repository.has_template) == (512, True)
    assert repository.licence_link == f"{hub.url}/{REPO}/blob/main/LICENSE"
    assert repository.unusable == ()


def test_gguf_is_described(hub: LocalHub) -> None:
    repository = told(hub, "someone/some-gguf")
    assert [each.name for each in repository.variants] == ["Q4_K_M", "Q8_0"]
    assert (repository.context, repository.has_template) == (32768, True)
    assert repository.config == ""
    assert repository.licence_link == "https://opensource.org/license/mit"


def test_shards_are_read_from_their_index(hub: LocalHub) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    index = {"weight_map": {"a": names[0], "b": names[1], "c": names[0]}}
    rest = {key: FOLDER[key] for key in ("config.json", "tokenizer.json")}
    files = {**rest, **{name: name.encode() for name in names}}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    hub.publish("a/shards", files)
    (variant,) = told(hub, "a/shards").variants
    assert [file.path for file in variant.files[:2]] == names
    files["model.safetensors.index.json"] = b'{"weight_map": {"a": "../../x.safetensors"}}'
    hub.publish("a/shards", files)
    with pytest.raises(HubError) as error:
        told(hub, "a/shards")
    assert fault(error) is Fault.UNSAFE


@pytest.mark.parametrize("broken", [b"{", b"[]", b"\xff", b"7"])
def test_a_damaged_config_makes_a_model_unusable_not_an_error(hub: LocalHub, broken: bytes) -> None:
    hub.publish(REPO, {**FOLDER, "config.json": broken})
    repository = told(hub)
    assert repository.variants == ()
    assert len(repository.unusable) == 1


def test_old_formats_and_programs_are_said(hub: LocalHub) -> None:
    hub.publish("a/old", {"pytorch_model.bin": b"x", "config.json": b"{}", "modeling_a.py": b"x"})
    repository = told(hub, "a/old")
    assert repository.variants == ()
    assert "hidden code" in repository.unusable[0]
    assert repository.found.packagings == ()


def test_terms_keep_the_config_away_but_not_the_rest(hub: LocalHub) -> None:
    hub.publish(REPO, FOLDER, gated=True)
    repository = told(hub)
    assert repository.found.gated
    assert (len(repository.variants), repository.config) == (1, "")
    hub.tokens[TOKEN] = {REPO}
    assert told(hub, token=TOKEN).config


def test_a_file_that_cannot_be_had_just_now_is_not_taken_for_missing(hub: LocalHub) -> None:
    hub.answer("config.json", 429, body=b"later")
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is Fault.BUSY


def test_a_state_can_be_named(hub: LocalHub) -> None:
    published = hub.repository(REPO)
    assert published is not None
    assert told(hub, revision=published.revision).revision == published.revision
    with pytest.raises(HubError) as error:
        told(hub, revision="refs/pr/1")
    assert fault(error) is Fault.NOT_FOUND


@pytest.mark.parametrize("name", ["", "../../etc", "a/b/c", "a/b?x=1"])
def test_what_is_no_name_is_not_asked_for(hub: LocalHub, name: str) -> None:
    with pytest.raises(HubError) as error:
        told(hub, name)
    assert fault(error) is Fault.NOT_FOUND
    assert hub.asked == []


@pytest.mark.parametrize(
    "change",
    [
        {"sha": None},
        {"sha": "main"},
        {"id": "../up"},
        {"siblings": None},
        {"siblings": [{"rfilename": "a.gguf", "size": -1, "blobId": "0" * 40}]},
    ],
)
def test_a_description_that_no_hub_gives_is_unreadable(
    hub: LocalHub, change: dict[str, Any]
) -> None:
    whole = {"id": REPO, "sha": "0" * 40, "siblings": [], **change}
    hub.answer(f"/api/models/{REPO}", 200, body=json.dumps(whole).encode())
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is Fault.UNREADABLE


def test_a_name_that_leads_out_is_unsafe(hub: LocalHub) -> None:
    sibling = {"rfilename": "../../.bashrc", "size": 1, "blobId": "0" * 40}
    whole = {"id": REPO, "sha": "0" * 40, "siblings": [sibling]}
    hub.answer(f"/api/models/{REPO}", 200, body=json.dumps(whole).encode())
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is Fault.UNSAFE


# -- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (401, {}, Fault.SIGN_IN),
        (403, {"X-Error-Code": "GatedRepo"}, Fault.GATED),
        (403, {}, Fault.FORBIDDEN),
        (404, {}, Fault.NOT_FOUND),
        (429, {"Retry-After": "7"}, Fault.BUSY),
        (500, {}, Fault.SERVER),
        (503, {}, Fault.SERVER),
        (304, {}, Fault.UNREADABLE),
        (400, {}, Fault.UNREADABLE),
        (0, {}, Fault.DROPPED),
    ],
)
def test_refusals_of_a_real_server(
    hub: LocalHub, status: int, headers: dict[str, str], expected: Fault
) -> None:
    hub.answer("/api/models", status, headers=headers, body=b"no", times=9)
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is expected
    assert error.value.trouble.retry_s == (7.0 if status == 429 else None)
    assert len(hub.asked) == 1, "nothing is asked twice in the same breath"


def test_a_broken_compression_is_unreadable(hub: LocalHub) -> None:
    hub.answer("/api/models", 200, headers={"Content-Encoding": "gzip"}, body=b"not gzip")
    with pytest.raises(HubError) as error:
        found(hub, "words")
    assert fault(error) is Fault.UNREADABLE


def test_a_silent_server_times_out(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.hub.remote.connection._READ_S", 0.05)
    hub.answer("/api/models", 200, held=True)
    with pytest.raises(HubError) as error:
        found(hub, "words")
    assert fault(error) is Fault.TIMEOUT


def test_an_answer_that_trickles_in_times_out(
    hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.hub.remote.connection._WHOLE_S", -1.0)
    with pytest.raises(HubError) as error:
        found(hub, "words")
    assert fault(error) is Fault.TIMEOUT


def test_an_endless_answer_is_not_read(hub: LocalHub) -> None:
    hub.answer("/api/models", 200, body=b"[" + b" " * 50_000 + b"]")
    with pytest.raises(HubError) as error:
        Connection(Access(endpoint=hub.url)).content("/api/models", largest=10_000)
    assert fault(error) is Fault.UNREADABLE


def test_an_answer_that_nobody_wants_is_given_up(hub: LocalHub) -> None:
    with pytest.raises(StaleRequest):
        Connection(Access(endpoint=hub.url), lambda: True).json("/api/models")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://[::1", "ftp://x", "nonsense"])
@pytest.mark.usefixtures("hub")
def test_no_network_is_told_at_once(endpoint: str) -> None:
    with pytest.raises(HubError) as error:
        Connection(Access(endpoint=endpoint)).json("/api/models")
    assert fault(error) is Fault.OFFLINE


def test_offline_by_choice_asks_nobody(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is Fault.OFFLINE
    assert BY_CHOICE in error.value.trouble.details
    assert hub.asked == []
    names = list[object]()
    monkeypatch.setattr("socket.getaddrinfo", lambda *asked: names.append(asked))
    with pytest.raises(HubError):
        Connection(Access(endpoint="https://hub.example")).json("/api/models")
    assert names == [], "not even for an address"


def test_a_proxy_carries_everything(hub: LocalHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub itself serves as one: whole addresses arrive instead of paths."""
    through(hub.url, monkeypatch)
    assert Connection(Access(endpoint="http://hub.invalid")).json("/api/models")
    assert hub.asked[-1].path == "http://hub.invalid/api/models"
    through("http://127.0.0.1:9", monkeypatch)
    with pytest.raises(HubError) as error:
        told(hub)
    assert fault(error) is Fault.OFFLINE


def test_the_token_goes_to_the_hub_and_nowhere_else(hub: LocalHub) -> None:
    hub.tokens[TOKEN] = set()
    with LocalHub() as other:
        hub.answer("/api/models", 307, headers={"Location": f"{other.cdn}/api/models"})
        found(hub, "words", token=TOKEN)
        assert hub.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
        assert "authorization" not in {name.lower() for name in other.asked[0].headers}
    found(hub, "words")
    assert "authorization" not in {name.lower() for name in hub.asked[-1].headers}


def test_a_wrong_token_is_told_without_saying_it(hub: LocalHub) -> None:
    with pytest.raises(HubError) as error:
        told(hub, token=TOKEN)
    assert fault(error) is Fault.SIGN_IN
    trouble = trouble_of(error.value)
    assert TOKEN not in repr(trouble) + str(error.value)
