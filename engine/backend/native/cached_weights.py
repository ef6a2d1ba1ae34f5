"""Weights whose packed matrices are kept on disk: the next load maps them instead of packing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from engine.backend.native.library import Format
from engine.backend.native.matrix import Packed, pack_rows
from engine.backend.native.packed_cache import DamagedFile, NewFile, PackedCache, PackedFile
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.model.weights.readable import Floats, Readable, Stretch

HASHERS = 4
JUST_NOW_S = 3.0
"""A file changed so recently may change again within the same tick of its clock."""

_log = logging.getLogger(__name__)


class CachedWeights:
    """Weights in front of others, with a cache of their packed matrices.

    A context manager: what was packed inside is kept when the block ends without an error.

    Args:
        weights: where tensors are read from.
        files: the files that they lie in.
        fmt: the format that matrices are asked for in, or the smallest of several.
        nbytes: what the packed matrices will take, about.
        ids: the tokens of the output matrix's rows, where these are few: other tokens, other rows.
        part: what of the files it is, where that is not the model itself: other names, other rows.
        skip: told the names of tensors that need not be read.
        apart: tensors that are not kept: they lie in other files, or are held as they are stored.
        cache: where packed matrices are kept.
    """

    def __init__(
        self,
        weights: Readable,
        files: Sequence[Path],
        fmt: Format,
        nbytes: int,
        *,
        ids: Floats | None = None,
        part: str = "",
        skip: Callable[[Sequence[str]], None] = lambda _names: None,
        apart: Collection[str] = (),
        cache: PackedCache | None = None,
    ) -> None:
        self._weights, self._files, self._format, self._nbytes = weights, files, fmt, nbytes
        self._which = part.encode() + (b"" if ids is None else ids.tobytes())
        self._skip, self._apart = skip, frozenset(apart)
        self._cache = cache or PackedCache()
        self._pool = shared_pool()
        self._source: str | None = None
        self._files_kept: tuple[PackedFile, ...] = ()
        self._new: NewFile | None = None
        self._adds = False
        self._digests: dict[str, bytes] = {}
        self._added: set[tuple[str, ...]] = set()
        self._hashers = ThreadPoolExecutor(HASHERS, "hash")

    def __enter__(self) -> Self:
        self._source = source_of(self._files, self._format, self._which)
        if self._source is not None:
            self._files_kept = self._cache.find(self._source)
            self._adds = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._hashers.shutdown()
        new, source = self._new, self._source
        if new is None or source is None:
            return
        unchanged = source == source_of(self._files, self._format, self._which)
        hashed = all(name in self._digests for names in self._added for name in names)
        if error is None and unchanged and self._added and hashed:
            self._cache.keep(new, source, self._content())
        else:
            new.abandon()

    def float32(self, name: str) -> Floats:
        """The tensor as a C-contiguous fp32 array, hashed if what is made of it is to be kept."""
        values = self._weights.float32(name)
        if self._new is not None and values.ndim > 1:
            self._digests[name] = blake2b(values.data, digest_size=32).digest()
        return values

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self._weights.shape(name)

    def kind(self, name: str) -> str:
        """Kind in which a tensor is stored."""
        return self._weights.kind(name)

    def stretches(self, name: str) -> Iterator[Stretch]:
        """A matrix in stretches, each hashed while it is packed if it is to be kept."""
        if self._new is None:
            yield from self._weights.stretches(name)
            return
        sums = [blake2b(digest_size=32) for _ in range(HASHERS)]
        kind = ""
        for part in self._weights.stretches(name):
            kind = part.dtype.name
            quarters = np.array_split(part.reshape(-1), HASHERS)
            hashing = [
                self._hashers.submit(one.update, quarter.data)
                for one, quarter in zip(sums, quarters, strict=True)
            ]
            yield part
            for job in hashing:
                job.result()
        whole = blake2b(f"{name} {kind} {self.shape(name)}".encode(), digest_size=32)
        for one in sums:
            whole.update(one.digest())
        self._digests[name] = whole.digest()

    def packed(self, names: Sequence[str], fmt: Format, make: Callable[[], Packed]) -> Packed:
        """The named matrices from the cache, or as `make` packs them, which is then added.

        Which matrices are asked for depends on where the model lies: each load adds what no load
        before it needed.
        """
        if not self._apart.isdisjoint(names):
            return make()
        found = self._kept(names, fmt)
        if found is not None:
            self._skip(names)
            return found
        if self._adds and self._new is None:
            self._new = self._cache.begin(self._nbytes, self._pool)
            self._adds = self._new is not None
        packed = make()
        if self._new is not None and tuple(names) not in self._added:
            try:
                self._new.writer.add(names, packed)
                self._added.add(tuple(names))
            except OSError as error:
                _log.info("packed weights are not kept: %s", error)
                self._new.abandon()
                self._new, self._adds = None, False
        return packed

    def _kept(self, names: Sequence[str], fmt: Format) -> Packed | None:
        shapes = [self.shape(name) for name in names] if self._files_kept else []
        for file in self._files_kept:
            shape = sum(rows for rows, _ in shapes), shapes[0][1]
            try:
                if file.has(names, fmt, shape):
                    return file.matrix(names, fmt, shape, self._pool)
            except DamagedFile as error:
                _log.info("packed weights are damaged and made anew: %s", error)
                if self._source is not None:
                    self._cache.forget(self._source)
                self._files_kept, self._adds = (), False  # the next load begins afresh
                break
        return None

    def _content(self) -> str:
        sums = blake2b(f"{self._format} {layout(self._format)}".encode(), digest_size=16)
        for names in sorted(self._added):
            for name in names:
                sums.update(self._digests[name])
            sums.update(b"%d" % len(names))
        return sums.hexdigest()


def source_of(files: Sequence[Path], fmt: Format, which: bytes = b"") -> str | None:
    """Return a key for the files as they are now; None while they are changing.

    Args:
        files: with the weights.
        fmt: that they are packed in.
        which: what is read of them; nothing: the whole model.
    """
    layouts = [layout(each) for each in (fmt, Format.Q4, Format.Q8)]
    stands = [str(fmt), *layouts, blake2b(which, digest_size=16).hexdigest()]
    try:
        for file in sorted(files):
            stat = file.stat()
            if abs(time.time() - stat.st_mtime) < JUST_NOW_S:
                return None
            times = stat.st_mtime_ns, stat.st_ctime_ns
            stands.append(f"{file.resolve()} {stat.st_ino} {stat.st_size} {times}")
    except OSError:
        return None
    return blake2b("\n".join(stands).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


@cache
def layout(fmt: Format) -> str:
    """Digest of a packed sample: it changes whenever the packing does."""
    numbers = np.arange(48 * 96).reshape(48, 96) * 977 % 1021 - 510
    weights = (numbers / 4096).astype(np.float32)
    packed = pack_rows(ThreadPool(1), weights, fmt)
    return blake2b(packed.data.tobytes(), digest_size=16).hexdigest()
