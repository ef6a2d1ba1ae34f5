"""Joins the setup panel with the conversation it belongs to and with the presets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint
from PySide6.QtWidgets import QWidget

from app.chat.composer.composer import Composer
from app.chat.sampling.setup_words import setup_words
from app.engine_link.bridge import EngineBridge
from app.history import ChatSetup
from app.notices import tell
from app.session.session import ChatSession
from app.settings import Preset, Settings, SettingsStore
from app.settings.presets import recommended_preset
from engine.language import tr

if TYPE_CHECKING:
    from app.chat.sampling.setup_panel import SetupPanel


class SetupControl(QObject):
    """Connects panel and conversation: changes go into the conversation, its setup is shown."""

    def __init__(
        self,
        composer: Composer,
        session: ChatSession,
        settings: SettingsStore,
        bridge: EngineBridge,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._parent = parent
        self._panel: SetupPanel | None = None
        self._composer = composer
        self._session = session
        self._settings = settings
        self._bridge = bridge
        composer.setup_asked.connect(self.open)
        composer.thinking_chosen.connect(self._think)
        session.changed.connect(self.show)
        settings.changed.connect(lambda _: self.show())
        bridge.plan_changed.connect(self.show)  # the model has its own preset
        self.show()

    @property
    def panel(self) -> SetupPanel:
        """The panel; made when it is first wanted."""
        if self._panel is None:
            from app.chat.sampling.setup_panel import SetupPanel

            panel = self._panel = SetupPanel(self._parent)
            panel.chosen.connect(self._choose)
            panel.presets.saved.connect(self._save)
            panel.presets.deleted.connect(self._delete)
            panel.presets.made_default.connect(self._make_default)
        return self._panel

    def open(self) -> None:
        """Open the panel above the composer."""
        self.panel.show_setup(self._session.setup, self._known())
        self.panel.open_above(self._composer.mapToGlobal(QPoint(0, -8)))

    def show(self) -> None:
        """Say in the composer, and in the panel while it is open, what is in force."""
        setup, settings = self._session.setup, self._known()
        words = setup_words(setup, settings)
        self._composer.show_setup(" \u00b7 ".join(words), words[0])
        self._show_thinking()
        if self._panel is not None and self._panel.isVisible():
            self._panel.show_setup(setup, settings)

    def _known(self) -> Settings:
        """The settings, with what the model recommends among the presets."""
        plan, settings = self._bridge.status.plan, self._settings.value
        if plan is None or plan.sampling is None:
            return settings
        return replace(settings, presets=(recommended_preset(plan.sampling), *settings.presets))

    def _choose(self, setup: ChatSetup) -> None:
        """The panel knows nothing of what was left out to make room, nor of tools."""
        now = self._session.setup
        self._session.set_setup(replace(setup, seen_after=now.seen_after, tools=now.tools))

    def toggle_thinking(self) -> None:
        """Turn thinking on or off, where the model leaves the choice."""
        if self._composer.think_button.isVisible():
            self._composer.think_button.click()

    def _think(self, on: bool) -> None:
        self._session.set_setup(replace(self._session.setup, thinking=on))

    def _show_thinking(self) -> None:
        plan = self._bridge.status.plan
        possible = plan is not None and plan.can_think
        # Models that leave the choice think unless they are told not to.
        self._composer.show_thinking(
            possible=possible, on=self._session.setup.thinking is not False
        )

    def _save(self, name: str) -> None:
        """Keep the values under `name`: a new preset, or the old one with new values."""
        values = self._session.setup.of_preset()
        held = self._settings.value.presets
        old = self._settings.value.preset(name)
        made = Preset(name, values) if old is None else replace(old, setup=values)
        presets = (*held, made) if old is None else tuple(made if p is old else p for p in held)
        self._session.set_setup(replace(self._session.setup, preset=name))
        self._settings.change(presets=presets)
        if old is not None and old != made:
            tell(
                tr("The preset \u201c{name}\u201d was changed.").format(name=old.label),
                (tr("Undo"), lambda: self._put_back(old, held)),
            )

    def _make_default(self, name: str) -> None:
        self._settings.change(default_preset=name)

    def _delete(self, preset: Preset) -> None:
        held, default = self._settings.value.presets, self._settings.value.default_preset
        self._session.set_setup(replace(self._session.setup, preset=""))
        self._settings.change(presets=tuple(each for each in held if each.name != preset.name))

        def undo() -> None:
            self._put_back(preset, held)
            self._settings.change(default_preset=default)

        self.panel.hide()
        tell(
            tr("The preset \u201c{name}\u201d was deleted.").format(name=preset.label),
            (tr("Undo"), undo),
        )

    def _put_back(self, preset: Preset, order: tuple[Preset, ...]) -> None:
        """The preset as it was, in its old place; what others became meanwhile stays."""
        now = {each.name: each for each in self._settings.value.presets} | {preset.name: preset}
        names = dict.fromkeys([each.name for each in order] + list(now))
        self._settings.change(presets=tuple(now[name] for name in names if name in now))
