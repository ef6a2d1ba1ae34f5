"""Planted bugs of downloads; see `bugs`."""

from __future__ import annotations

from typing import Any


def sizes_taken_for_hashes() -> None:
    """A file of the right size is taken for the right file."""
    from engine.hub import hashes

    hashes.is_right = lambda path, file: path.stat().st_size == file.nbytes


def notes_of_a_file_that_was_changed() -> None:
    """What was right once counts as right whatever was written since."""
    from engine.hub import hashes

    hashes._note = lambda _blob, file: [file.sha256, file.git_sha1]


def room_for_the_largest_download_only() -> None:
    """Each of several downloads fits, and all of them do not."""
    from engine.hub.download import cache

    honest = cache.make_sure_of_room

    def make_sure_of_room(jobs: Any, reserve: int) -> None:
        for job in jobs:
            honest([job], reserve)

    cache.make_sure_of_room = make_sure_of_room


def a_head_beside_a_model_opened_in_its_place() -> None:
    """The first file by name is opened, although an MTP head came with the model."""
    from engine.hub.download import cache

    cache.is_mtp_head = lambda _path: False
