"""What the hub is asked: for a list of models, and for all that matters of one repository."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from urllib.parse import quote, urlsplit

from engine.hub.messages import (
    Describe,
    FoundRepository,
    Order,
    Packaging,
    RemoteFile,
    Repository,
    Results,
    Search,
)
from engine.hub.remote.addresses import Address, address_in
from engine.hub.remote.connection import (
    MOST_PARAMETERS,
    Connection,
    ServerObject,
    objects,
    unreadable,
)
from engine.hub.remote.fault_texts import shown_endpoint
from engine.hub.remote.faults import Fault, HubError, refuse
from engine.hub.remote.files import danger, in_words, is_commit, is_repo
from engine.hub.remote.variants import CONFIG, INDEX, remote_files, variants_of

_MODELS = "/api/models"
_TOLD = (
    "baseModels", "cardData", "config", "downloads", "gated", "gguf", "lastModified",
    "library_name", "pipeline_tag", "safetensors", "tags",
)  # fmt: skip
_SORT = {
    Order.DOWNLOADS: "downloads",
    Order.TRENDING: "trendingScore",
    Order.NEWEST: "lastModified",
}
_MOST = 1000
_LONGEST_WORDS = 200
_WRITES = "text-generation"
_TASKS = (_WRITES, "image-text-to-text", "any-to-any", "text2text-generation", "conversational")
"""Tasks that chat models are filed under; many are filed under none."""
_OTHER_PROGRAMS = (
    "peft", "diffusers", "sentence-transformers", "timm", "spacy", "flair", "mlx", "onnx",
    "transformers.js", "openvino", "coreml", "ctranslate2", "setfit", "span-marker",
)  # fmt: skip
"""Libraries whose models are none for us, whatever their files are called."""
_BASE = "base_model:"
_UNKNOWN = (Fault.NOT_FOUND, Fault.SIGN_IN)
"""Faults by which the hub says that there is no such repository."""


def search(connection: Connection, asked: Search) -> Results:
    """Ask the hub.

    Raises:
        HubError, StaleRequest: as `Connection.json`.
    """
    address = address_in(asked.words, connection.endpoint)
    if address is not None:
        try:
            return Results(asked, (_the_one(connection, address),))
        except HubError as error:
            if address.exact or error.trouble.fault not in _UNKNOWN:
                raise
    answer = connection.json(_MODELS, _parameters(asked))
    return Results(asked, found_in(answer, asked))


def found_in(answer: object, asked: Search) -> tuple[FoundRepository, ...]:
    """Return the models of a list; those that are not as asked for are left out."""
    found = [found_of(ServerObject(each)) for each in objects(answer, _MOST)]
    wanted = (each for each in found if each is not None)
    if asked.packaging is not None:
        wanted = (each for each in wanted if asked.packaging in each.packagings)
    return tuple(wanted)[: max(asked.limit, 0)]


def found_of(model: ServerObject) -> FoundRepository | None:
    """Return what the hub says of one repository; None where it has no proper name."""
    repo = model.data.get("id") or model.data.get("modelId")
    if not is_repo(repo):
        return None
    gguf, config = model.member("gguf"), model.member("config")
    parameters = model.member("safetensors").count("total", MOST_PARAMETERS)
    return FoundRepository(
        repo=str(repo),
        packagings=_packagings(model),
        downloads=model.count("downloads") or 0,
        parameters=parameters or gguf.count("total", MOST_PARAMETERS) or None,
        updated=model.time("lastModified"),
        licence=licence_of(model),
        gated=model.data.get("gated") not in (None, False, "false", ""),
        architecture=config.text("model_type") or gguf.text("architecture") or None,
        base=_base(model),
    )


def _the_one(connection: Connection, address: Address) -> FoundRepository:
    """Return what a list would say of the named repository, under its present name."""
    answer = connection.json(f"{_MODELS}/{quote(address.repo)}", {"expand": _TOLD})
    found = found_of(ServerObject(answer if isinstance(answer, Mapping) else {}))
    return unreadable("no model") if found is None else found


def _parameters(asked: Search) -> dict[str, str | tuple[str, ...]]:
    words = " ".join(asked.words.split())[:_LONGEST_WORDS]
    told: dict[str, str | tuple[str, ...]] = {
        "sort": _SORT[asked.order],
        "limit": str(min(max(asked.limit, 1), _MOST)),
        "expand": _TOLD,
    }
    if words:
        told["search"] = words
    else:
        told["pipeline_tag"] = _WRITES
    if asked.packaging is not None:
        told["filter"] = asked.packaging.value
    return told


def _packagings(model: ServerObject) -> tuple[Packaging, ...]:
    """Return the formats by tags and files; none for what is no model that writes."""
    tags = {tag.lower() for tag in model.texts("tags")}
    task, library = model.text("pipeline_tag"), model.text("library_name").lower()
    adapter = any(tag.startswith(f"{_BASE}adapter:") for tag in tags)
    if (task and task not in _TASKS) or library in _OTHER_PROGRAMS or adapter:
        return ()
    names = [str(each.get("rfilename", "")).lower() for each in _siblings(model)]
    return tuple(
        packaging
        for packaging in Packaging
        if packaging.value in tags or any(name.endswith(f".{packaging.value}") for name in names)
    )


def _siblings(model: ServerObject) -> list[Mapping[str, object]]:
    value = model.data.get("siblings")
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _base(model: ServerObject) -> str | None:
    """Return the repository a model was made from, as its card, the hub, or its tags say."""
    card = model.member("cardData").texts("base_model")
    listed = model.member("baseModels").data.get("models")
    models = listed if isinstance(listed, list) else []
    said = [each.get("id") for each in models if isinstance(each, dict)]
    tagged = [tag.split(":")[-1] for tag in model.texts("tags") if tag.startswith(_BASE)]
    own = model.data.get("id")
    return next(
        (str(name) for name in (*card, *said, *tagged) if is_repo(name) and name != own), None
    )


_TAG = "license:"
_OTHER = "other"
_FILES = ("LICENSE", "LICENSE.md", "LICENSE.txt", "LICENCE", "COPYING", "USE_POLICY.md")
_TERMS = {
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
    "mit": "https://opensource.org/license/mit",
    "bsd-3-clause": "https://opensource.org/license/bsd-3-clause",
    "cc-by-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "cc-by-sa-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "cc0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "gpl-3.0": "https://www.gnu.org/licenses/gpl-3.0.html",
    "agpl-3.0": "https://www.gnu.org/licenses/agpl-3.0.html",
    "gemma": "https://ai.google.dev/gemma/terms",
}
_LONGEST = 500


def licence_of(model: ServerObject) -> str | None:
    """Return a licence's name, as the card or the tags say."""
    card = model.member("cardData")
    tagged = (tag.removeprefix(_TAG) for tag in model.texts("tags") if tag.startswith(_TAG))
    said = next(iter(card.texts("license")), None) or next(tagged, None)
    named = card.text("license_name")
    name = named if named and said in (None, _OTHER) else said
    return name[:100] if name and name.isprintable() else None


