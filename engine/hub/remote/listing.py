"""What the hub says of its models, in our words. Plain data, sent between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Packaging(StrEnum):
    """File formats of a model's weights."""

    GGUF = "gguf"
    SAFETENSORS = "safetensors"


class Order(StrEnum):
    """Orders in which models are listed."""

    DOWNLOADS = "downloads"
    TRENDING = "trending"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class Access:
    """Address and credentials for the hub; sent to the worker process and written nowhere.

    Attributes:
        endpoint: the hub's address; None: the usual one.
        token: of the user, for models that ask who one is; never shown, never logged.
        proxy: address of a proxy for all of it; None: what the system says.
        cache: the folder that other programs share; None: the hub's usual one.
    """

    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    proxy: str | None = field(default=None, repr=False)
    cache: str | None = None


@dataclass(frozen=True, slots=True)
class FoundRepository:
    """A repository among others.

    Attributes:
        repo: "owner/name".
        packagings: none: no weights that can be used (an old format, an adapter, pictures).
        parameters: of the model, where the hub knows.
        updated: seconds since 1970; None where unknown.
        gated: terms must be accepted on the hub's site first.
    """

    repo: str
    packagings: tuple[Packaging, ...] = ()
    downloads: int = 0
    likes: int = 0
    parameters: int | None = None
    updated: float | None = None
    licence: str | None = None
    gated: bool = False
    architecture: str | None = None
    base: str | None = None
    """The repository it was made from."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository.

    Attributes:
        path: relative, checked: no way out of the folder.
        sha256: of large files; None of small ones, which have `git_sha1`.
        git_sha1: git's hash of the file as a blob.
    """

    path: str
    nbytes: int
    sha256: str | None = None
    git_sha1: str | None = None

    @property
    def blob_name(self) -> str:
        """The hash that names the file's bytes in the shared cache."""
        return self.sha256 or self.git_sha1 or "nothing"


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the ways a repository has its model: a quantisation in GGUF, or safetensors.

    Attributes:
        name: as in "Q4_K_M" or "BF16".
        files: all that have to be fetched, weights first: parts, config, tokenizer, template.
        weight_bytes: of the weights only.
    """

    name: str
    packaging: Packaging
    files: tuple[RemoteFile, ...]
    weight_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes to fetch."""
        return sum(file.nbytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Repository:
    """All that matters of one repository.

    Attributes:
        found: what a list says of it.
        revision: the commit that `variants` were read from; fetched files are of it too.
        variants: smallest first; empty where nothing can be used.
        unusable: why files that look like weights are left out, in words, one line each.
        licence_link: where its terms are.
        config: its config.json as JSON, where there is one; else "".
        context: tokens that it was trained for, where known.
        has_template: whether it can chat.
    """

    found: FoundRepository
    revision: str
    variants: tuple[Variant, ...]
    unusable: tuple[str, ...] = ()
    licence_link: str | None = None
    config: str = ""
    context: int | None = None
    has_template: bool = False
