"""Compile engine/native: every C file a job of its own, and its object kept by what is in it.

    python3 packaging/native_library.py [--all]

builds the library in its place, for this processor, or with `--all` for every one. Objects are
kept in the user's cache folder under a hash of compiler, options and preprocessed source, so that
another clone compiles nothing. Plain standard library; it runs on old Python.
"""

import argparse
import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "_native.pyd" if sys.platform == "win32" else "_native.abi3.so"

OPTIONS = (  # one arithmetic: no contraction, no fast math
    *("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fvisibility=hidden", "-Wall", "-Wextra", "-D_GNU_SOURCE=1"),
)
# Windows' stacks lie at 16-byte borders, and MinGW's GCC stores wider registers there as well.
FOR_WINDOWS = (("-Wa,-muse-unaligned-vector-move",), ("-static-libgcc", "-lm"))
FOR_POSIX = (("-fPIC",), ("-lm", "-lpthread"))
ALL_SETS = 0xFF  # a bit for each instruction set, as in engine/native/duotail.h
PORTABLE = 1

KEPT_DAYS = 90  # since an object was last of use
JOB_BYTES = 500_000_000  # of memory: GCC 12 takes 420 MB for the largest file
STARVED = ("Killed signal", "out of memory", "memory exhausted", "Cannot allocate memory")

Watch = Callable[[int, int], None]  # told how many of how many files are compiled


def unwatched(done: int, count: int) -> None:
    """Tell nobody."""


class BuildFailed(Exception):
    """The compiler could not do it; the message begins with the reason and ends with its output."""


class Starved(BuildFailed):
    """The compiler had not enough memory."""


class Compiler(NamedTuple):
    """A compiler with its first arguments, and what it is told besides OPTIONS."""

    command: Tuple[str, ...]
    compile: Tuple[str, ...]
    link: Tuple[str, ...]


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of the C sources and of what the compiler is told."""
    digest = hashlib.sha256(" ".join(OPTIONS).encode())
    for file in sorted((root / "engine" / "native").glob("*.[ch]")):
        text = file.read_bytes().decode().replace("\r\n", "\n")
        digest.update((file.name + "\n" + text).encode())
    return digest.hexdigest()


def find_compiler() -> Optional[Compiler]:
    """Return the one that CC names, else Python's own, cc, gcc or clang; None: there is none."""
    usual = ((sysconfig.get_config_var("CC") or "cc").split()[0], "cc", "gcc", "clang")
    named = os.environ.get("CC") or next(filter(shutil.which, usual), None)
    if named is None:
        return None
    told = {name: tuple(shlex.split(os.environ.get(name, ""))) for name in
            ("ARCHFLAGS", "CPPFLAGS", "CFLAGS", "LDFLAGS")}  # fmt: skip
    options, link = FOR_WINDOWS if sys.platform == "win32" else FOR_POSIX
    return Compiler(
        command=tuple(shlex.split(named)),
        compile=(*options, *told["ARCHFLAGS"], *told["CPPFLAGS"], *told["CFLAGS"]),
        link=(*link, *told["ARCHFLAGS"], *told["LDFLAGS"]),
    )


def objects_folder() -> Path:
    """Return where objects are kept: with what else Duotail has in the user's cache folder."""
    if os.environ.get("DUOTAIL_CACHE_DIR"):
        return Path(os.environ["DUOTAIL_CACHE_DIR"]) / "objects"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return base / "Duotail" / "Cache" / "objects"
    base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or base) / "Duotail" / "objects"


def build(
    target: Path,
    compiler: Compiler,
    sets: int = ALL_SETS,
    kept: Optional[Path] = None,
    watch: Watch = unwatched,
) -> None:
    """Compile the sources on all cores, and link them to `target` when all is there.

    Args:
        target: the library.
        compiler: see `find_compiler`.
        sets: the instruction sets, a bit for each; portable kernels are always built.
        kept: where objects are looked for and stay; None: in the user's cache folder.
        watch: told of progress.

    Raises:
        BuildFailed: a file could not be compiled, or the library not be linked.
    """
    sources = sorted((ROOT / "engine" / "native").glob("*.c"), key=_longest_first)
    macros = ("-DDT_BUILD={:#x}".format(sets), '-DDT_SOURCES="{}"'.format(sources_digest()))
    with tempfile.TemporaryDirectory(prefix="duotail-") as spare:
        folder = _writable(kept or objects_folder(), Path(spare))
        objects = _Objects(compiler, macros, folder).of(sources, watch)
        _link(compiler, objects, target)
        _forget_old(folder)


