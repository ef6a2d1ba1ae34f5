"""Text files that go along with a message."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.session.attachments import (
    MOST_BYTES,
    Attachment,
    read_attachment,
    sent_files,
    with_attachments,
)
from app.session.encodings import ENCODINGS
from engine.errors import UserFixable

TEXT = "Grüße aus Köln – 你好\nsecond line\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_unicode_is_read_as_it_says(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(TEXT.encode(encoding))
    read = read_attachment(path)
    assert (read.text, read.notice) == (TEXT, "")
    assert read.size == path.stat().st_size


def test_big_endian_with_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"\xfe\xff" + TEXT.encode("utf-16-be"))
    assert read_attachment(path).text == TEXT


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Er sagte “ok” … 5 € für Müller, Café und Straße.\r\nGrüße\r\n"),
        ("cp1252", "Grüße\r\nKöln\r\n"),
        ("gb18030", "姓名,城市\n张伟,北京\n你好，世界。这是一个测试文件。\n"),
        ("cp932", "名前,都市\nこんにちは、世界。これはテストです。\n"),
        ("big5", "姓名,城市\n你好，世界。這是一個測試檔案，包含中文內容。\n"),
        ("cp949", "이름,도시\n안녕하세요, 세계. 이것은 테스트 파일입니다.\n"),
        ("cp1251", "Привет, мир. Это тестовый файл с русским текстом.\n"),
        ("utf_16_le", "Grüße aus Köln\n"),
    ],
)
def test_other_encodings_are_found_out_and_said(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "alt.txt"
    path.write_bytes(text.encode(encoding))
    read = read_attachment(path)
    assert read.text == text.replace("\r\n", "\n")
    assert read.encoding == encoding
    assert "alt.txt" in read.notice
    assert ENCODINGS[encoding] in read.notice


def test_utf_16_the_other_way_round(tmp_path: Path) -> None:
    path = tmp_path / "alt.txt"
    path.write_bytes(TEXT.encode("utf-16-be"))
    assert read_attachment(path).text == TEXT
    assert read_attachment(path, encoding="utf_16_le").text == TEXT


def test_a_bad_byte_spoils_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(TEXT.encode() * 5 + b"\xff\n")
    read = read_attachment(path)
    assert read.text == TEXT * 5 + "\ufffd\n"
    assert "1 byte of the attached file" in read.notice


def test_another_encoding_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "alt.txt"
    path.write_bytes("Привет".encode("koi8_r"))
    read = read_attachment(path, encoding="koi8_r")
    assert (read.text, read.notice, read.encoding) == ("Привет", "", "koi8_r")
    assert Path(read.path) == path


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("photo.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(range(256)) * 4, "is a picture"),
        ("half.txt", b"\xff\xfe\x00", "not a text file"),
        ("program", b"\x7fELF\0\0\0\0" * 100, "not a text file"),
        ("llama.gguf", b"GGUF", "is a model"),
        ("firmware.bin", b"\x7fELF\0\0\0\0" * 100, "not a text file"),
        ("big.log", b"x" * (MOST_BYTES + 1), "2.1\u00a0MB large"),
    ],
)
def test_what_cannot_go_along_is_refused_in_words(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserFixable, match=words) as refused:
        read_attachment(path)
    assert name in refused.value.cause
    assert refused.value.remedy


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserFixable, match=r"pipe\.txt"):
        read_attachment(tmp_path / "pipe.txt")


def test_folders_and_models_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UserFixable, match="is a folder"):
        read_attachment(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(UserFixable, match="is a model"):
        read_attachment(tmp_path)
    with pytest.raises(UserFixable, match="could not be read"):
        read_attachment(tmp_path / "gone.txt")


@pytest.mark.parametrize(
    "text", ["plain", "", "```\nfenced\n```\n", "`````\n", "# no newline at the end"]
)
def test_a_file_stands_in_the_message_and_can_be_told_from_it(text: str) -> None:
    files = [Attachment("a `b`.py", text, 1), Attachment("c.txt", text, 1)]
    message = with_attachments(files, "What is this?\n")
    sent, start = sent_files(message)
    assert message[start:] == "What is this?\n"
    assert [(each.name, each.text) for each in sent] == [
        ("a b .py", text.removesuffix("\n")),
        ("c.txt", text.removesuffix("\n")),
    ]
    assert all(message[each.start :].startswith(each.block + "\n") for each in sent)
    assert text in message
    assert "py\n" in message
    alone = with_attachments(files, "")
    sent, start = sent_files(alone)
    assert (len(sent), start) == (2, len(alone))


def test_what_only_looks_like_a_file_stays() -> None:
    message = "`x`:\n```\nnever closed"
    assert sent_files(message) == ([], 0)
