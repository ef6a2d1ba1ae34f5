"""What the API of `local_hub` says of repositories, in the real hub's own words."""

from __future__ import annotations

from typing import Any

from local_hub import Published, git_sha1, is_large

from engine.hub.messages import RemoteFile


def search(repositories: list[Published], query: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Those whose name holds the words, as a list of models."""
    words = query.get("search", [""])[0].lower()
    tags = set(query.get("filter", []))
    task = query.get("pipeline_tag", [None])[0]
    found = [
        _summary(repository)
        for repository in repositories
        if words in repository.name.lower()
        and not repository.private
        and tags <= set(repository.facts.get("tags", ()))
        and task in (None, repository.facts.get("pipeline_tag"))
    ]
    by = query.get("sort", ["id"])[0]
    if by != "id":
        found.sort(key=lambda summary: summary.get(by) or 0, reverse=True)
    limit = int(query.get("limit", ["1000"])[0])
    return [_expanded(summary, query) for summary in found[:limit]]


def details(repository: Published, query: dict[str, list[str]]) -> dict[str, Any]:
    """All of one; with sizes and hashes of its files where they are asked for."""
    blobs = query.get("blobs", ["false"])[0].lower() == "true"
    files = [
        _sibling(file, repository.files[file.path], blobs=blobs) for file in repository.listed()
    ]
    told = {**_summary(repository), "sha": repository.revision, "siblings": files}
    return _expanded(told, query)


def _expanded(told: dict[str, Any], query: dict[str, list[str]]) -> dict[str, Any]:
    """Only what was asked for, where something was."""
    wanted = query.get("expand")
    return {
        key: value for key, value in told.items() if wanted is None or key in ("_id", "id", *wanted)
    }


def _summary(repository: Published) -> dict[str, Any]:
    return {
        "_id": "0" * 24,
        "id": repository.name,
        "modelId": repository.name,
        "private": repository.private,
        "gated": "manual" if repository.gated else False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "createdAt": "2026-01-01T00:00:00.000Z",
        "lastModified": "2026-01-02T00:00:00.000Z",
        **repository.facts,
    }


def _sibling(file: RemoteFile, data: bytes, *, blobs: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"rfilename": file.path}
    if blobs:
        told |= {"size": file.nbytes, "blobId": git_sha1(data)}
        if is_large(file.path):
            told["lfs"] = {"sha256": file.sha256, "size": file.nbytes, "pointerSize": 134}
    return told
