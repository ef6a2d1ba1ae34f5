"""The driver of the C compiler, with compilers that are played by shell scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import native_library
import pytest
from native_library import ALL_SETS, BuildFailed, Compiler, Starved, build

pytestmark = pytest.mark.skipif(os.name != "posix", reason="compilers are shell scripts here")
SOURCES = {file.stem for file in (native_library.ROOT / "engine" / "native").glob("*.c")}
PLAYED = """#!/bin/sh
# Preprocessing prints the source, compiling and linking write what they are told to; all is noted.
source='' out='' what=link before=''
for word; do
    case $word in
    *.c) source=$word ;;
    -E) what=read ;;
    -c) what=compile ;;
    --version) exec echo 12 ;;
    esac
    [ "$before" != -o ] || out=$word
    before=$word
done
name=$(basename "$source" .c)
[ $what != read ] || exec cat "$source"
echo "$what $name" >>'LOG'
TROUBLE
echo "$what $*" >"$out"
"""


class Played:
    """A compiler that notes what it is asked for; `trouble` is a line of shell that makes some."""

    def __init__(self, folder: Path, trouble: str = "") -> None:
        self.folder, self.log = folder, folder / "log"
        self.kept, self.target = folder / "kept", folder / native_library.LIBRARY
        self.script = folder / "cc"
        self.log.touch()
        self.write(trouble)

    def write(self, trouble: str) -> None:
        self.script.write_text(PLAYED.replace("LOG", str(self.log)).replace("TROUBLE", trouble))
        self.script.chmod(0o755)

    def build(self, *options: str) -> None:
        compiler = Compiler((str(self.script),), options, ())
        build(self.target, compiler, ALL_SETS, self.kept)

    def compiled(self) -> list[str]:
        """The files that were compiled since this was asked last."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return sorted(line.split()[1] for line in lines if line.startswith("compile "))


@pytest.fixture
def played(tmp_path: Path) -> Played:
    folder = tmp_path / "ein Ördner"
    folder.mkdir()
    return Played(folder)


def test_what_was_compiled_once_is_not_compiled_again(played: Played) -> None:
    played.build()
    assert played.compiled() == sorted(SOURCES)
    assert played.target.exists()
    played.target.unlink()
    played.build()
    assert played.compiled() == []
    assert played.target.exists()


def test_other_options_and_another_compiler_share_no_objects(played: Played) -> None:
    played.build()
    played.build("-O0")
    played.write(": another program of that name and version")
    played.build()
    assert played.compiled() == sorted([*SOURCES, *SOURCES, *SOURCES])


