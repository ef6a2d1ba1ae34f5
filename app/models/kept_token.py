"""The user's token where the system keeps secrets."""

from __future__ import annotations

from app.models.surroundings import Surroundings
from engine.hub.token import TokenPlace, TokenStore
from engine.language import tr


class RealTokens:
    """May ask the user to unlock the keyring."""

    def __init__(self, around: Surroundings) -> None:
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
