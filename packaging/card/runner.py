"""Runs the steps, one process after the other, within the time, and keeps the report up to date."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from card import brought, report
from card.steps import LOG, RESULTS, ROOT, Check, Step, environment, results, steps

LEAST_S = 8.0
"""Seconds below which no further step begins."""
_GRACE_S = 3.0


class Runner:
    """One run of the check.

    Args:
        out: folder of its results; what an earlier run left there goes.
        scratch: folder that is deleted afterwards.
        budget: seconds for all steps together.
        rehearse: tiny sizes on stand-ins.
    """

    def __init__(self, out: Path, scratch: Path, budget: float, *, rehearse: bool) -> None:
        self._out, self._scratch, self._rehearse = out.resolve(), scratch, rehearse
        self._ends = time.monotonic() + budget
        self._environment: Mapping[str, str] = {}
        self._failed = False

    def run(self, bundle: Path | None, only: Sequence[str]) -> int:
        """Run the steps; 0 where each ended as it should, 130 where somebody stopped it."""
        self._out.mkdir(parents=True, exist_ok=True)
        for old in (self._out / RESULTS, self._out / LOG, *self._out.glob("rounds-*.csv")):
            old.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, _stop)
        first, *others = steps()
        try:
            self._unpack(bundle)
            self._one(first)
            has = self._here()
            for step in others:
                if only and step.name not in only:
                    continue
                lacking = [need for need in step.needs if need not in has]
                left = self._ends - time.monotonic()
                if lacking:
                    self._skip(step, f"no {', '.join(lacking)} here")
                elif left < LEAST_S:
                    self._skip(step, "no time left")
                else:
                    self._one(step)
        except KeyboardInterrupt:
            self._tell("stopped")
            return 130
        finally:
            report.write(self._out)
            self._tell(f"{self._out / report.NAME}")
        return 1 if self._failed else 0

    def _unpack(self, bundle: Path | None) -> None:
        """Unpack what was brought along, and say where the Vulkan loader is."""
        found = brought.unpack(bundle, self._scratch / "site", self._tell)
        self._environment = {
            **environment(found.site, found.libraries, self._scratch),
            **found.variables,
            # Threads that wait for each other by turning round and round hold a busy machine up.
            **({"OMP_NUM_THREADS": "1"} if self._rehearse else {}),
        }

    def _here(self) -> list[str]:
        """Return what the first step has found."""
        has = self._check(steps()[0]).has
        wanted = dict.fromkeys(need for step in steps() for need in step.needs)
        for need in (need for need in wanted if need not in has):
            named = [step.name for step in steps() if need in step.needs]
            self._tell(f"  without {need} these are skipped: {', '.join(named)}")
        return has

    def _one(self, step: Step) -> None:
        """Run a step, and say how it ended."""
        limit = min(step.seconds * (4 if self._rehearse else 1), self._ends - time.monotonic())
        command = [sys.executable, str(ROOT / "packaging" / "gpu_check.py"), "--step", step.name]
        command += ["--out", str(self._out), "--budget", str(limit)]
        command += ["--rehearse"] if self._rehearse else []
        started = time.monotonic()
        with (self._out / LOG).open("ab") as log:
            log.write(f"\n==== {step.name}\n".encode())
            log.flush()
            child = subprocess.Popen(
                command, env=self._environment, cwd=ROOT, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip
            ended = "interrupted"
            try:
                code = child.wait(limit + _GRACE_S)
                ended = "ok" if code == 0 else f"failed ({_words(code)})"
            except subprocess.TimeoutExpired:
                ended = f"over its {limit:.0f} s"
            finally:
                _end(child)
                self._note(step, ended, time.monotonic() - started)

    def _skip(self, step: Step, why: str) -> None:
        self._check(step).emit("end", ended=f"skipped: {why}", seconds=0.0)
        self._tell(f"{step.name:28}     -    skipped: {why}")

    def _note(self, step: Step, ended: str, seconds: float) -> None:
        said = [line for line in results(self._out) if line["step"] == step.name]
        if ended == "ok" and any(map(report.is_fault, said)):
            ended = "faults"
        self._check(step).emit("end", ended=ended, seconds=round(seconds, 2))
        self._failed |= ended != "ok"
        words = [str(line["words"]) for line in said if line["kind"] == "words"]
        self._tell(f"{step.name:28} {seconds:6.1f} s  {ended:8} {words[-1] if words else ''}")
        report.write(self._out)

    def _check(self, step: Step) -> Check:
        return Check(step.name, self._out, self._rehearse, self._ends)

    def _tell(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a step with all processes that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue


def _words(code: int) -> str:
    """Say how a process ended."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"