def licence_link(model: ServerObject, page: str, files: Collection[str]) -> str | None:
    """Return where the terms of a licence are.

    Args:
        model: what the hub says of it.
        page: the address of the repository.
        files: all paths in it.
    """
    said = model.member("cardData").text("license_link", _LONGEST)
    if said and _is_address(said):
        return said
    own = next((name for name in (said, *_FILES) if name in files), None)
    if own is not None:
        return f"{page}/blob/main/{quote(own)}"
    return _TERMS.get(licence_of(model) or "")


def _is_address(text: str) -> bool:
    try:
        split = urlsplit(text)
    except ValueError:
        return False
    usable = split.scheme in ("http", "https") and bool(split.hostname) and "@" not in split.netloc
    return usable and not set(text) & set(' "<>\\^`{|}')


_MOST_FILES = 20_000
_LARGEST_CONFIG = 1 << 20
_LARGEST_INDEX = 32 << 20
_LONGEST_CONTEXT = 1 << 28
_TEMPLATE = "chat_template.jinja"
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
_NOT_GIVEN = (Fault.GATED, Fault.SIGN_IN, Fault.FORBIDDEN, Fault.NOT_FOUND)
"""A file is not read without consent to the terms; the rest is known all the same."""


def describe(connection: Connection, asked: Describe) -> Repository:
    """Ask the hub for everything.

    Raises:
        HubError: the hub cannot be asked, refuses, or lists what no hub lists.
        StaleRequest: the answer is no longer wanted.
    """
    if not is_repo(asked.repo):
        raise refuse(Fault.NOT_FOUND, f"no name of a repository: {asked.repo!r:.120}")
    path = f"/api/models/{quote(asked.repo)}"
    if asked.revision is not None:
        path += f"/revision/{quote(asked.revision, safe='')}"
    answer = connection.json(path, {"blobs": "true"})
    model = ServerObject(answer if isinstance(answer, dict) else unreadable("no object"))
    found, revision = found_of(model), model.data.get("sha")
    if found is None or not is_commit(revision):
        unreadable(f"no model, or no state of it: {revision!r:.60}")
    files, dangerous = remote_files(objects(model.data.get("siblings"), _MOST_FILES))
    at = f"/{quote(found.repo)}/resolve/{revision}/"
    by_path = {file.path: file for file in files}
    config = _json_file(connection, at, by_path.get(CONFIG), _LARGEST_CONFIG)
    index = _json_file(connection, at, by_path.get(INDEX), _LARGEST_INDEX)
    variants, left_out = variants_of(files, model, config, _shards(index))
    packagings = {variant.packaging for variant in variants}
    return Repository(
        found=replace(found, packagings=tuple(kind for kind in Packaging if kind in packagings)),
        revision=str(revision),
        variants=variants,
        unusable=in_words((*left_out, *dangerous)),
        licence_link=licence_link(model, _page(asked, found.repo), by_path),
        config="" if config is None else json.dumps(config.data),
        context=_context(model, config),
        has_template=_has_template(model, by_path),
    )


