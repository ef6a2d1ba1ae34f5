"""Text of PDF and DOCX files: what is read, what is refused, and that nothing grows without end."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pypdf import PageObject, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from app.session import document_text
from app.session.attachments import as_block, read_attachment
from app.session.document_text import Extract, Limits, extract
from app.session.documents import DocumentLimits, read_document
from engine.errors import Cancelled, UserFixable

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_ENOUGH = Limits(10_000, 30.0)
_FONT = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}


def pdf(*pages: str, **password: Any) -> bytes:
    """A PDF with a line of text on each page; "" draws none."""
    writer = PdfWriter()
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in _FONT.items()})
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    for text in pages:
        page = writer.add_blank_page(200, 200)
        drawn = DecodedStreamObject()
        drawn.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode() if text else b"0 0 m")
        page[NameObject("/Contents")] = writer._add_object(drawn)
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if password:
        writer.encrypt(**password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def docx(body: str, before: str = "", **others: str) -> bytes:
    """A DOCX with this XML as its body, and the parts given by name."""
    out = io.BytesIO()
    root = f'<w:document xmlns:w="{_W}" xmlns:a="urn:drawing"><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", before + root)
        for name, xml in others.items():
            archive.writestr(f"word/{name}.xml", xml)
    return out.getvalue()


def para(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def at(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_pdf_is_attached_with_its_text(tmp_path: Path) -> None:
    path = at(tmp_path, "report.pdf", pdf("First page", "Second page"))
    read = read_attachment(path)
    assert (read.text, read.notice) == ("First page\n\nSecond page", "")
    assert read.size == path.stat().st_size
    assert as_block(read).startswith("`report.pdf`:\n```\nFirst page")


def test_docx_keeps_what_word_shows(tmp_path: Path) -> None:
    """Insertions, content controls, tables and footnotes are there; deleted and moved text not."""
    cell = f"<w:tc>{para('a')}</w:tc><w:tc>{para('b')}{para('c')}</w:tc>"
    body = (
        '<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr>'
        "<w:r><w:t>Hello</w:t></w:r><w:ins><w:r><w:t> new</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText> old</w:delText><w:tab/></w:r></w:del>"
        "<w:moveFrom><w:r><w:t> moved</w:t></w:r></w:moveFrom>"
        "<w:r><w:tab/><w:t>tab</w:t><w:br/><w:t>line</w:t></w:r><a:t>drawing</a:t></w:p>"
        f"<w:sdt><w:sdtContent>{para('control & more')}</w:sdtContent></w:sdt>"
        "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>point</w:t></w:r></w:p>"
        f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>"
    )
    notes = f'<w:footnotes xmlns:w="{_W}">{para("a note")}</w:footnotes>'
    read = extract(at(tmp_path, "x.docx", docx(body, footnotes=notes)), _ENOUGH)
    assert read.text.splitlines() == [
        "Hello new\ttab",
        "line",
        "control & more",
        "- point",
        "a  | b c",
        "a note",
    ]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.pdf", pdf("Hidden", user_password="x", algorithm="AES-256"), "encrypted"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "encrypted"),
        ("a.pdf", pdf("", ""), "pictures"),
        ("a.docx", docx(para("  ")), "pictures"),
        ("a.pdf", b"%PDF-1.7\n" + b"\0" * 300, "damaged"),
        ("a.docx", b"PK\x03\x04 no archive", "damaged"),
        ("a.docx", docx(para("x"))[:-40], "damaged"),
        ("a.docx", docx("<w:p>"), "damaged"),
        ("a.docx", docx("<w:p/>", '<!DOCTYPE x [<!ENTITY a "aaaa">]>'), "damaged"),
    ],
)
def test_what_has_no_text_to_give_is_refused(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    assert extract(at(tmp_path, name, content), _ENOUGH).refused == reason


def test_a_pdf_that_only_forbids_changes_is_read(tmp_path: Path) -> None:
    locked = pdf("Open to read", user_password="", owner_password="x", algorithm="AES-128")
    assert extract(at(tmp_path, "a.pdf", locked), _ENOUGH).text == "Open to read"


def test_a_page_that_is_damaged_does_not_keep_the_others_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = at(tmp_path, "x.pdf", pdf("one", "two", "three")), PageObject.extract_text

    def damaged(page: PageObject, *more: Any, **named: Any) -> str:
        text = read(page, *more, **named)
        if text in broken:
            raise ValueError("no such font")
        return text

    monkeypatch.setattr(PageObject, "extract_text", damaged)
    broken = {"two"}
    assert extract(path, _ENOUGH) == Extract("one\n\nthree", 3, 3, 1)
    broken |= {"one", "three"}
    nothing = extract(path, _ENOUGH)
    assert (nothing.refused, nothing.details) == ("damaged", "ValueError: no such font")
    broken.clear()
    assert extract(path, Limits(4, 30.0)).text == "one", "there is no room for more"


def test_a_docx_without_a_document_or_with_a_password_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/styles.xml", "<x/>")
    assert extract(path, _ENOUGH).refused == "damaged"
    locked = bytearray(docx(para("secret")))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(mark) + place] |= 1  # the flag of an encrypted part
    path.write_bytes(locked)
    assert extract(path, _ENOUGH).refused == "encrypted"


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_text, "_MOST_XML", 2**20)
    bomb = docx("<w:p/>", " " * 2**21)
    assert len(bomb) < 10_000
    assert extract(at(tmp_path, "a.docx", bomb), _ENOUGH).refused == "heavy"


def test_long_documents_are_cut_and_say_so(tmp_path: Path) -> None:
    limits = DocumentLimits(text=25)
    path = at(tmp_path, "long.pdf", pdf("0123456789", "0123456789", "0123456789", "more"))
    text, notice = read_document(path, lambda: False, limits)
    assert text == "0123456789\n\n0123456789\n\n0"
    assert "only pages 1 to 3 of 4" in notice
    path = at(tmp_path, "long.docx", docx(para("0123456789" * 3)))
    text, notice = read_document(path, lambda: False, limits)
    assert len(text) == 25
    assert "only its beginning" in notice


def test_mostly_scanned_is_said(tmp_path: Path) -> None:
    path = at(tmp_path, "scan.pdf", pdf("Cover", "", ""))
    assert "2 of 3 pages hold no text" in read_attachment(path).notice


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (DocumentLimits(last_seconds=0.0), "takes too long"),
        (DocumentLimits(memory=1), "too complex"),
        (DocumentLimits(size=10), "at most"),
    ],
)
def test_time_memory_and_size_are_bounded(
    tmp_path: Path, limits: DocumentLimits, words: str
) -> None:
    path = at(tmp_path, "a.pdf", pdf("x"))
    with pytest.raises(UserFixable, match=words):
        read_document(path, lambda: False, limits)


def test_reading_can_be_stopped(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        read_document(at(tmp_path, "a.pdf", pdf("x")), lambda: True)


_quick = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
_XML_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]))


@_quick
@given(content=st.binary(max_size=400), name=st.sampled_from(["x.pdf", "x.docx"]))
def test_noise_is_refused_in_words(tmp_path: Path, content: bytes, name: str) -> None:
    magic = b"%PDF-1.4\n" if name == "x.pdf" else b"PK\x03\x04"
    assert extract(at(tmp_path, name, magic + content), _ENOUGH).refused in {"damaged", "pictures"}


@_quick
@given(texts=st.lists(_XML_TEXT, max_size=8), room=st.integers(1, 60))
def test_text_never_exceeds_its_limit(tmp_path: Path, texts: list[str], room: int) -> None:
    path = at(tmp_path, "x.docx", docx("".join(map(para, texts))))
    cut, whole = extract(path, Limits(room, 30.0)), extract(path, _ENOUGH)
    assert len(cut.text) <= room
    assert whole.text.startswith(cut.text)
    assert not whole.cut
