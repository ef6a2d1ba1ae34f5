"""The set-up program for Windows: what can be checked without one."""

from __future__ import annotations

import struct

import nsis


def test_the_icon_has_all_sizes_that_windows_shows() -> None:
    icon = nsis.icon()
    assert struct.unpack_from("<HHH", icon) == (0, 1, 4)
    for index in range(4):
        nbytes, at = struct.unpack_from("<II", icon, 6 + 16 * index + 8)
        assert icon[at : at + 4] == b"\x89PNG"
        assert at + nbytes <= len(icon)