def test_a_change_compiles_the_files_that_see_it(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = played.folder / "project"
    shutil.copytree(native_library.ROOT / "engine" / "native", project / "engine" / "native")
    monkeypatch.setattr(native_library, "ROOT", project)
    played.build()
    played.compiled()
    pool = project / "engine" / "native" / "pool.c"
    pool.write_text(pool.read_text() + "\n/* changed */\n")
    played.build()
    assert played.compiled() == ["pool"]


def test_a_compiler_that_was_killed_gets_another_chance_alone(played: Played) -> None:
    kill = "[ $name != isa_avx2 ] || [ -e '{0}' ] || {{ touch '{0}'; kill -9 $$; }}"
    played.write(kill.format(played.folder / "killed"))
    played.build()
    compiled = played.compiled()
    assert compiled.count("isa_avx2") == 2
    assert len(compiled) == len(SOURCES) + 1
    assert played.target.exists()


def test_a_compiler_that_never_has_enough_memory_is_told(played: Played) -> None:
    said = "cc: fatal error: Killed signal terminated program cc1"
    played.write(f'[ $name != isa_avx2 ] || {{ echo "{said}" >&2; exit 1; }}')
    with pytest.raises(Starved, match=r"memory was not enough"):
        played.build()
    played.compiled()
    played.write("")
    assert not played.target.exists()


def test_the_first_failure_ends_the_others_and_what_is_done_stays(played: Played) -> None:
    played.write(
        "[ $name != isa_portable ] || sleep 600\n"  # a child of the compiler, as cc1 is of gcc
        "[ $name != pool ] || { echo 'pool.c: no such thing' >&2; exit 1; }"
    )
    with pytest.raises(BuildFailed, match=r"(?s)compiler failed.*no such thing.*pool\.c"):
        played.build()
    assert not played.target.exists()
    kept = {file.name.split("-")[0] for file in played.kept.iterdir()}
    assert "isa_avx2" in kept
    assert not any(file.name.count(".") > 1 for file in played.kept.iterdir()), "half an object"


def test_a_full_disk_is_told(played: Played) -> None:
    played.write("[ $name != pool ] || { echo 'No space left on device' >&2; exit 1; }")
    with pytest.raises(BuildFailed, match="disk is full"):
        played.build()


def test_a_library_that_cannot_be_linked_leaves_the_one_that_is_there(played: Played) -> None:
    played.target.write_bytes(b"of before")
    played.write("[ $what != link ] || exit 1")
    with pytest.raises(BuildFailed):
        played.build()
    assert played.target.read_bytes() == b"of before"
    assert sorted(file.name for file in played.folder.iterdir()) == sorted(
        ["cc", "kept", "log", native_library.LIBRARY]
    )


def test_without_a_place_for_objects_it_is_built_all_the_same(played: Played) -> None:
    played.kept.write_text("a file where the folder should be")
    played.build()
    assert played.compiled() == sorted(SOURCES)
    assert played.target.exists()


def test_objects_of_no_use_are_forgotten(played: Played) -> None:
    played.build()
    old = played.kept / "old-0.o"
    old.touch()
    os.utime(old, (1, 1))
    used = next(played.kept.glob("pool-*.o"))
    os.utime(used, (1, 1))
    played.build()
    assert not old.exists()
    assert used.exists()


def test_a_compiler_that_is_not_here_is_told(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="nosuchcc is not here"):
        build(tmp_path / "library", Compiler(("nosuchcc",), (), ()), kept=tmp_path)


def test_what_a_processor_uses() -> None:
    assert native_library.used_of(0b1) == 0b1
    assert native_library.used_of(0b11) == 0b11
    assert native_library.used_of(0b11111) == 0b10001, "its best one, and portable code"


@pytest.mark.skipif(native_library.find_compiler() is None, reason="needs a C compiler")
def test_a_library_for_this_processor_is_known_and_one_for_another_is_not(tmp_path: Path) -> None:
    """In a folder with blanks and letters of other languages, with the real compiler."""
    folder = tmp_path / "größer als ß 中"
    shutil.copytree(native_library.ROOT / "packaging", folder / "packaging")
    native = folder / "engine" / "native"
    native.mkdir(parents=True)
    for file in (native_library.ROOT / "engine" / "native").iterdir():
        if file.suffix == ".h" or file.name in ("processor.c", "module.c"):
            shutil.copy(file, native)
    has_isa = (
        "int32_t dt_has_isa(int32_t isa) { return (dt_processor_isas() & DT_BUILD) >> isa & 1; }"
    )
    (native / "isa.c").write_text(f'#include "internal.h"\n{has_isa}\n')
    script = """
import sys
from pathlib import Path
sys.path.insert(0, "packaging")
from native_library import *
compiler, library = find_compiler(), Path("engine", LIBRARY)
there = processor_sets(compiler)
print(there, is_current(library, False))
for sets in (PORTABLE, used_of(there), ALL_SETS):
    build(library, compiler, sets, Path("kept"))
    print(is_current(library, False), is_current(library, True))
"""
    told = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert told.returncode == 0, told.stderr
    first, *lines = told.stdout.splitlines()
    there = int(first.split()[0])
    assert first.endswith("False"), "there is no library yet"
    used = native_library.used_of(there)
    assert lines == [
        f"{there == native_library.PORTABLE} {there == native_library.PORTABLE}",
        f"True {used == there}",
        "True True",
    ]
