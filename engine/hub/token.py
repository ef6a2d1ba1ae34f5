"""The user's access token for the hub: in the system's keyring, or until the program ends.

It is never in a file of ours, never logged, and never in the environment or the arguments of a
process. A keyring may ask the user to unlock it, so all of this is called beside the window.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import UserFixable
from engine.language import later, tr
from engine.machine.keyring import SERVICE, keep_secret, kept_secret, system_keyring

_NAME = "huggingface.co"
_SHORTEST, _LONGEST = 8, 400

_log = logging.getLogger(__name__)


class TokenPlace(StrEnum):
    """Places of a token; the values are texts for `tr`."""

    NOWHERE = later("No access token was entered.")
    KEYRING = later("It is kept in this computer's keyring.")
    SESSION = later(
        "It is kept until Duotail closes: this computer has no keyring that Duotail can use."
    )
    OTHER_PROGRAM = later("It is the one that “hf auth login” keeps on this computer.")


@dataclass(frozen=True, slots=True, repr=False)
class HeldToken:
    """A token, and where it is. It is not in its `repr`."""

    token: str | None
    place: TokenPlace

    def __repr__(self) -> str:
        return f"HeldToken({self.place.name})"


class TokenStore:
    """The token in use.

    Args:
        of_other_program: whether the user agrees that the one of `hf auth login` is read.
    """

    def __init__(self, *, of_other_program: bool = False) -> None:
        self.of_other_program = of_other_program
        self._of_session: str | None = None

    def get(self) -> HeldToken:
        """Return the token to use: the one entered here goes before that of another program."""
        if self._of_session is not None:
            return HeldToken(self._of_session, TokenPlace.SESSION)
        kept = _from_keyring()
        if kept is not None:
            return HeldToken(kept, TokenPlace.KEYRING)
        other = _of_library() if self.of_other_program else None
        return HeldToken(other, TokenPlace.NOWHERE if other is None else TokenPlace.OTHER_PROGRAM)

    def set(self, token: str) -> TokenPlace:
        """Keep a token; return where it is kept now.

        Raises:
            UserFixable: this can be no token.
        """
        token = token.strip()
        if not _is_token(token):
            raise UserFixable(
                tr("This is not an access token."),
                tr("Copy the whole token from the hub's page; it begins with “hf_”."),
            )
        kept = keep_secret(_NAME, token)
        self._of_session = None if kept else token
        return TokenPlace.KEYRING if kept else TokenPlace.SESSION

    def forget(self) -> None:
        """Forget it here and in the keyring.

        Raises:
            UserFixable: the keyring does not let go of it.
        """
        self._of_session = None
        ring = system_keyring()
        if ring is None or _from_keyring() is None:
            return
        try:
            ring.delete_password(SERVICE, _NAME)
        except Exception as error:  # noqa: BLE001 - each keyring has errors of its own
            raise UserFixable(
                tr("The access token is still in this computer's keyring."),
                tr("Unlock the keyring and try again, or delete the entry “{name}” there.").format(
                    name=SERVICE
                ),
                type(error).__name__,
            ) from None


def _from_keyring() -> str | None:
    token = kept_secret(_NAME)
    return token if token is not None and _is_token(token) else None


def _of_library() -> str | None:
    """Return the token that the hub's own library would use; it renews one of a browser login."""
    try:
        from huggingface_hub import get_token  # a tenth of a second that few need

        token = get_token()
    except Exception as error:  # noqa: BLE001 - an unreadable file, a login that has run out
        _log.warning("the hub's library has no token: %s", type(error).__name__)
        return None
    return token if token is not None and _is_token(token) else None


def _is_token(text: str) -> bool:
    usable = text.isascii() and text.isprintable() and " " not in text
    return usable and _SHORTEST <= len(text) <= _LONGEST
