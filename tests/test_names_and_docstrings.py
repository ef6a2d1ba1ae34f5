"""Public classes have names of their own, and docstrings begin with a line that stands alone."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent

FRAGMENT = re.compile(r"(Of|As|The same|So that|Where|Whoever|What|Whether)\b")
"""First words of a docstring that only makes sense after the name above it."""


def sources(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def local(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public_classes(path: Path) -> Iterator[str]:
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def docstrings(source: ast.Module) -> Iterator[str]:
    """Yield the texts that stand alone in the source, as docstrings of whatever is above."""
    for node in ast.walk(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield text.strip()


def defined_docstrings(source: ast.Module) -> Iterator[str]:
    """Yield the docstrings of classes and functions."""
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def fragments(paths: list[Path], find: Callable[[ast.Module], Iterator[str]]) -> list[str]:
    """Return each file's docstrings that begin with a fragment."""
    return [
        f"{local(path)}: {text}"
        for path in paths
        for text in find(parsed(path))
        if FRAGMENT.match(text)
    ]


def test_no_two_public_classes_share_a_name() -> None:
    found = defaultdict(list)
    for path in sources("app", "engine"):
        for name in public_classes(path):
            found[name].append(local(path))
    shared = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert shared == {}


def test_docstrings_of_the_window_stand_alone() -> None:
    assert fragments(sources("app"), docstrings) == []


def test_docstrings_of_classes_and_functions_stand_alone() -> None:
    assert fragments(sources("app", "engine"), defined_docstrings) == []


def test_fragments_are_found() -> None:
    source = 'class A:\n    """Of a model."""\n    x: int\n    """Whether it is."""\n'
    assert [text for text in docstrings(ast.parse(source)) if FRAGMENT.match(text)] == [
        "Of a model.",
        "Whether it is.",
    ]
    assert not FRAGMENT.match("Return the model.")
