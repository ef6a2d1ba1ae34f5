"""The system's keyring, where there is one that can be trusted with a secret."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SERVICE = "Duotail"
"""Name under which Duotail's secrets stand in a keyring."""
_NOT_SAFE = ("keyrings.alt", "keyring.backends.fail", "keyring.backends.null")
"""Backends that keep nothing, or keep it in a file that everybody can read."""

_log = logging.getLogger(__name__)


def system_keyring() -> KeyringBackend | None:
    """Return the system's keyring; it may ask the user to unlock it, so not in the window."""
    try:
        import keyring  # takes a moment; most people never need it

        ring = keyring.get_keyring()
    except Exception as error:  # noqa: BLE001 - whatever its parts miss on this system
        _log.warning("there is no keyring: %s", type(error).__name__)
        return None
    return None if type(ring).__module__.startswith(_NOT_SAFE) else ring


def kept_secret(name: str) -> str | None:
    """Return the secret that the keyring holds under a name; None where it tells none."""
    ring = system_keyring()
    if ring is None:
        return None
    try:
        return ring.get_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001 - locked, or gone
        _log.warning("the keyring tells no token: %s", type(error).__name__)
        return None


def keep_secret(name: str, secret: str) -> bool:
    """Put a secret into the keyring; return whether it is there now."""
    ring = system_keyring()
    if ring is None:
        return False
    try:
        ring.set_password(SERVICE, name, secret)
    except Exception as error:  # noqa: BLE001 - each keyring has errors of its own
        _log.warning("the keyring takes no token: %s", type(error).__name__)
        return False
    return True


def forget_secret(name: str) -> None:
    """Take what stands under a name out of the keyring, if anything does."""
    ring = system_keyring()
    if ring is None:
        return
    try:
        if ring.get_password(SERVICE, name) is not None:
            ring.delete_password(SERVICE, name)
    except Exception as error:  # noqa: BLE001 - locked, or gone
        _log.warning("the keyring does not let go of a key: %s", type(error).__name__)
