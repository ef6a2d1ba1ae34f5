"""The native library, got while packages are: out of a wheel in `dist/`, or from a compiler."""

import os
import subprocess
import sys
import tempfile
import threading
import time

import native_library
import prebuilt
from told import SetupProblem, Status

NATIVE = native_library.ROOT / "engine" / native_library.LIBRARY


def can_build() -> bool:
    """Return whether the engine's core, which is C, can be compiled or comes out of a wheel."""
    if os.environ.get("DUOTAIL_LIBRARY"):
        return os.environ["DUOTAIL_LIBRARY"] != "none"
    return native_library.find_compiler() is not None or prebuilt.prebuilt_library() is not None


def is_current(all_sets: bool) -> bool:
    """Whether nothing is to be built: the library is here, cannot be, or another one is named."""
    if os.environ.get("DUOTAIL_LIBRARY") or not can_build():
        return True
    return native_library.is_current(NATIVE, all_sets)


class LibraryBuild:
    """A build that has begun, if one is needed.

    Args:
        all_sets: with every instruction set, which the tests compare, not only what is used here.
        status: told of progress.
    """

    def __init__(self, all_sets: bool, status: Status) -> None:
        self.seconds = 0.0
        self._process = None  # type: subprocess.Popen[str] | None
        if is_current(all_sets):
            return
        library = prebuilt.prebuilt_library()
        if library is not None:
            NATIVE.write_bytes(library)
            return
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the object
        self._process = subprocess.Popen(
            [sys.executable, native_library.__file__, *(["--all"] if all_sets else [])],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            universal_newlines=True,
            close_fds=False,  # the lock of the set-up is held until all that it started has ended
        )
        self._reader = threading.Thread(target=self._read, args=(status,), daemon=True)
        self._reader.start()

    def _read(self, status: Status) -> None:
        started = time.monotonic()
        if self._process is not None:
            for line in self._process.stdout or ():
                status.update("compiler:", line.strip())
        status.update("compiler:", "")
        self.seconds = time.monotonic() - started

    def wait(self) -> None:
        """Wait until the library is there.

        Raises:
            SetupProblem: it could not be compiled, and what to do.
        """
        if self._process is None:
            return
        self._reader.join()
        if self._process.wait() != 0:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace")
            raise SetupProblem(
                said + "\nThe native library could not be built: the lines above say why. What was "
                "compiled stays; when that is mended, run make again. Another compiler may do "
                "(make CC=clang), or a wheel of this version in dist/; DUOTAIL_LIBRARY=none "
                "installs Duotail without its native library, several times slower."
            )

    def stop(self) -> None:
        """End the compiler, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
