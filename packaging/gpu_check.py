"""Check a real graphics card: is all of it right, how fast is it, and which of our stacks stays.

    python3 packaging/gpu_check.py [--only STEP ...] [--budget SECONDS] [--out DIR] [--with BUNDLE]
    python3 packaging/gpu_check.py --bundle DIR       what a machine without network needs
    python3 packaging/gpu_check.py --report DIR       what an earlier run found, in words

Every step is a process of its own with its own time; one that fails or takes too long is reported,
and the next one goes on. What a step finds is written down at once. Needs no network and no screen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from card.runner import Runner
from card.steps import run_step, steps

BUDGET_S = 480.0


def main() -> int:
    """Do what the options say; 0 where every step that ran ended as it should."""
    options = _parser().parse_args()
    if options.list:
        for step in steps():
            sys.stdout.write(f"{step.name:28} {step.seconds:4.0f} s  {step.about}\n")
        return 0
    if options.bundle is not None:
        from card.bundle import make

        return make(options.bundle)
    if options.report is not None:
        from card.report import text

        sys.stdout.write(text(options.report))
        return 0
    if options.step is not None:
        return run_step(options.step, options.out, options.budget, rehearse=options.rehearse)
    with tempfile.TemporaryDirectory(prefix="duotail-card-") as scratch:
        runner = Runner(options.out, Path(scratch), options.budget, rehearse=options.rehearse)
        return runner.run(options.brought, options.only)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Check a real graphics card.")
    known = [step.name for step in steps()]
    parser.add_argument("--list", action="store_true", help="name the steps and end")
    parser.add_argument(
        "--only", action="append", default=[], metavar="STEP", choices=known,
        help="only this step, which `look` always comes before; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="for all steps together"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-check"), metavar="DIR", help="where results go"
    )
    parser.add_argument(
        "--with", dest="brought", type=Path, metavar="BUNDLE",
        help="folder that --bundle has made: it is unpacked first, without any network",
    )  # fmt: skip
    parser.add_argument(
        "--bundle", type=Path, metavar="DIR", help="put what such a machine lacks into a folder"
    )
    parser.add_argument(
        "--report", type=Path, metavar="DIR", help="write what an earlier run found, in words"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="tiny sizes on stand-ins, where no card is"
    )
    parser.add_argument("--step", choices=known, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