def _page(asked: Describe, repo: str) -> str:
    return f"{shown_endpoint(asked.access)}/{quote(repo)}"


def _json_file(
    connection: Connection, at: str, file: RemoteFile | None, largest: int
) -> ServerObject | None:
    """Return a small file of the repository; None where there is none, or it is not given to us.

    One that is damaged says nothing.
    """
    if file is None or file.nbytes > largest:
        return None
    try:
        return ServerObject.read(connection.content(at + quote(file.path), largest=largest))
    except HubError as error:
        if error.trouble.fault is Fault.UNREADABLE:
            return ServerObject({})
        if error.trouble.fault in _NOT_GIVEN:
            return None
        raise


def _shards(index: ServerObject | None) -> frozenset[str] | None:
    """Return the files that an index names; None where there is none."""
    if index is None:
        return None
    names = frozenset(index.member("weight_map").data.values())
    if any(danger(name) is not None for name in names):
        raise refuse(Fault.UNSAFE, f"{INDEX} names files that cannot be there")
    return frozenset(str(name) for name in names)


def _context(model: ServerObject, config: ServerObject | None) -> int | None:
    """Return the tokens it was trained for; a model that also sees tells them in `text_config`."""
    told = model.member("gguf").count("context_length", _LONGEST_CONTEXT)
    for each in (config, config.member("text_config") if config else None):
        for name in _CONTEXTS if each is not None else ():
            told = told or (each.count(name, _LONGEST_CONTEXT) if each is not None else None)
    return told or None


def _has_template(model: ServerObject, files: dict[str, RemoteFile]) -> bool:
    if _TEMPLATE in files or model.member("gguf").data.get("chat_template"):
        return True
    settings = model.member("config").member("tokenizer_config")
    return bool(settings.data.get("chat_template"))
