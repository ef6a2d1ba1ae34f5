"""The dialog with the presets."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.settings.presets import BUILT_IN, Preset
from app.settings.store import SettingsStore
from app.settings_page.library_dialog import LibraryDialog, LibraryWords
from app.settings_page.preset_form import PresetForm
from engine.language import tr


class PresetsDialog(LibraryDialog[Preset]):
    """The presets; the default one stays the default under another name."""

    def __init__(self, store: SettingsStore, parent: QWidget | None = None) -> None:
        self._store = store
        words = LibraryWords(
            tr("Presets"),
            tr("There are no presets. New conversations start with default settings."),
            tr("New preset"),
            tr("Restores the presets that come with Duotail."),
        )
        super().__init__(
            PresetForm(),
            lambda: store.value.presets,
            lambda items: store.change(presets=items),
            BUILT_IN,
            words,
            parent,
        )

    def keep_changed(self, items: tuple[Preset, ...], before: Preset, after: Preset) -> None:
        """Keep these, and the default among them."""
        default = self._store.value.default_preset
        name = after.name if default == before.name else default
        self._store.change(presets=items, default_preset=name)
