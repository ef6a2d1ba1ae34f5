"""Settings of the user: declared in `model`, kept in one TOML file, shown by a generated page.

Import from here; the page, which few starts need, is in `app.settings_page.dialog`.
"""

from __future__ import annotations

from app.settings.model import Settings
from app.settings.presets import Preset
from app.settings.prompts import SavedPrompt
from app.settings.store import SettingsStore

__all__ = ["Preset", "SavedPrompt", "Settings", "SettingsStore"]
