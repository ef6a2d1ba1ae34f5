"""PyTorch, with the transformers library: the part of Duotail that is fetched when it is needed.

It serves training, model families without a decoder of our own, weights in fp32, and graphics cards
that WebGPU does not drive. Whoever is about to import it asks here first.
"""

from __future__ import annotations

from importlib import metadata

from engine.errors import Absent
from engine.events import FailureKind
from engine.language import tr
from engine.language.units import file_size

PACKAGES = ("torch", "transformers")
DOWNLOAD_BYTES = 220_000_000
"""With what it brings along; measured for Linux x86-64, CPU only."""
DISK_BYTES = 1_000_000_000


class PyTorchAbsent(Absent):
    """PyTorch is needed and not installed; the window offers to download it."""

    kind = FailureKind.NEEDS_PYTORCH


def is_installed() -> bool:
    """Return whether PyTorch and the transformers library are here, whole; neither is imported."""
    return all(map(_is_whole, PACKAGES))


def _is_whole(name: str) -> bool:
    """Return whether a package was installed to its end, when its list of files is written."""
    try:
        return metadata.distribution(name).read_text("RECORD") is not None
    except metadata.PackageNotFoundError:
        return False


def need_pytorch(purpose: str) -> None:
    """Do nothing where PyTorch is installed.

    Args:
        purpose: what needs it, the beginning of a sentence: "Training".

    Raises:
        PyTorchAbsent: it is not.
    """
    if not is_installed():
        raise PyTorchAbsent(
            tr("{purpose} needs PyTorch, which is not installed.").format(purpose=purpose),
            tr("Download it with `duotail pytorch` (about {size}).").format(
                size=file_size(DOWNLOAD_BYTES)
            ),
        )