def processor_sets(compiler: Compiler) -> int:
    """Return a bit for each instruction set that this processor, system and compiler have.

    Raises:
        BuildFailed: the compiler cannot even build the file that finds out.
    """
    with tempfile.TemporaryDirectory(prefix="duotail-") as folder:
        probe, source = Path(folder) / LIBRARY, ROOT / "engine" / "native" / "processor.c"
        objects = _Objects(compiler, (), Path(folder)).of([source], unwatched)
        _link(compiler, objects, probe)
        told = _asked(probe, "print(library.dt_processor_isas())")
    return int(told or ALL_SETS)  # a library for another system does not tell


def used_of(sets: int) -> int:
    """Return what a processor with these sets uses: the best of them, and portable code."""
    return PORTABLE | 1 << (sets.bit_length() - 1)


def is_current(library: Path, all_sets: bool) -> bool:
    """Whether a library was built from these sources for this processor.

    Args:
        library: the file, which may be missing.
        all_sets: it has to have every instruction set of the processor, not only those in use.
    """
    mark = ("duotail sources " + sources_digest()).encode()
    if not library.is_file() or mark not in library.read_bytes():
        return False
    code = "print(library.dt_processor_isas(), sum(library.dt_has_isa(i) << i for i in range(32)))"
    told = _asked(library, code).split()
    if not told:
        return False
    there, built = map(int, told)
    return not (there if all_sets else used_of(there)) & ~built


def _asked(library: Path, code: str) -> str:
    """What a child prints that has loaded the library; nothing if that ends it."""
    load = "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); "
    command = [sys.executable, "-c", load + code, str(library)]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return "" if told.returncode else told.stdout.decode()


def _longest_first(source: Path) -> Tuple[bool, bool, str]:
    """Order of compiling: else one core waits for the other at the end."""
    name = source.name
    return not name.startswith("isa_p"), not name.startswith("isa_"), name


