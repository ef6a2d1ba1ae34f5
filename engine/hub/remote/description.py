"""All that matters of one repository: its state, its files with their hashes, what can be had."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import quote

from engine.hub.messages import Describe
from engine.hub.remote.answer import ServerObject, objects, unreadable
from engine.hub.remote.connection import Connection
from engine.hub.remote.faults import Fault, HubError, refuse
from engine.hub.remote.folder_variant import CONFIG, INDEX
from engine.hub.remote.left_out import in_words
from engine.hub.remote.listing import Packaging, RemoteFile, Repository
from engine.hub.remote.safe_files import danger, is_commit, is_repo
from engine.hub.remote.search import found_of, licence_link
from engine.hub.remote.variants import remote_files, variants_of
from engine.hub.remote.words import shown_endpoint

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
