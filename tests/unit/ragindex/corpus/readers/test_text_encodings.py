"""Files in other encodings than UTF-8, front matter, and titles."""

import random
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.corpus import read
from ragindex.corpus.readers.text_encodings import decode_page, decode_text
from ragindex.errors import DataError

FRENCH = "L’été dernier, nous avons mangé à la plage près d’Étretat. Le café était très bon."
GERMAN = "Wir gehen heute über die große Straße, weil das Wetter schön ist und die Vögel zwitschern."
POLISH = "Wczoraj poszedłem do sklepu, żeby kupić świeży chleb i masło."
RUSSIAN = "Москва - столица России, город федерального значения."
JAPANESE = "東京は日本の首都です。人口が多い都市です。"
PATH = Path("x.txt")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_tells(encoding: str) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    assert decode_text(mark + JAPANESE.encode(encoding), PATH) == (JAPANESE, encoding[:6])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((FRENCH, "cp1252"), (GERMAN, "cp1252"), (POLISH, "cp1250"), (RUSSIAN, "cp1251"), (RUSSIAN, "koi8_r")),
        *((JAPANESE, "shift_jis"), (JAPANESE, "euc_jp"), ("naïve", "cp1252"), ("Café au lait", "cp1252")),
    ],
)
def test_the_likeliest_encoding(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding), PATH) == (text, encoding)


@pytest.mark.parametrize(
    ("head", "encoding", "note"),
    [
        ('<meta charset="iso-8859-1">', "cp1252", "cp1252"),
        ("<META HTTP-EQUIV=content-type CONTENT='text/html; charset=windows-1250'>", "cp1250", "cp1250"),
        ('<?xml version="1.0" encoding="koi8-r"?>', "koi8_r", "koi8-r"),
        ('<meta charset="utf-8">', "utf-8", ""),
        ('<meta charset="shift_jis">', "utf-8", ""),  # it declares what it is not
        ('<meta charset="utf-16">', "utf-8", ""),
        ('<meta charset="no-such">', "utf-8", ""),
    ],
)
def test_a_page_declares_its_encoding(head: str, encoding: str, note: str) -> None:
    text = {"cp1252": FRENCH, "cp1250": POLISH, "koi8_r": RUSSIAN, "utf-8": FRENCH}[encoding]
    page = f"<html><head>{head}</head><body>{text}"
    assert decode_page(page.encode(encoding), PATH) == (page, note)


WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "The keeper counts gulls.\r\n",
            "name,city\nAda,Ely\n",
            "a",
            FRENCH,
            POLISH,
            RUSSIAN,
            f"{JAPANESE}\n{JAPANESE}",
        ),
        *("هي عاصمة مصر وأكبر مدنها.", "दिल्ली भारत की राजधानी है।"),
    ],
)
def test_a_wide_encoding_needs_no_mark(text: str, encoding: str) -> None:
    assert decode_text(text.encode(encoding), PATH) == (text, encoding)
    page = f"<html><head><meta charset=utf-16></head><body>{text}"
    assert decode_page(page.encode(encoding), PATH) == (page, encoding)


def test_some_zero_bytes_and_some_damaged_ones_leave_a_text_in_utf_8() -> None:
    zeros = "line of a log\n" * 20 + "\0" * 8
    assert decode_text(zeros.encode(), PATH) == (zeros, "")
    damaged = FRENCH.encode() + b" \xff\n"
    assert decode_text(damaged, PATH) == (f"{FRENCH} \N{REPLACEMENT CHARACTER}\n", "utf-8 with damaged bytes")


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (random.Random(0).randbytes(3_000), "binary data: 11% of the bytes are control characters"),
        (zlib.compress(random.Random(0).randbytes(900).hex().encode()), "binary data: "),
        (b"x" * 300 + bytes(200) + b"ustar", "binary data: 40% of the bytes are control characters"),
        (
            GERMAN.encode("cp850"),
            "the byte 0x81, and no other encoding is likely. .*: ragindex index x.txt --encoding NAME",
        ),
        (FRENCH.encode("mac_roman"), "the byte 0x8e, and no other encoding is likely"),
    ],
)
def test_binary_data_and_unlikely_encodings_are_refused(raw: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decode_text(raw, PATH)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_in_utf_8_stays_as_it_is(text: str) -> None:
    assert decode_text(text.encode(), PATH) == (text.removeprefix("\ufeff"), "")


def test_documents_say_their_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(FRENCH.encode("cp1252"))
    (tmp_path / "b.md").write_bytes(f"# Été\n\n{FRENCH}".encode("utf-16"))
    (tmp_path / "c.html").write_bytes(f"<meta charset=latin1><p>{GERMAN}".encode("latin-1"))
    (tmp_path / "d.txt").write_text("plain", encoding="utf-8")
    corpus = read(tmp_path)
    assert [document.text for document in corpus.documents] == [FRENCH, f"# Été\n\n{FRENCH}", GERMAN, "plain"]
    assert corpus.encodings == {"cp1252": ("a.txt", "c.html"), "utf-16": ("b.md",)}
    assert "text_encoding" not in corpus.documents[3].metadata
