"""How setuptools gets the native library: a finished one where there is one, else from a compiler.

Without a compiler there is no library, and Duotail falls back to PyTorch. A compiler that is there
and fails ends the build with what it said. DUOTAIL_LIBRARY names a finished library, or is `none`,
or `kept`: what is in its place stays, as the set-up sees to it.
Wheels get every instruction set; what is built in its place, as set-up does, what is used there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

sys.path.insert(0, str(Path(__file__).parent))

import native_library
from prebuilt import prebuilt_library

GIVEN = os.environ.get("DUOTAIL_LIBRARY", "")


class BuildNative(build_ext):  # type: ignore[misc]  # setuptools has no types
    """The command `build_ext`, for a library that no Python header takes part in."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return one name for every version of Python."""
        given = "" if GIVEN in ("", "none", "kept") else Path(GIVEN).name
        return str(Path(*fullname.split(".")).with_name(given or native_library.LIBRARY))

    def run(self) -> None:
        """Remember where the library goes: setuptools copies it to its place later."""
        self.for_here = bool(self.inplace or self.editable_mode)
        super().run()

    def build_extensions(self) -> None:
        """Build what is asked for, without setuptools' own way of compiling."""
        for extension in self.extensions:
            self.build_extension(extension)

    def build_extension(self, ext: Extension) -> None:
        """Copy the library, compile it, or do without it."""
        target = Path(self.get_ext_fullpath(ext.name))
        if GIVEN == "kept":
            return
        if GIVEN == "none":
            target.unlink(missing_ok=True)  # of an earlier build
            return
        library = Path(GIVEN).read_bytes() if GIVEN else prebuilt_library()
        target.parent.mkdir(parents=True, exist_ok=True)
        if library is not None:
            target.unlink(missing_ok=True)
            target.write_bytes(library)
            return
        compiler = native_library.find_compiler()
        if compiler is None:
            sys.stderr.write(
                "No C compiler (GCC or clang), and no wheel of this version in dist/: Duotail will "
                "work, but several times slower.\n"
            )
            return
        try:
            sets = native_library.ALL_SETS
            if self.for_here:
                sets = native_library.used_of(native_library.processor_sets(compiler))
            native_library.build(target, compiler, sets)
        except native_library.BuildFailed as error:
            raise CompileError(str(error)) from error
