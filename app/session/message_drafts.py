"""Unsent texts, kept per conversation, also when Duotail or the machine dies."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.session.attachments import Attachment

_log = logging.getLogger(__name__)

_SAVE_AFTER_MS = 400
_NEW = "new"


@dataclass(frozen=True, slots=True)
class Draft:
    """An unsent message."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()


NOTHING = Draft()


class MessageDrafts(QObject):
    """One small file per conversation with something unsent; written beside the window's thread.

    The key is the conversation's id, None for the chat that has not begun. What cannot be written
    is tried again until it can.

    Args:
        folder: where the files lie; None: nowhere, as with a history that is not kept.
        parent: the owner.
    """

    _failed = Signal(object)
    """The key of a draft that could not be written."""

    def __init__(self, folder: Path | None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = folder
        self._held: dict[int | None, Draft] = {}
        self._unsaved: set[int | None] = set()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="drafts")
        self._timer = QTimer(self, singleShot=True, interval=_SAVE_AFTER_MS)
        self._timer.timeout.connect(self._save)
        self._failed.connect(self._again)

    def get(self, key: int | None) -> Draft:
        """Return the unsent text of this conversation."""
        if key not in self._held:
            self._held[key] = NOTHING if self._folder is None else _read(_path(self._folder, key))
        return self._held[key]

    def put(self, key: int | None, draft: Draft) -> None:
        """Keep this; the file follows shortly."""
        if draft != self.get(key):
            self._held[key] = draft
            self._again(key)

    def keep_only(self, ids: Collection[int]) -> None:
        """Forget what belongs to conversations that are gone for good."""
        kept = {_NEW, *map(str, ids)}
        for path in self._folder.glob("*.json") if self._folder is not None else ():
            if path.stem not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        """Write what is not written yet, and wait for it."""
        self._timer.stop()
        self._save()
        self._writer.shutdown(wait=True)

    def _again(self, key: int | None) -> None:
        self._unsaved.add(key)
        self._timer.start()

    def _save(self) -> None:
        if self._folder is not None:
            for key in self._unsaved:
                self._writer.submit(self._write, _path(self._folder, key), key, self._held[key])
        self._unsaved.clear()

    def _write(self, path: Path, key: int | None, draft: Draft) -> None:
        try:
            _write(path, draft)
        except OSError as error:
            _log.warning("the draft %s could not be kept: %s", path.name, error)
            self._failed.emit(key)


def _path(folder: Path, key: int | None) -> Path:
    return folder / f"{_NEW if key is None else key}.json"


def _read(path: Path) -> Draft:
    """Read a draft from its file; an empty one where there is no (usable) file."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
        attachments = tuple(Attachment(**each) for each in loaded["attachments"])
        return Draft(str(loaded["text"]), attachments)
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning("the draft %s is not usable: %s", path.name, error)
        return NOTHING


def _write(path: Path, draft: Draft) -> None:
    if draft == NOTHING:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)  # a data folder that was taken away is not made anew
    part = path.with_suffix(".part")
    text = json.dumps(asdict(draft), ensure_ascii=False)
    part.write_text(text, encoding="utf-8", errors="replace")
    os.replace(part, path)
