"""Runs a fuzz target for a while: `python tests/fuzz/fuzz.py TARGET|all [--seconds N]`.

atheris (libFuzzer), which is fetched into `.fuzz/packages`, guides by coverage of `engine`, `app`
and what they parse with. A finding does not end it: its input and traceback are kept under
`.fuzz/TARGET/findings`, one for each place that raises. Inputs that reach something new are kept
under `.fuzz/TARGET/corpus` for the next time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import tomllib
import traceback
from pathlib import Path

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
sys.path[:0] = [str(_ROOT), str(_HERE)]

from targets import NAMES, SEEDS, target  # noqa: E402 - found beside this file

_KEPT = _ROOT / ".fuzz"
_LONGEST = 16_384
_MOST_MB = 3_000
_PARSERS = ["engine", "app", "jinja2", "markdown_it", "json", "html"]
_CPU_S = 8.0
"""More processor time for one input is a finding; no limit of a sandbox is as long."""


class _Kept:
    """Counts inputs, and keeps one for each place that raises."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen = folder / "findings", set[str]()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._counts = folder / f"count-{os.getpid()}.json"
        self._number, self._began = 0, time.monotonic()

    def one(self) -> None:
        self._number += 1
        if self._number % 256 == 0:
            told = {"inputs": self._number, "seconds": time.monotonic() - self._began}
            self._counts.write_text(json.dumps(told))

    def finding(self, data: bytes, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        place = "|".join(f"{Path(f.filename).name}:{f.name}:{f.line}" for f in frames)
        key = hashlib.sha256(f"{type(error).__name__}{place}".encode()).hexdigest()[:12]
        if key not in self._seen:
            self._seen.add(key)
            (self._folder / key).write_bytes(data)
            words = "".join(traceback.format_exception(error))
            (self._folder / f"{key}.txt").write_text(words, "utf-8", "replace")


def _fuzz(name: str, seconds: int) -> None:
    """Fuzz in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=_PARSERS):
        from engine.model.text import template_sandbox
        from engine.model.text.vocabulary import library

        run = target(name)
    template_sandbox.SECONDS, library.SECONDS = 0.3, 0.5  # what hangs is stopped sooner
    folder = _KEPT / name
    kept = _Kept(folder)

    def one(data: bytes) -> None:
        kept.one()
        began = time.process_time()
        try:
            run(data)
        except Exception as error:  # noqa: BLE001 - any is a finding
            kept.finding(data, error)
        if time.process_time() - began > _CPU_S:
            kept.finding(data, TimeoutError(name))

    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    crashes = folder / "crashes"
    crashes.mkdir(exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-rss_limit_mb={_MOST_MB}",
        f"-artifact_prefix={crashes}/", "-timeout=600", "-report_slow_units=600", "-verbosity=0",
    ]  # fmt: skip
    words = SEEDS / f"{name}.dict"
    if words.exists():
        options.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, str(corpus), str(SEEDS / name)], one)
    atheris.Fuzz()


def _fetch_atheris() -> None:
    """Have children find atheris, which the tests do without."""
    packages = _KEPT / "packages"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    import_it = [sys.executable, "-c", "import atheris"]
    if subprocess.run(import_it, capture_output=True).returncode == 0:
        return
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"]["fuzz"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
    subprocess.run([*pip, *wanted], check=True)


def _campaign(name: str, seconds: int) -> None:
    """Run children until the time is over: a crash ends one of them only."""
    end = time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 1:
        child = [sys.executable, __file__, name, "--child", "--seconds", str(left)]
        began = time.monotonic()
        subprocess.run(child, check=False)
        if time.monotonic() - began < 5:
            break
    counts = [json.loads(path.read_text()) for path in (_KEPT / name).glob("count-*.json")]
    inputs, spent = (sum(each[key] for each in counts) for key in ("inputs", "seconds"))
    found = [*(_KEPT / name / "findings").glob("*.txt"), *(_KEPT / name / "crashes").iterdir()]
    sys.stdout.write(f"{name}: {inputs:,} inputs in {spent:,.0f} s, {len(found)} findings\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--seconds", type=int, default=3600, help="for each target")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _fuzz(options.target, options.seconds)
        return
    _fetch_atheris()
    for name in NAMES if options.target == "all" else (options.target,):
        _campaign(name, options.seconds)


if __name__ == "__main__":
    main()
