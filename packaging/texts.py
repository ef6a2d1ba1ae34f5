"""Collects the texts of the program into the catalogues of its languages, and compiles them.

`make texts` runs it: new texts appear untranslated in resources/translations/*/…/duotail.po, texts
that are gone disappear, and the .mo files that the program reads are written anew.
"""

from __future__ import annotations

import io
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "resources" / "translations"
KEYWORDS: dict[str, tuple[int, ...] | None] = {"tr": None, "later": None, "tr_count": (1, 2)}


def collected() -> Catalog:
    """All texts in the sources."""
    template = Catalog(project="Duotail", charset="utf-8")
    for package in ("app", "engine"):
        found = extract_from_dir(
            ROOT / package, [("**.py", "python")], keywords=KEYWORDS, comment_tags=("Translators:",)
        )
        for name, _line, message, comments, context in found:
            # Without line numbers: they would change in every commit.
            template.add(
                message, None, [(f"{package}/{name}", 0)], (), (), comments, context=context
            )
    return template


def catalogue(path: Path, template: Catalog) -> Catalog:
    """The catalogue in `path`, with exactly the texts of `template`."""
    with path.open("rb") as file:
        known = read_po(file, locale=path.parent.parent.name)
    written = known.creation_date
    known.update(template, no_fuzzy_matching=True)
    known.creation_date = written  # the same texts give the same files
    known.obsolete.clear()
    return known


def compiled(known: Catalog) -> bytes:
    """The .mo file of a catalogue."""
    out = io.BytesIO()
    write_mo(out, known)
    return out.getvalue()


def main() -> None:
    """Bring all catalogues up to date."""
    template = collected()
    for path in sorted(FOLDER.glob("*/LC_MESSAGES/duotail.po")):
        known = catalogue(path, template)
        with path.open("wb") as file:
            write_po(file, known, width=100, include_lineno=False, omit_header=False)
        path.with_suffix(".mo").write_bytes(compiled(known))


if __name__ == "__main__":
    main()
