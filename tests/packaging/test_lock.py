"""The lock file: what is installed by every package, each file by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "packaging/constraints.txt").read_text("utf-8")
LOCK = (ROOT / "packaging/duotail.lock").read_text("utf-8")
PINS = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^(\S+?)==([^\s;]+)", LOCK, re.MULTILINE)
}


def test_everything_has_a_hash() -> None:
    blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK, flags=re.MULTILINE)
    wanted = [block for block in blocks if "==" in block]
    assert len(wanted) >= len(PINS) > 20
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in wanted)


def test_it_has_what_the_project_asks_for_and_the_tests_use() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for line in project["dependencies"]:
        wanted = Requirement(line)
        assert PINS[canonicalize_name(wanted.name)] in wanted.specifier, line
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", CONSTRAINTS, re.MULTILINE))
    known = {canonicalize_name(name): version for name, version in pinned.items()}
    others = {
        name: (version, known[name])
        for name, version in PINS.items()
        if known.get(name, version) != version
    }
    assert others == {}
