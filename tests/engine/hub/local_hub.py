"""A hub on loopback: the real one's routes, headers and redirects, and faults on demand.

Repositories live in memory. Large files are answered with a redirect to a second address, as the
real hub sends them to its CDN, which takes ranges and refuses a request that shows a token. What
goes wrong is told beforehand: a `Trap` snaps at a byte of a file, an `Answer` stands for a whole
request. Neither knows a clock.
"""

from __future__ import annotations

import hashlib
import socketserver
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from engine.hub.messages import RemoteFile

_LARGE = (".safetensors", ".gguf")
"""What repositories keep outside git, whatever its size."""


class Act(Enum):
    """What a trap does at its byte."""

    DROP = auto()
    """The connection ends."""
    HANG = auto()
    """Nothing more comes, and the connection stays."""
    HOLD = auto()
    """Nothing more comes until `Trap.release`."""
    SPOIL = auto()
    """This byte is another one."""


@dataclass(eq=False)
class Trap:
    """Snaps when the byte `at` of a file is to be sent; everything before it has gone out."""

    path: str
    at: int
    act: Act
    times: int = 1
    reached: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let a held file go on."""
        self._go.set()

    def wait(self) -> None:
        """Until `release`."""
        self._go.wait()


@dataclass(eq=False)
class Answer:
    """What a request whose path holds `path` gets instead of what it asks for.

    Attributes:
        status: 0: no answer at all, the connection ends.
        held: the answer waits for `release`.
    """

    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    method: str | None = None
    times: int = 1
    held: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    _go: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let a held answer go out."""
        self._go.set()

    def wait(self) -> None:
        """Until `release`, where it is held."""
        self.reached.set()
        if self.held:
            self._go.wait()


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(eq=False)
class Published:
    """A repository.

    Attributes:
        name: "owner/name".
        files: their bytes by path.
        gated: its files need a token whose owner accepted its terms.
        private: nobody but its owner knows of it.
        facts: what the API says of it besides, in the API's own words.
    """

    name: str
    files: dict[str, bytes]
    gated: bool = False
    private: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    revision: str = ""

    def __post_init__(self) -> None:
        if not self.revision:
            parts = [f"{path}\0{etag(path, data)}" for path, data in sorted(self.files.items())]
            self.revision = hashlib.sha1("\n".join(parts).encode()).hexdigest()  # noqa: S324 - as git

    def listed(self, *paths: str) -> tuple[RemoteFile, ...]:
        """These files, or all, as the hub lists them."""
        return tuple(_listed(path, self.files[path]) for path in paths or sorted(self.files))


class LocalHub:
    """Serves until it is left as a context.

    Attributes:
        tokens: those that are valid, each with the repositories it may read.
        served: bytes of files that were sent, by "owner/name/path".
        asked: all requests so far.
        takes_ranges: else whoever asks for a part gets it all, as some mirrors do.
    """

    def __init__(self) -> None:
        from local_hub_server import Handler

        self.tokens: dict[str, set[str]] = {}
        self.served: Counter[str] = Counter()
        self.asked: list[Asked] = []
        self.takes_ranges = True
        self._repositories: dict[str, Published] = {}
        self._traps: list[Trap] = []
        self._answers: list[Answer] = []
        self._held_answers: list[Answer] = []
        self._held: set[Trap] = set()
        self._lock = threading.Lock()
        self._servers = [_Server(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server in self._servers:
            server.hub = self

    def __enter__(self) -> Self:
        for server in self._servers:
            serve = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
            serve.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            held, self._traps = self._held, []
        for each in (*held, *self._held_answers):
            each.release()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        """Its address, as HF_ENDPOINT takes it."""
        return f"http://127.0.0.1:{self._servers[0].server_port}"

    @property
    def cdn(self) -> str:
        """Where large files come from."""
        return f"http://127.0.0.1:{self._servers[1].server_port}"

    def publish(self, name: str, files: Path | Mapping[str, bytes], **more: Any) -> Published:
        """Add a repository, or put another in its place; of a folder all files in it."""
        if isinstance(files, Path):
            files = {
                file.relative_to(files).as_posix(): file.read_bytes()
                for file in sorted(files.rglob("*"))
                if file.is_file()
            }
        self._repositories[name] = Published(name, dict(files), **more)
        return self._repositories[name]

    def repository(self, name: str) -> Published | None:
        """The one of this name."""
        return self._repositories.get(name)

    def repositories(self) -> list[Published]:
        """All, in the order in which they were added."""
        return list(self._repositories.values())

    def trap(self, path: str, at: int, act: Act, times: int = 1) -> Trap:
        """Set a trap in a file of any repository."""
        trap = Trap(path, at, act, times)
        with self._lock:
            self._traps.append(trap)
        return trap

    def answer(self, path: str, status: int, **more: Any) -> Answer:
        """Answer requests of which `path` is a part with this status."""
        answer = Answer(path, status, **more)
        with self._lock:
            self._answers.append(answer)
            self._held_answers.append(answer)
        return answer

    def forget_faults(self) -> None:
        """All works from now on."""
        with self._lock:
            self._traps, self._answers = [], []

    def requests(self, method: str, part: str = "") -> list[Asked]:
        """Requests of a kind, of which this is a part of the path."""
        return [one for one in list(self.asked) if one.method == method and part in one.path]

    def take_answer(self, method: str, path: str) -> Answer | None:
        """The next answer that stands for this request, if any."""
        with self._lock:
            for answer in self._answers:
                if answer.times and answer.path in path and answer.method in (None, method):
                    answer.times -= 1
                    return answer
        return None

    def take_trap(self, path: str, start: int, end: int) -> Trap | None:
        """The first trap that snaps in these bytes of a file."""
        with self._lock:
            set_here = [
                trap
                for trap in self._traps
                if trap.times and trap.path == path and start <= trap.at < end
            ]
            if not set_here:
                return None
            trap = min(set_here, key=lambda trap: trap.at)
            trap.times -= 1
            self._held.add(trap)
            return trap

    def count(self, key: str, nbytes: int) -> None:
        """So much of a file has gone out."""
        with self._lock:
            self.served[key] += nbytes


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    hub: LocalHub

    def server_bind(self) -> None:
        """Without asking for the computer's name, which may ask a network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients are killed in tests; whatever else is wrong shows in what they got."""


def is_large(path: str) -> bool:
    """Whether the repository keeps the file outside git."""
    return path.lower().endswith(_LARGE)


def etag(path: str, data: bytes) -> str:
    """What names these bytes: SHA-256 of a large file, git's hash of a small one."""
    if is_large(path):
        return hashlib.sha256(data).hexdigest()
    return git_sha1(data)


def git_sha1(data: bytes) -> str:
    """Git's hash of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - as git


def _listed(path: str, data: bytes) -> RemoteFile:
    if is_large(path):
        return RemoteFile(path, len(data), sha256=etag(path, data))
    return RemoteFile(path, len(data), git_sha1=etag(path, data))
