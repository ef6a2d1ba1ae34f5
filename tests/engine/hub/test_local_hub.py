"""The local hub is one to huggingface_hub itself, which runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_hub import Act, LocalHub

_FILES = {"config.json": b'{"model_type": "llama"}', "model.safetensors": bytes(range(256)) * 400}
_SCRIPT = """
import json, sys
import huggingface_hub as hf

def failed(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return [one.__name__ for one in type(error).__mro__]
    return []

def file(repo, name, **more):
    return hf.hf_hub_download(repo, name, **more)

told = {}
api = hf.HfApi()
told["found"] = [model.id for model in api.list_models(search="tiny")]
info = api.model_info("ann/tiny", files_metadata=True)
told["revision"] = info.sha
told["sizes"] = {file.rfilename: file.size for file in info.siblings}
told["large"] = {one.rfilename: one.lfs.sha256 for one in info.siblings if one.lfs}
told["paths"] = [file("ann/tiny", name, revision=info.sha) for name in sorted(told["sizes"])]
told["with token"] = file("ann/gated", "config.json", token="good")
told["gated"] = failed(file, "ann/gated", "model.safetensors", token=False)
told["not accepted"] = failed(file, "ann/gated", "model.safetensors", token="stranger")
told["no repository"] = failed(file, "ann/nothing", "config.json", token=False)
told["no file"] = failed(file, "ann/tiny", "nothing.json", token=False)
told["name"] = hf.whoami("good")["name"]
json.dump(told, sys.stdout)
"""


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    with LocalHub() as hub:
        yield hub


def test_huggingface_hub_takes_it_for_a_hub(hub: LocalHub, tmp_path: Path) -> None:
    tiny = hub.publish("ann/tiny", _FILES)
    hub.publish("ann/gated", _FILES, gated=True)
    hub.tokens = {"good": {"ann/gated"}, "stranger": set()}

    told = _run(hub, tmp_path)

    assert told["found"] == ["ann/tiny"]
    assert told["revision"] == tiny.revision
    assert told["sizes"] == {name: len(data) for name, data in _FILES.items()}
    assert told["large"] == {"model.safetensors": tiny.listed("model.safetensors")[0].sha256}
    assert [Path(path).read_bytes() for path in told["paths"]] == list(_FILES.values())
    assert Path(told["with token"]).read_bytes() == _FILES["config.json"]
    assert "GatedRepoError" in told["gated"]
    assert "GatedRepoError" in told["not accepted"]
    assert "RepositoryNotFoundError" in told["no repository"]
    assert "EntryNotFoundError" in told["no file"]
    assert told["name"] == "somebody"
    assert hub.served["ann/tiny/model.safetensors"] == len(_FILES["model.safetensors"])


def test_parts_of_files(hub: LocalHub) -> None:
    tiny = hub.publish("ann/tiny", _FILES)
    url = f"{hub.url}/ann/tiny/resolve/{tiny.revision}/model.safetensors"
    whole = _FILES["model.safetensors"]

    assert _read(url, "bytes=1000-") == (206, whole[1000:])
    assert _read(url, "bytes=5-9") == (206, whole[5:10])
    assert _read(url, f"bytes={len(whole)}-") == (416, b"")
    hub.takes_ranges = False
    assert _read(url, "bytes=1000-") == (200, whole)


def test_faults_snap_at_their_byte(hub: LocalHub) -> None:
    tiny = hub.publish("ann/tiny", _FILES)
    url = f"{hub.url}/ann/tiny/resolve/{tiny.revision}/model.safetensors"
    whole = _FILES["model.safetensors"]

    hub.trap("model.safetensors", 50_000, Act.DROP)
    with pytest.raises(ConnectionError, match="after 50000 bytes"):
        _read(url)
    assert hub.served["ann/tiny/model.safetensors"] == 50_000
    hub.trap("model.safetensors", 7, Act.SPOIL)
    assert _read(url)[1] == whole[:7] + bytes([whole[7] ^ 1]) + whole[8:]
    hub.answer("model.safetensors", 503, headers={"Retry-After": "3"}, times=2)
    assert [_read(url)[0] for _ in range(3)] == [503, 503, 200]


def _read(url: str, part: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers={"Range": part} if part else {})  # noqa: S310
    whole = b""
    try:
        with urllib.request.urlopen(request, timeout=240) as response:  # noqa: S310
            while piece := response.read(1000):
                whole += piece
            missing = response.length
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    if missing:
        raise ConnectionError(f"after {len(whole)} bytes")
    return response.status, whole


def _run(hub: LocalHub, home: Path) -> dict[str, Any]:
    own = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told
