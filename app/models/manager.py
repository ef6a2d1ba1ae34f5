"""The Models page and what stands behind it, made when first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from app.models.choice import ModelChoice
from app.settings import SettingsStore
from app.settings.hub_access import access_of

if TYPE_CHECKING:
    from app.models.hub import HubMaker
    from app.models.models_page import ModelsPage
    from app.models.notices import DownloadNotices
    from app.models.services import ModelServices
    from engine.hub.messages import Access


class ModelManager:
    """The models page, imported when it is first used: many a day nobody looks for models.

    Args:
        make: makes the hub.
        models: which model answers.
        settings: how to get to the hub.
    """

    def __init__(self, make: HubMaker, models: ModelChoice, settings: SettingsStore) -> None:
        self._make, self._models, self._settings = make, models, settings
        self.made: Callable[[ModelServices], None] = lambda _services: None
        """Told of the services once there are any."""
        self._services: ModelServices | None = None
        self._fetched: DownloadNotices | None = None

    @property
    def services(self) -> ModelServices:
        """Search, downloads, what is on this computer."""
        if self._services is None:
            from app.models.notices import DownloadNotices
            from app.models.services import ModelServices

            self._services = ModelServices(self._make, self._models, self._access, self._models)
            hub, ordering = self._services.hub, self._services.ordering
            self._fetched = DownloadNotices(hub, ordering, self._models)
            self.made(self._services)
        return self._services

    def _access(self) -> Access:
        """Return the access to the hub; the token is added where it is needed."""
        return access_of(self._settings.value)

    def page(self) -> ModelsPage:
        """Return a new page."""
        from app.models.models_page import ModelsPage

        services = self.services
        assert self._fetched is not None  # noqa: S101 - made with the services
        used_before = bool(self._settings.value.recent_models)
        return ModelsPage(services, self._fetched, used_before=used_before)

    def go_on(self) -> None:
        """Show the downloads of the last time and, where wanted, continue them."""
        self.services.hub.go_on()

    def close(self) -> None:
        """Stop what is under way; downloads go on another time."""
        if self._services is not None:
            self._services.close()