class _Objects:
    """The objects of a build: found, or compiled side by side."""

    def __init__(self, compiler: Compiler, macros: Tuple[str, ...], folder: Path) -> None:
        self._command = [*compiler.command, *OPTIONS, *compiler.compile]
        self._macros, self._folder = macros, folder
        self._identity = _identity(compiler) + " ".join(self._command).encode()
        self._stopped = False
        self._running = set()  # type: set[subprocess.Popen[bytes]]
        self._lock = threading.Lock()

    def of(self, sources: "list[Path]", watch: Watch) -> "list[Path]":
        """Return the objects of all sources."""
        objects, starved = [], []
        with ThreadPoolExecutor(_jobs()) as several:
            tasks = {several.submit(self._object, source): source for source in sources}
            try:
                for task in as_completed(tasks):
                    if isinstance(task.exception(), Starved):
                        starved.append(tasks[task])
                        continue
                    objects.append(task.result())
                    watch(len(objects), len(sources))
            except BaseException:
                self._stop()
                raise
        for source in starved:  # alone, with all of the memory
            objects.append(self._object(source))
            watch(len(objects), len(sources))
        return sorted(objects)

    def _object(self, source: Path) -> Path:
        """Return the object of a source, compiled unless it is there."""
        text = self._run([*self._command, *self._macros, "-E", "-P", str(source)])
        digest = hashlib.sha256(self._identity + text).hexdigest()
        found = self._folder / "{}-{}.o".format(source.stem, digest[:32])
        if found.exists():
            os.utime(str(found))  # it is of use
            return found
        new = self._folder / "{}.{}.o".format(found.stem, os.getpid())
        try:
            self._run([*self._command, *self._macros, "-c", str(source), "-o", str(new)])
            os.replace(str(new), str(found))
        finally:
            if new.exists():
                new.unlink()
        return found

    def _run(self, command: "list[str]") -> bytes:
        """Run the compiler, unless another file failed; return what it prints."""
        with self._lock:
            if self._stopped:
                raise BuildFailed("Stopped.")
            process = _start(command)
            self._running.add(process)
        try:
            return _finish(process, command)
        finally:
            with self._lock:
                self._running.discard(process)

    def _stop(self) -> None:
        """End what runs; nothing else begins."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)


def _link(compiler: Compiler, objects: "list[Path]", target: Path) -> None:
    """Link objects to a library, which is replaced when the new one is whole."""
    with tempfile.TemporaryDirectory(prefix="_native-", dir=str(target.parent)) as folder:
        new = Path(folder) / target.name  # Windows' libraries remember how they were called
        command = [*compiler.command, "-shared", *map(str, objects), *compiler.link]
        command += ["-o", str(new)]
        _finish(_start(command), command)
        os.replace(str(new), str(target))


def _start(command: "list[str]") -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # see _kill
        )
    except OSError as error:
        raise BuildFailed(
            "The C compiler {} does not start: {}".format(command[0], error)
        ) from error


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """End a compiler and the programs that it started, which do the work."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _finish(process: "subprocess.Popen[bytes]", command: "list[str]") -> bytes:
    """Wait for a command and return what it prints.

    Raises:
        Starved: it was ended by the system, or says that memory was not enough.
        BuildFailed: it failed.
    """
    out, said = process.communicate()
    if process.returncode == 0:
        return out
    words = said.decode(errors="replace").strip()
    output = "{}\n{}".format(words, " ".join(command))
    if process.returncode == -9 or any(sign in words for sign in STARVED):
        raise Starved("The C compiler was ended: the memory was not enough for it.\n" + output)
    if "No space left on device" in words:
        raise BuildFailed("The disk is full, so the C compiler could not go on.\n" + output)
    raise BuildFailed("The C compiler failed.\n" + output)


def _identity(compiler: Compiler) -> bytes:
    """What tells compilers apart: the program, which may be a script, and the version it names."""
    program = shutil.which(compiler.command[0])
    if program is None:
        raise BuildFailed("The C compiler {} is not here.".format(compiler.command[0]))
    command = [*compiler.command, "--version"]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return hashlib.sha256(Path(program).read_bytes() + told).digest()


def _jobs() -> int:
    """How many compilers run side by side: one for each core, if there is memory for them."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        lines = Path("/proc/meminfo").read_text().split("\n")
        free = next(
            int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")
        )
    except (OSError, StopIteration):
        return cores
    return max(1, min(cores, free // JOB_BYTES))


def _writable(folder: Path, otherwise: Path) -> Path:
    """The folder, if something can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=str(folder)):
            return folder
    except OSError:
        return otherwise


def _forget_old(folder: Path) -> None:
    """Delete objects that were of no use for long."""
    for file in folder.iterdir():
        try:
            if time.time() - file.stat().st_mtime > KEPT_DAYS * 86400:
                file.unlink()
        except OSError:
            pass  # another set-up was quicker


def main() -> int:
    """Build the library in its place; 0 when it is there, 3 where there is no compiler."""
    parser = argparse.ArgumentParser(description="Build the native library in its place")
    parser.add_argument("--all", action="store_true", help="with every instruction set")
    options = parser.parse_args()
    compiler = find_compiler()
    if compiler is None:
        sys.stderr.write("There is no C compiler here.\n")
        return 3

    def watch(done: int, count: int) -> None:
        sys.stdout.write("{} of {} files\n".format(done, count))
        sys.stdout.flush()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the compilers end as well
    try:
        sets = ALL_SETS if options.all else used_of(processor_sets(compiler))
        build(ROOT / "engine" / LIBRARY, compiler, sets, watch=watch)
    except (BuildFailed, OSError) as error:
        sys.stderr.write("{}\n".format(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
