"""Every text that people read can be translated, and the translations that are there fit."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
CATALOGUES = sorted((ROOT / "resources" / "translations").glob("*/LC_MESSAGES/duotail.po"))

LANGUAGE = "engine/language/__init__.py"
SCENES = ("app/showcase/scenes/", "app/showcase/hub", "app/showcase/script", "app/showcase/budgets")
"""What pictures of the window show, in whatever language their maker chose."""

ALLOWED = {"Duotail", "Markdown", "JSON", "PNG", "CSV", "SVG", "Dovetail", "DuoDecoding"}
"""Names that are the same in every language. Texts without a letter need no mention."""

ENGLISH_FILES = {
    "app/chat/examples.py",  # asked of a model that knows English only
    "app/settings/starter_prompt.py",  # said to the same model
    "app/history/file.py",  # what SQLite says
    "app/showcase/measure/engine.py",  # what the model is asked
    "app/diagnostics/report_text.py",  # reports are read by us
    "app/theme/theme.py",  # names of fonts
    "app/session/file_parts.py",  # what the model is told
    "app/session/calls.py",  # what the model is told
    "app/tools/calculator.py",  # what the model is told
    "engine/cli/bench_round.py",  # what the model is asked
    "engine/bench/modes/questions.py",  # what the model is asked
    "engine/model/text/tool_style.py",  # what the model is told
    "engine/server/structured.py",  # a part of the protocol
    "engine/server/body.py",  # a part of the protocol
    "engine/server/application.py",  # a part of the protocol
    "engine/server/completion_request.py",  # a part of the protocol
    "engine/server/generation.py",  # a part of the protocol
    "engine/server/access.py",  # a part of the protocol
    "engine/server/members.py",  # a part of the protocol
    "engine/server/pages.py",  # a part of the protocol
    "engine/server/models.py",  # a part of the protocol
    "engine/server/metrics.py",  # a part of the protocol
    "engine/server/api_error.py",  # a part of the protocol
}
"""Files with sentences that are none of the program's."""

WRAPPERS = {"tr", "later", "tr_count"}
FOR_DEVELOPERS = {"ValueError", "RuntimeError", "TypeError", "MemoryError", "AssertionError"}
SENTENCE = re.compile(r"[A-Z][a-z]+( [\w{}'-]+)+[.,:!?…]?")

# Which arguments of a call are read by people: positions and names.
FIRST = ((0,), frozenset[str]())
CAUSE_AND_REMEDY = ((0, 1), frozenset({"cause", "remedy"}))
ANY = (tuple(range(6)), frozenset[str]())
SINKS: dict[str, tuple[tuple[int, ...], frozenset[str]]] = {
    **dict.fromkeys(
        ("UserFixable", "Absent", "HistoryInUse", "NotPossible", "OutOfMemory"), CAUSE_AND_REMEDY
    ),
    "ContextFull": CAUSE_AND_REMEDY,
    "Failed": ((2, 3), frozenset({"cause", "remedy"})),
    "LoadProgress": ((1,), frozenset({"stage"})),
    "ArgumentTypeError": FIRST,
    "ArgumentParser": ((), frozenset({"description", "epilog"})),
    "add_parser": ((), frozenset({"help", "description", "epilog"})),
    "add_argument": ((), frozenset({"help"})),
    "IconButton": ((1,), frozenset({"name"})),
    "addTab": ((1, 2), frozenset[str]()),
    **dict.fromkeys(
        (
            "setText",
            "tell",
            "setPlainText",
            "setToolTip",
            "setStatusTip",
            "setWhatsThis",
            "setPlaceholderText",
            "setAccessibleName",
            "setAccessibleDescription",
            "setWindowTitle",
            "setTitle",
            "setInformativeText",
            "setLabelText",
            "setSuffix",
            "setPrefix",
            "setSpecialValueText",
            "setHeaderLabels",
            "setHorizontalHeaderLabels",
            "showMessage",
            "addMenu",
            "addRow",
        ),
        FIRST,
    ),
    **dict.fromkeys(
        (
            "addAction",
            "addButton",
            "addItem",
            "addItems",
            "drawText",
            "insertItem",
            "offer",
            "QAction",
            "QCheckBox",
            "QGroupBox",
            "QLabel",
            "QMenu",
            "QMessageBox",
            "QPushButton",
            "QRadioButton",
            "QToolButton",
            "about",
            "critical",
            "information",
            "question",
            "warning",
            "getOpenFileName",
            "getOpenFileNames",
            "getSaveFileName",
            "getText",
        ),
        ANY,
    ),
}
PROPERTIES = {
    *("text", "toolTip", "placeholderText", "windowTitle"),
    *("accessibleName", "accessibleDescription"),
}
"""Of Qt's widgets, given as they are made."""
LOGGERS = {"_log", "log", "logger", "logging", "warnings"}


