"""The hub of a window: this disk, the keyring, Hugging Face.

Imported when somebody looks for models, in a thread beside the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.engine_link.background import numpy_whole
from app.models.disk_advice import DiskAdvice
from app.models.hub import Doing, Hub, HubContext, Listener
from engine.errors import UserFixable
from engine.hub.download.jobs import JobReport
from engine.hub.download.queue import Downloads
from engine.hub.questions import HubQuestions
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.relocation import import_copy, import_in_place, move
from engine.hub.shelf.removal import delete, deletion
from engine.hub.shelf.shelf import ModelShelf
from engine.hub.shelf.verification import verify
from engine.hub.token import TokenPlace, TokenStore
from engine.language import sentences, tr

_FOREIGN = (ModelOrigin.LM_STUDIO, ModelOrigin.OLLAMA, ModelOrigin.CACHE)


class DiskModels:
    """Reads and writes disks; each call in a thread beside the window."""

    def __init__(self, around: HubContext) -> None:
        numpy_whole()
        self._around = around
        self._known: tuple[Path | None, ModelShelf] | None = None

    @property
    def _shelf(self) -> ModelShelf:
        """Return the shelf, a new one where the settings name another cache."""
        cache = self._around.cache()
        if self._known is None or self._known[0] != cache:
            self._known = cache, ModelShelf(self._around.data, cache)
        return self._known[1]

    def kept(self) -> Sequence[KeptModel]:
        """Bundled, downloaded, brought here, used before."""
        return self._shelf.models(self._around.recent(), elsewhere=False)

    def keep(self, report: JobReport) -> None:
        """Remember what a download has brought."""
        if report.model is None:
            return
        path, job = Path(report.model), report.job
        known = any(Path(each.path) == path for each in self._shelf.memory.all())
        if not known and path.exists():
            model = replace(
                self._shelf.describe(path),
                origin=ModelOrigin.DOWNLOADED,
                repo=job.repo,
                revision=job.revision,
                licence=job.licence or "",
            )
            self._shelf.keep(model)

    def elsewhere(self) -> Sequence[KeptModel]:
        """Return the models of LM Studio, Ollama and the hub's cache."""
        everything = self._shelf.models(self._around.recent())
        return [each for each in everything if each.origin in _FOREIGN]

    def adopt(self, model: KeptModel | Path, *, copy: bool, doing: Doing) -> KeptModel:
        """Have one listed."""
        path = model if isinstance(model, Path) else model.path
        name = "" if isinstance(model, Path) else model.name
        if not copy:
            return import_in_place(path, self._shelf)
        return import_copy(path, self._shelf, doing.tell, doing.stopped, name)

    def check(self, model: KeptModel, doing: Doing) -> str:
        """Read all of it."""
        found = verify(model.path, self._shelf, doing.tell, doing.stopped)
        if found.problem:
            raise UserFixable(
                found.problem,
                tr("Download or copy it again."),
                str(model.path),
            )
        return sentences(tr("{model}: no problems found.").format(model=model.name), found.words)

    def move(self, model: KeptModel, folder: Path, doing: Doing) -> KeptModel:
        """Copied, compared, and only then deleted where it was."""
        in_use = self._around.in_use()
        return move(model, folder, self._shelf, doing.tell, doing.stopped, in_use)

    def removable(self, model: KeptModel) -> int:
        """Bytes that the disk gets back."""
        return deletion(model, self._shelf).nbytes

    def delete(self, model: KeptModel) -> None:
        """Exactly its own files."""
        delete(deletion(model, self._shelf), self._shelf, self._around.in_use())

    def forget(self, model: KeptModel) -> None:
        """Remove from the list; the files stay."""
        self._shelf.memory.forget(model.path)


class KeyringTokens:
    """May ask the user to unlock the keyring."""

    def __init__(self, around: HubContext) -> None:
        self._around = around
        self._tokens = TokenStore()

    def read(self) -> str | None:
        """None: there is none."""
        self._tokens.of_other_program = self._around.other_login()
        return self._tokens.get().token

    def keep(self, token: str) -> str:
        """Keep another one, or none; what to say of it."""
        if token:
            return tr(self._tokens.set(token).value)
        self._tokens.forget()
        return tr(TokenPlace.NOWHERE.value)


def real_hub(around: HubContext, listener: Listener) -> Hub:
    """The hub of a window."""
    around.data.mkdir(parents=True, exist_ok=True)
    return Hub(
        HubQuestions(listener),
        Downloads(around.data, listener),
        DiskModels(around),
        DiskAdvice(around),
        KeyringTokens(around),
    )
