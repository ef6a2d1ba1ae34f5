"""A keyring that forgets when the test ends."""

from __future__ import annotations

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError


class Ring(KeyringBackend):
    """A keyring in memory, which may be locked; its error then says `told`."""

    priority = -1  # type: ignore[assignment]  # never chosen by itself

    def __init__(self, told: str = "") -> None:
        super().__init__()
        self._told = told
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._open()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._open()
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError

    def _open(self) -> None:
        if self.locked:
            raise KeyringLocked(f"cannot open it for {self._told}")
