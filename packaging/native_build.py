"""How setuptools gets the native library: a finished one where there is one, else from a compiler.

Without a compiler there is no library, and Duotail falls back to PyTorch. A compiler that is there
and fails ends the build with what it said. DUOTAIL_LIBRARY names a finished library, or is `none`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))

from prebuilt import LIBRARY, UNALIGNED, prebuilt_library, sources_digest

GIVEN = os.environ.get("DUOTAIL_LIBRARY", "")


class BuildNative(build_ext):  # type: ignore[misc]  # setuptools has no types
    """The command `build_ext`, for a library that no Python header takes part in."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return one name for every version of Python."""
        given = "" if GIVEN in ("", "none") else Path(GIVEN).name
        return str(Path(*fullname.split(".")).with_name(given or LIBRARY))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return nothing: the sources say themselves what is exported."""
        del ext
        return []

    def run(self) -> None:
        """Choose a compiler where Python's own is not installed, and build."""
        if "CC" not in os.environ and os.name == "posix" and not shutil.which(_python_s_compiler()):
            found = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
            if found is not None:
                os.environ["CC"] = found
        super().run()

    def build_extension(self, ext: Extension) -> None:
        """Copy the library, compile it, or do without it."""
        target = Path(self.get_ext_fullpath(ext.name))
        if GIVEN == "none":
            target.unlink(missing_ok=True)  # of an earlier build
            return
        library = Path(GIVEN).read_bytes() if GIVEN else prebuilt_library()
        if library is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.write_bytes(library)
            return
        command = getattr(self.compiler, "compiler_so", None)
        if command is None:
            sys.stderr.write(
                "Microsoft's compiler cannot build the native library: put a wheel of this version "
                "into dist/, or build with MinGW (build_ext --compiler=mingw32).\n"
            )
            return
        if "CC" not in os.environ and not shutil.which(command[0]):
            sys.stderr.write("No C compiler: Duotail will work, but several times slower.\n")
            return
        ext.optional = False  # from here on, what fails is a fault
        if self.compiler.compiler_type == "mingw32":
            ext.extra_compile_args.append(UNALIGNED)
        ext.define_macros.append(("DT_SOURCES", f'"{sources_digest()}"'))
        super().build_extension(ext)


def _python_s_compiler() -> str:
    """Return the program that Python's own build used."""
    import sysconfig

    return (sysconfig.get_config_var("CC") or "cc").split()[0]
