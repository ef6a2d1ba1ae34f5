"""The message about to be sent: text and files, kept as a draft, counted, checked, handed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.chat.composer.attachment_chips import ReadingFile
from app.chat.composer.composer import Composer
from app.chat.composer.context_full import ContextChoices
from app.chat.composer.context_meter import Fill
from app.chat.composer.message_queue import UNSENT, MessageQueue
from app.engine_link.asker import Asker
from app.engine_link.background import in_background
from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus, Phase
from app.history import ChatSetup, StoredMessage
from app.notices import Notice, report, report_failure, tell, withdraw
from app.session.attachments import (
    Attachment,
    as_block,
    is_document,
    model_among,
    pasted,
    read_attachment,
    with_attachments,
)
from app.session.message_drafts import NOTHING, Draft, MessageDrafts
from app.session.request import counted_request
from app.session.session import ChatSession
from app.signals import TypedSignal
from app.widgets.file_dialog import ask_for_files, ask_for_path
from engine.errors import Cancelled, UserFixable
from engine.events import RoundFinished
from engine.language import tr, tr_count
from engine.request import ChatRequest, Role

_PAUSE_MS = 250
_PATIENCE_MS = 2000
"""A template that does not take the message has no count for it either."""
_PATIENCE_AFTER_LOADING_MS = 10_000
_SURELY_FITS = 2_000
"""Bytes of a message that goes at once to a model of which the context is not known yet."""
_ONE_TOKEN = "."
_FOR_FILES = 0.6
"""Share of the context that files may take where only parts of them go along."""
_MOST_FOR_FILES = 8_192
"""Tokens of such parts, however long the context is: a CPU takes minutes to read more."""
_LETTERS_PER_TOKEN = 3
"""Fewer than usual, so that the parts fit."""


class Outgoing(QObject):
    """Stands between the composer and the session."""

    model_given = TypedSignal[Path]()
    """The path of a model that was dropped or pasted: it is meant to be loaded."""
    waits_changed = Signal()
    """`waits` is another one."""

    def __init__(
        self,
        composer: Composer,
        session: ChatSession,
        bridge: EngineBridge,
        drafts: MessageDrafts,
        choices: ContextChoices,
        queue: MessageQueue,
    ) -> None:
        super().__init__(composer)
        self._composer = composer
        self._session = session
        self._bridge = bridge
        self._asker = Asker(bridge, self)
        self._file_askers: list[Asker] = []
        self._drafts = drafts
        self._choices = choices
        self._queue = queue
        queue.edit_asked.connect(self._edit)
        queue.too_long.connect(self._make_room)
        queue.recounted.connect(self._follow_queue)
        choices.parts_asked.connect(self._take_parts)
        choices.left.connect(composer.field.setFocus)
        self._key: int | None = None
        self.attachments: list[Attachment] = []
        self._told: dict[Attachment, Notice] = {}
        """Notices on files of this draft."""
        self._untold: list[Attachment] = []
        """Files of other drafts on which there is something to say."""
        self._reading: dict[ReadingFile, int | None] = {}
        """Documents that are being read, and the conversations that they are for."""
        self._pastes = 0
        self._fill_is_current = False
        self.waits = False
        """True while a message that is to be sent waits for a model that says whether it fits."""
        self._held = QTimer(self, singleShot=True)
        """Runs while a message that is to be sent waits for the count of what was typed."""
        self._held.timeout.connect(self._send)
        self._room_for: Draft | None = None
        """The message that waited and for which the user chooses how it fits."""
        self._ahead = 0
        """Tokens of what is typed, while an answer is written."""
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._settle)
        composer.field.textChanged.connect(self._typed)
        composer.field.files_given.connect(self.attach)
        composer.field.long_text_given.connect(self._attach_pasted)
        composer.files_asked.connect(self.ask_for_files)
        composer.chips.removed.connect(self._remove)
        composer.chips.text_asked.connect(self._insert)
        composer.chips.encoding_chosen.connect(self._read_again)
        composer.send_asked.connect(self.send)
        session.opened.connect(self._switched)
        session.changed.connect(self._follow)
        session.branch_changed.connect(lambda *_: self._forget_fill())
        bridge.status_changed.connect(self._status_changed)
        bridge.subscribe_newest(RoundFinished, self._round_done)
        self._plan = bridge.status.plan
        self._restore(drafts.get(None))

    # -- files -----------------------------------------------------------------------------

    def ask_for_files(self) -> None:
        """Let the user choose files."""
        title = tr("Attach files: text, code, PDF, DOCX")
        ask_for_files(self._composer.window(), title, self.attach)

    def ask_for_folder(self) -> None:
        """Let the user choose a folder, whose text files are attached."""
        title = tr("Attach a folder: its text files")
        ask_for_path(self._composer.window(), title, lambda path: self.attach([path]), folder=True)

    def attach(self, paths: Sequence[Path]) -> None:
        """Read files beside the window's thread; what has no text is refused in words.

        A model among them goes its own way. Documents take a while, and have a chip meanwhile.
        """
        model = model_among(paths)
        if model is not None:
            self.model_given.emit(model)
            return
        folders = [path for path in paths if path.is_dir()]
        for folder in folders:
            key = self._key
            take = partial(self._take_folder, key, folder)
            in_background(self, partial(_text_files, folder), take, self._refuse, long=True)
        paths = [path for path in paths if path not in folders]
        texts = [path for path in paths if not is_document(path)]
        if texts:
            read = partial(_read_all, texts)
            in_background(self, read, partial(self._take, self._key), self._refuse)
        for path in paths:
            if is_document(path):
                self._read(path)

    def _read(self, path: Path) -> None:
        file = ReadingFile(path.name)
        self._reading[file] = self._key
        self._show(self.attachments)

        def done(attachment: Attachment) -> None:
            if file in self._reading:  # else it was taken away in the last moment
                key = self._reading[file]
                self._forget(file)
                self._attach(key, attachment)

        def failed(error: Exception) -> None:
            self._forget(file)
            if not isinstance(error, Cancelled):
                report_failure(error)

        in_background(
            self, partial(read_attachment, path, file.stop.is_set), done, failed, long=True
        )

    def _forget(self, file: ReadingFile) -> None:
        """Take away the chip of a file that is read no longer."""
        if self._reading.pop(file, None) == self._key:
            self._show(self.attachments)

    def _take(self, key: int | None, read: Sequence[Attachment | UserFixable]) -> None:
        for each in read:
            if isinstance(each, Attachment):
                self._attach(key, each)
            else:
                report(each)

    def _take_folder(
        self, key: int | None, folder: Path, read: tuple[list[Attachment], int]
    ) -> None:
        """Attach the text files of a folder; their sizes are seen before anything is sent."""
        files, left_out = read
        for each in files:
            self._attach(key, each)
        if not files:
            report(
                UserFixable(
                    tr("“{name}” holds no text files.").format(name=folder.name),
                    tr("Attach files with text in them."),
                )
            )
        elif left_out:
            told = tr_count(
                "{n} file was left out: it holds no text, or is one too many.",
                "{n} files were left out: they hold no text, or are too many.",
                left_out,
            )
            tell(tr("“{name}”: {told}").format(name=folder.name, told=told))

    def _attach(self, key: int | None, attachment: Attachment) -> None:
        if attachment.notice:
            self._untold.append(attachment)
        if key != self._key:  # the user went on to another conversation meanwhile
            held = self._drafts.get(key)
            self._drafts.put(key, Draft(held.text, (*held.attachments, attachment)))
        elif attachment not in self.attachments:
            self._show([*self.attachments, attachment])

    def _attach_pasted(self, text: str) -> None:
        self._pastes += 1
        read = partial(pasted, text, self._pastes)
        in_background(self, read, partial(self._attach, self._key), self._refuse)

    @staticmethod
    def _refuse(error: Exception) -> None:
        """Raise an error that was not foreseen."""
        raise error

    def _remove(self, file: Attachment | ReadingFile) -> None:
        if isinstance(file, ReadingFile):
            file.stop.set()
            self._forget(file)
        self._show([each for each in self.attachments if each is not file])
        self._composer.field.setFocus()

    def _read_again(self, attachment: Attachment, encoding: str) -> None:
        """Read a file in the encoding that the user has chosen, and put it in the same place."""

        def done(again: Attachment) -> None:
            self._show([again if each is attachment else each for each in self.attachments])

        read = partial(read_attachment, Path(attachment.path), encoding=encoding)
        in_background(self, read, done, report_failure)

    def _insert(self, attachment: Attachment) -> None:
        """Put what was pasted into the field, where there is room for it."""
        field = self._composer.field
        if not field.has_room(attachment.text):
            tell(tr("This text is too long for the message field."))
            return
        self._remove(attachment)
        field.insertPlainText(attachment.text)
        field.ensureCursorVisible()

    def _show(self, attachments: list[Attachment]) -> None:
        self.attachments = attachments
        self._tell_of_files()
        reading = [file for file, key in self._reading.items() if key == self._key]
        self._composer.chips.show_files([*attachments, *reading])
        self._composer.refresh()
        self._count_files()
        self._typed()

    def _tell_of_files(self) -> None:
        """Say what is to be known of the files, as long as they are on show."""
        for gone in [each for each in self._told if each not in self.attachments]:
            withdraw(self._told.pop(gone))
        for each in [each for each in self._untold if each in self.attachments]:
            self._untold.remove(each)
            self._told[each] = tell(each.notice)

    # -- drafts ----------------------------------------------------------------------------

    def _typed(self) -> None:
        self._set_waits(waits=False)
        self._stale()

    def _stale(self) -> None:
        """Count and keep the text after a pause, as it has changed."""
        self._fill_is_current = False
        self._pause.start()

    def _settle(self) -> None:
        self.keep()
        self._count()

    def keep(self) -> None:
        """Keep what is unsent."""
        text = self._composer.field.toPlainText()
        self._drafts.put(self._key, Draft(text, tuple(self.attachments)))

    def _switched(self, _messages: object) -> None:
        current = self._session.current
        key = None if current is None else current.id
        self._choices.close()
        self._held.stop()
        self._set_waits(waits=False)
        if key != self._key:
            self.keep()
            self._key = key
            self._restore(self._drafts.get(key))
        self._forget_fill()

    def _forget_fill(self) -> None:
        """Count anew, as other messages are on show."""
        self._asker.forget()
        self._queue.follow_fill(None)
        self._stale()

    def _follow(self) -> None:
        """Take over what was typed before into a chat that has just begun."""
        key = None if self._session.current is None else self._session.current.id
        if key != self._key:
            self._drafts.put(self._key, NOTHING)
            here = [file for file, place in self._reading.items() if place == self._key]
            self._reading.update(dict.fromkeys(here, key))
            self._key = key
        self._asker.forget()  # it was asked about fewer messages
        self._stale()

    def _restore(self, draft: Draft) -> None:
        self._composer.field.set_text(draft.text)
        self._show(list(draft.attachments))

    # -- sending ---------------------------------------------------------------------------

    def send(self) -> None:
        """Send what is there, or let it wait for the end of the answer that is being written.

        Where it is known not to fit the user is asked what to do.
        """
        for file, key in self._reading.items():
            if key == self._key:
                words = tr("“{name}” is still being read. Send the message when it is there.")
                tell(words.format(name=file.name))
                return
        if self._session.busy:
            self._queue.add(self._draft())
            self._clear()
            return
        fill = self._composer.meter.fill
        self._held.stop()
        if self._is_to_wait():
            self._set_waits(waits=True)
            return
        if self._has_to_be_counted(fill):
            self._held.start(_PATIENCE_AFTER_LOADING_MS if self.waits else _PATIENCE_MS)
            self._pause.stop()
            self._settle()
            return
        self._set_waits(waits=False)
        if fill is not None and self._fill_is_current and not fill.fits:
            files = bool(self.attachments) and self._composer.field.has_words
            self._choices.open(fill.used, self._unsent(), self._send, typed=True, files=files)
        else:
            self._send()

    def _is_to_wait(self) -> bool:
        """True if a model is on its way that may have too little context for what was typed."""
        status = self._bridge.status
        if status.phase not in {Phase.PREPARING, Phase.LOADING}:
            return False
        asked = None if status.wanted is None else status.wanted.context
        return self._unsent_bytes() >= (asked or _SURELY_FITS)

    def _has_to_be_counted(self, fill: Fill | None) -> bool:
        """True if what was typed or attached a moment ago may not fit; a token has a byte at least.

        The engine counts only while it is ready, and a server does not.
        """
        status = self._bridge.status
        counts = status.phase is Phase.READY and status.plan is not None and not status.plan.host
        if not counts or self._fill_is_current:
            return False
        if fill is None or self.waits:
            return self.waits
        return fill.used + self._unsent_bytes() >= fill.context

    def _unsent_bytes(self) -> int:
        texts = [self._composer.field.toPlainText(), *(each.text for each in self.attachments)]
        return sum(len(text.encode()) for text in texts)

    def _set_waits(self, *, waits: bool) -> None:
        if waits is not self.waits:
            self.waits = waits
            self.waits_changed.emit()

    def ask(self, text: str) -> None:
        """Ask this; what is written stays. It waits for an answer that another chat gets."""
        if self._session.busy:
            self._queue.add(Draft(text))
        else:
            self._session.send(text)

    def _send(self) -> None:
        text = self._composer.field.toPlainText().strip("\n")
        if not self._session.send(with_attachments(self.attachments, text)):
            return
        self._choices.close()
        self._clear()

    def _take_parts(self) -> None:
        """Put what matters to the question in the place of long files; the chips say how much."""
        fill, question = self._composer.meter.fill, self._composer.field.toPlainText()
        if fill is None or not self.attachments:
            return
        letters = sum(len(each.text) for each in self.attachments)
        others = max(fill.used - letters // _LETTERS_PER_TOKEN, 0)
        tokens = max(int(fill.context * _FOR_FILES) - others, fill.context // 4)
        room = min(tokens, _MOST_FOR_FILES) * _LETTERS_PER_TOKEN
        key, files = self._key, tuple(self.attachments)

        def taken(parts: list[Attachment]) -> None:
            if key == self._key and tuple(self.attachments) == files:
                self._show(parts)

        def cut() -> list[Attachment]:
            from app.session.passages import parts_of  # not for the first picture

            return parts_of(files, question, room)

        in_background(self, cut, taken, self._refuse)

    def _clear(self) -> None:
        self._pastes = self._ahead = 0
        self._restore(NOTHING)
        self.keep()

    def _draft(self) -> Draft:
        text = self._composer.field.toPlainText().strip("\n")
        return Draft(text, tuple(self.attachments))

    def _edit(self, draft: Draft) -> None:
        """Put a message that waited in front of what is written now."""
        self._restore(_joined([draft, self._draft()]))
        self._composer.field.setFocus()

    def _make_room(self, draft: Draft, needed: int) -> None:
        """Let the user choose how a message that waited is sent, as it does not fit."""
        self._room_for = draft
        unsent = [_message(draft.attachments, draft.text)]
        self._choices.open(needed, unsent, partial(self._queue.send_now, draft))

    def _follow_queue(self) -> None:
        """Count again; nothing is to be chosen for a message that waits no longer."""
        if self._room_for is not None and self._room_for not in self._queue.waiting:
            self._room_for = None
            self._choices.close()
        self._stale()

    def end(self) -> None:
        """Keep what is unsent, with the messages that waited, as the window closes."""
        for file in self._reading:
            file.stop.set()
        waiting = self._queue.take_all()
        self._restore(_joined([*waiting.pop(self._key, ()), self._draft()]))
        self.keep()
        for key, drafts in waiting.items():
            self._drafts.put(key, _joined([*drafts, self._drafts.get(key)]))

    # -- counting --------------------------------------------------------------------------

    def _unsent(self) -> list[StoredMessage]:
        if not self._composer.has_something:
            return []
        return [_message(self.attachments, self._composer.field.toPlainText())]

    def _count(self) -> None:
        plan = self._bridge.status.plan
        if plan is None or plan.host:  # what a server would count is known once it has answered
            self._asker.forget()
            self._composer.meter.show_fill(None)
            return
        if self._session.shows_live:  # every round says how long the conversation is
            self._count_ahead()
            return
        queue, session = self._queue, self._session
        first = queue.lacks_fill  # what waits has its turn without what is typed
        unsent = [] if first else self._unsent()
        messages = [*session.messages, *unsent]
        if not messages:
            self._asker.forget()
            self._show_fill(0)
            return
        build = partial(counted_request, messages, session.sent_setup, session.offers())
        counted = partial(self._show_fill, with_unsent=bool(unsent))
        self._asker.count(build, counted, queue.follow_refusal if first else lambda: None)

    def _count_ahead(self) -> None:
        """Count what is typed while an answer is written: it comes on top of each round's count."""
        self._ahead = 0
        self._asker.forget()
        if unsent := self._unsent():
            setup = replace(self._session.sent_setup, system_prompt="")

            def counted(tokens: int) -> None:
                self._ahead = tokens

            self._asker.count(partial(counted_request, unsent, setup), counted)

    def _show_fill(self, tokens: int, *, with_unsent: bool = False) -> None:
        plan = self._bridge.status.plan
        if plan is not None:
            if not with_unsent:
                self._queue.follow_fill(Fill(tokens, plan.context))
                if self._unsent():  # it was only for what waits
                    self._count()
                    return
            self._fill_is_current = not self._pause.isActive()
            before = self._queue.tokens if self._session.busy else 0
            fill = Fill(tokens + before, plan.context)
            self._composer.meter.show_fill(fill)
            self._choices.follow(fill.used, fill.context)
            if self._held.isActive() and self._fill_is_current:
                self.send()

    def _count_files(self) -> None:
        """Count each file by itself, without what a chat has around a message."""
        chips = self._composer.chips
        for asker in self._file_askers:
            asker.forget()
            asker.deleteLater()
        self._file_askers = [Asker(self._bridge, self) for _ in self.attachments]
        for asker, attachment in zip(self._file_askers, self.attachments, strict=True):
            show = partial(chips.show_tokens, attachment)
            counted = partial(self._count_file, asker, as_block(attachment), show)
            asker.count(partial(_alone, _ONE_TOKEN, self._session.setup), counted)

    def _count_file(
        self, asker: Asker, text: str, show: Callable[[int], None], around_one: int
    ) -> None:
        build = partial(_alone, text, self._session.setup)
        asker.count(build, lambda tokens: show(max(tokens - around_one + 1, 1)))

    def _status_changed(self, status: EngineStatus) -> None:
        """Count again for another model, which counts in another way."""
        if status.plan is not self._plan:
            self._plan = status.plan
            self._forget_fill()
            self._queue.count_again()
            self._count_files()
        if self.waits and status.phase is Phase.READY and not self._held.isActive():
            self.send()
        elif status.phase in {Phase.NO_MODEL, Phase.BROKEN}:
            self._set_waits(waits=False)

    def _round_done(self, event: RoundFinished) -> None:
        live, plan = self._session.live, self._bridge.status.plan
        if live is None or plan is None or live.request_id != event.request_id:
            return
        if self._session.shows_live and event.context_used:
            fill = Fill(event.context_used, plan.context)
            self._queue.follow_fill(fill)
            ahead = self._queue.tokens + self._ahead
            self._composer.meter.follow(replace(fill, used=fill.used + ahead))


def _message(attachments: Sequence[Attachment], text: str) -> StoredMessage:
    return StoredMessage(UNSENT, Role.USER, with_attachments(attachments, text))


def _alone(text: str, setup: ChatSetup) -> ChatRequest:
    return counted_request([_message((), text)], setup)


def _joined(drafts: Sequence[Draft]) -> Draft:
    """Several unsent messages as one."""
    texts = [each.text for each in drafts if each.text]
    return Draft("\n\n".join(texts), tuple(file for each in drafts for file in each.attachments))


def _read_all(paths: Sequence[Path]) -> list[Attachment | UserFixable]:
    """Return the content of each file, in order, or the reason why it cannot be attached."""
    read: list[Attachment | UserFixable] = []
    for path in paths:
        try:
            read.append(read_attachment(path))
        except UserFixable as error:
            read.append(error)
    return read


def _text_files(folder: Path) -> tuple[list[Attachment], int]:
    from app.session.attached_folder import read_folder  # not for the first picture

    return read_folder(folder)
