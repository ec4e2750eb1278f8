"""EPUB and FB2 books, made here part by part."""

from pathlib import Path

import pytest
from packed import pack

from ragindex.corpus.readers import READERS, FileContent
from ragindex.errors import DataError

CONTAINER = '<container xmlns="urn:c"><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title> The  Tides </dc:title><dc:creator>Mona Reed</dc:creator><dc:creator>A. Alder</dc:creator></metadata>
<manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="cover" href="cover.xhtml" media-type="application/xhtml+xml"/>
<item id="b" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="a" href="text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="x" href="text/../gone.xhtml" media-type="application/xhtml+xml"/>
<item id="p" href="p.png" media-type="image/png"/></manifest>
<spine><itemref idref="nav"/><itemref idref="cover"/><itemref idref="b"/><itemref idref="a"/><itemref idref="b"/>
<itemref idref="p"/><itemref idref="none"/></spine></package>"""
CHAPTER = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>{}</body></html>'
PARTS = {
    "META-INF/container.xml": CONTAINER,
    "OPS/book.opf": PACKAGE,
    "OPS/nav.xhtml": CHAPTER.format("<nav><h1>Contents</h1><a href='text/one.xhtml'>One</a></nav>"),
    "OPS/cover.xhtml": CHAPTER.format('<img src="c.png"/>'),
    "OPS/text/one.xhtml": CHAPTER.format('<h2>Ebb</h2><p><a id="q"/>Falls, see <a href="two%20b.xhtml">Flow</a>.</p>'),
    "OPS/text/two b.xhtml": CHAPTER.format("<h1>Flow</h1><p>Rises.</p><table><tr><th>h</th><th>m</th></tr></table>"),
}
DRM = (
    '<encryption xmlns="urn:c"><EncryptedData xmlns="urn:e"><EncryptionMethod Algorithm="{}"/></EncryptedData>'
    "</encryption>"
)


def read_book(parts: dict[str, str]) -> FileContent:
    return READERS[".epub"](pack(parts), Path("a.epub"), None)


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    book = read_book(PARTS)
    assert (book.title, book.metadata) == ("The Tides", {"pages": 2, "author": "Mona Reed, A. Alder"})
    assert book.text == "Flow\n\nRises.\n\n| h | m |\n| --- | --- |\n\nEbb\n\nFalls, see Flow."
    assert [(book.text[section.start :][:4], section.headings, section.page) for section in book.sections] == [
        ("Flow", ("Flow",), 1),
        ("Ebb\n", ("Flow", "Ebb"), 2),
    ]
    assert [book.text[start:end] for start, end in book.blocks] == ["| h | m |\n| --- | --- |"]
    assert book.notes == ()


def test_a_chapter_that_is_missing_costs_itself() -> None:
    parts = {**PARTS, "OPS/book.opf": PACKAGE.replace('idref="none"', 'idref="x"')}
    book = read_book(parts)
    assert len(book.sections) == 2
    (note,) = book.notes
    assert note.startswith("the chapter OPS/gone.xhtml cannot be read: ")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"META-INF/encryption.xml": DRM.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")}, "copy protection"),
        ({"OPS/book.opf": "<package"}, "an EPUB book; found a damaged one"),
        ({"META-INF/container.xml": "<container/>"}, "an EPUB book; found a damaged one"),
        ({"META-INF/container.xml": "<!DOCTYPE c [<!ENTITY a 'x'>]><c>&b;</c>"}, "an EPUB book; found a damaged one"),
    ],
)
def test_a_book_that_cannot_be_read(parts: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_book({**PARTS, **parts})


def test_books_are_bounded_and_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragindex.corpus.readers.archives._MOST_UNPACKED", 2_000_000)
    with pytest.raises(DataError, match=r"unpacks to 2,00\d,\d+ bytes, which is more than 2,000,000"):
        read_book({**PARTS, "OPS/bomb": "0" * 2_000_000})
    with pytest.raises(DataError, match="an EPUB book; found another kind of file"):
        READERS[".epub"](b"no archive", Path("a.epub"), None)


def test_hidden_fonts_are_no_protection() -> None:
    assert read_book({**PARTS, "META-INF/encryption.xml": DRM.format("http://ns.adobe.com/pdf/enc#RC")}).title


def test_an_fb2_book() -> None:
    raw = """<?xml version="1.0" encoding="windows-1251"?><FictionBook xmlns="urn:f" xmlns:l="urn:l"><description>
<title-info><author><first-name>Лев</first-name><last-name>Толстой</last-name></author><book-title>Война и мир
</book-title><annotation><p>Роман.</p></annotation></title-info></description><body><title><p>Книга</p><p>первая</p></title>
<section><title><p>I</p></title><image l:href="#a"/><p>H<sub>2</sub>O</p><empty-line/><poem><stanza><v>Стих</v></stanza>
</poem><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td/></tr></table></section></body><body name="notes"><section>
<title><p>1</p></title><p>Сноска</p></section></body><binary id="a">AAAA</binary></FictionBook>"""
    book = READERS[".fb2"](raw.encode("cp1251"), Path("a.fb2"), None)
    assert (book.title, book.metadata) == ("Война и мир", {"author": "Лев Толстой"})
    assert book.text.split("\n\n") == [
        *("Роман.", "Книга первая", "I", "H2O", "Стих", "| a | b |\n| --- | --- |\n| 1 |  |", "1", "Сноска")
    ]
    assert [section.headings for section in book.sections] == [
        ("Книга первая",),
        ("Книга первая", "I"),
        ("Книга первая", "1"),
    ]
    with pytest.raises(DataError, match="^a.fb2: expected an FB2 book; found a damaged file or another kind of file"):
        READERS[".fb2"](b"<FictionBook>", Path("a.fb2"), None)