def local(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def sources() -> dict[str, ast.Module]:
    """The modules in which people read something, parsed once for all tests."""
    found = [path for package in ("app", "engine") for path in (ROOT / package).rglob("*.py")]
    return {
        local(path): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(found)
        if not local(path).startswith(SCENES)
    }


def name_of(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def owner_of(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return call.func.value.id
    return ""


def said(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that people will read."""
    name = name_of(call)
    made = [word.value for word in call.keywords if name[0:1] == "Q" and word.arg in PROPERTIES]
    if name not in SINKS or owner_of(call) in LOGGERS:
        return made
    positions, names = SINKS[name]
    by_position = [call.args[position] for position in positions if position < len(call.args)]
    return made + by_position + [word.value for word in call.keywords if word.arg in names]


def untranslated(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    """The texts in an expression that do not come from a catalogue."""
    match node:
        case ast.Constant(value=str(text)):
            if re.search(r"[^\W\d_]", text) and text not in ALLOWED:
                yield text
        case ast.JoinedStr(values=values):
            for value in values:
                yield from untranslated(value, constants)
        case ast.FormattedValue(value=value):
            yield from untranslated(value, constants)
        case ast.Call(func=ast.Attribute(value=text, attr="format" | "join" | "upper" | "strip")):
            yield from untranslated(text, constants)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            yield from untranslated(one, constants)
            yield from untranslated(other, constants)
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            for value in values:
                yield from untranslated(value, constants)
        case ast.Name(id=name) if name in constants:
            yield from untranslated(constants[name], {})


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """Module-level names for plain texts."""
    return {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
        and isinstance(statement.value, ast.Constant | ast.JoinedStr)
    }


def findings(tree: ast.Module) -> list[str]:
    constants = constants_of(tree)
    return [
        f"line {call.lineno}: {name_of(call)}({text!r})"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for argument in said(call)
        for text in untranslated(argument, constants)
    ]


def test_what_people_read_goes_through_the_catalogues() -> None:
    found = {file: findings(tree) for file, tree in sources().items()}
    assert {file: texts for file, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "source",
    [
        "label.setText('Stop')",
        "raise UserFixable(tr('a'), 'Try again.')",
        "raise UserFixable(f'{n} bytes', tr('b'))",
        "raise UserFixable(cause='No.', remedy=tr('b'))",
        "menu.addAction(icon, 'Copy', self.copy)",
        "button.setToolTip(tr('Stop') if on else 'Go')",
        "button.setToolTip('{n} of'.format(n=1))",
        "button.setToolTip(tr('a') + ' tokens')",
        "WORDS = 'Stop'\nlabel.setText(WORDS)",
        "parser.add_argument('--x', help='an option')",
    ],
)
def test_a_text_that_is_not_wrapped_is_found(source: str) -> None:
    assert len(findings(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "label.setText(tr('Stop'))",
        "label.setText(tr('{n} of').format(n=1))",
        "label.setText(f'{speed:.1f} · {tr(words)}')",
        "label.setText('\u2026')",
        "window.setWindowTitle('Duotail')",
        "_log.warning('nobody reads this')",
        "raise UserFixable(tr('a'), tr('b'), 'details stay as they are')",
        "WORDS = later('Stop')\nlabel.setText(tr(WORDS))",
        "path.open('rb')",
    ],
)
def test_what_is_wrapped_is_not_found(source: str) -> None:
    assert findings(ast.parse(source)) == []


def sentences(node: ast.AST) -> Iterator[str]:
    """Texts that look like sentences, wherever they stand; docstrings and errors of ours aside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.Call) and (
            name_of(child) in WRAPPERS | FOR_DEVELOPERS or owner_of(child) in LOGGERS
        ):
            continue
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            if SENTENCE.match(child.value):
                yield f"line {child.lineno}: {child.value!r}"
        elif not isinstance(child, ast.Assert):
            yield from sentences(child)


def test_no_sentence_is_kept_from_the_catalogues() -> None:
    """Texts that reach a widget by some detour."""
    found = {f: list(sentences(tree)) for f, tree in sources().items() if f not in ENGLISH_FILES}
    assert {file: texts for file, texts in found.items() if texts} == {}


def test_sentences_are_found() -> None:
    found = "WORDS = {1: 'Some words', 2: tr('Other words')}\nlines.append(f'Was here: {why}')"
    assert len(list(sentences(ast.parse(found)))) == 2
    others = "'Some docstring.'\n_log.info('Some words')\nx = 'snake case'\ny = 'SELECT it FROM x'"
    assert list(sentences(ast.parse(others))) == []


def test_catalogues_can_collect_every_text() -> None:
    """Only literals are collected; `tr` may also be given what `later` has marked."""
    for file, tree in sources().items():
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or file == LANGUAGE:
                continue
            literal = {"tr_count": 2, "later": 1}.get(name_of(call), 0)
            wrong = [a for a in call.args[:literal] if not isinstance(a, ast.Constant)]
            wrong += [a for a in call.args[:1] if name_of(call) == "tr" and put_together(a)]
            assert not wrong, f"{file}:{call.lineno}"


def test_no_text_is_asked_for_inside_an_f_string() -> None:
    """Babel does not look into them on every Python."""
    found = {file: within_f_strings(tree) for file, tree in sources().items()}
    assert {file: texts for file, texts in found.items() if texts} == {}


def within_f_strings(tree: ast.Module) -> list[str]:
    """Texts for the catalogues that are not collected; `tr` may look up what `later` has marked."""
    return [
        f"line {call.lineno}: {name_of(call)}"
        for string in ast.walk(tree)
        if isinstance(string, ast.JoinedStr)
        for call in ast.walk(string)
        if isinstance(call, ast.Call)
        and name_of(call) in WRAPPERS
        and (name_of(call) != "tr" or isinstance(call.args[0], ast.Constant))
    ]


def test_texts_within_f_strings_are_found() -> None:
    def found(source: str) -> list[str]:
        return within_f_strings(ast.parse(source))

    assert found("f'{tr(\"Stop\")}: {n}'") == ["line 1: tr"]
    assert found('f\'{tr_count("{n} word", "{n} words", n)}\'') == ["line 1: tr_count"]
    assert found("f'{tr(name)} {value}'") == []
    assert found("tr('{n} of').format(n=1)") == []


def put_together(node: ast.expr) -> bool:
    """Whether a text is made here, and not a literal or the name of one."""
    if isinstance(node, ast.IfExp):
        return isinstance(node.body, ast.Constant) or isinstance(node.orelse, ast.Constant)
    return isinstance(node, ast.JoinedStr | ast.BinOp)


def fields(text: str) -> set[str]:
    return set(re.findall(r"\{(\w*)", re.sub(r"\{\{\w+\}\}", "", text)))


def the_texts_module() -> ModuleType:
    pytest.importorskip("babel", reason="babel makes the catalogues")
    spec = importlib.util.spec_from_file_location("texts", ROOT / "packaging" / "texts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parent.parent.name)
def test_translations_have_the_fields_of_their_texts(path: Path) -> None:
    pofile = pytest.importorskip("babel.messages.pofile", reason="babel reads the catalogues")
    with path.open("rb") as file:
        known = pofile.read_po(file)
    for message in known:
        if not message.id:
            continue
        texts = message.id if isinstance(message.id, tuple) else (message.id,)
        translations = message.string if isinstance(message.string, tuple) else (message.string,)
        for form, translation in enumerate(translations):
            if translation:
                # A singular may say "one" in words, no other form may.
                alone = form == 0 and len(translations) > 1
                meant = texts if alone else texts[-1:]
                assert fields(translation) in [fields(text) for text in meant], translation


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.parent.parent.name)
def test_compiled_translations_are_those_of_the_catalogue(path: Path) -> None:
    texts = the_texts_module()
    pofile = pytest.importorskip("babel.messages.pofile")
    with path.open("rb") as file:
        known = pofile.read_po(file, locale=path.parent.parent.name)
    assert path.with_suffix(".mo").read_bytes() == texts.compiled(known)
