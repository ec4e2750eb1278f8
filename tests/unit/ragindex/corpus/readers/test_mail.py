"""Readers of mail."""

from datetime import UTC, datetime
from email import _header_value_parser
from pathlib import Path
from types import SimpleNamespace

import oxmsg
import pytest

from ragindex.corpus.readers import READERS, FileContent
from ragindex.errors import DataError

HEAD = """From: Ines Keller <ines@example.org>
To: Omar <omar@example.org>
Subject: Tides
Date: Tue, 3 Feb 2026 10:00:00 +0100
"""
FIELDS = {
    "from": "Ines Keller <ines@example.org>",
    "to": "Omar <omar@example.org>",
    "date": "2026-02-03T10:00:00+01:00",
}
MIXED = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n"


def read(text: str | bytes, suffix: str = ".eml") -> FileContent:
    raw = text if isinstance(text, bytes) else text.encode()
    return READERS[suffix](raw, Path(f"mail{suffix}"), None)


def part(content: str, kind: str = "text/plain", *more: str) -> str:
    return "\n".join(["--B", f"Content-Type: {kind}", *more, "", content, ""])


@pytest.mark.parametrize(
    ("mail", "text"),
    [
        pytest.param("\nThe tide turns.\n", "The tide turns.", id="plain"),
        pytest.param("Content-Type: text/html\n\n<p>The tide <b>turns</b>.</p>\n", "The tide turns.", id="html"),
        pytest.param(
            MIXED.replace("mixed", "alternative")
            + part("The tide turns.")
            + part("<p>The tide turns.</p>", "text/html")
            + "--B--\n",
            "The tide turns.",
            id="body once",
        ),
        pytest.param(
            MIXED.replace("mixed", "alternative") + part(" ") + part("<p>Ebb</p>", "text/html") + "--B--\n",
            "Ebb",
            id="blank plain text",
        ),
        pytest.param(
            "Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nfl=F6de\n",
            "flöde",
            id="quoted-printable",
        ),
        pytest.param(
            "Content-Type: text/plain; charset=no-such\n\nflöde är flod\n", "flöde är flod", id="unknown charset"
        ),
        pytest.param(
            "Content-Type: text/plain; charset=us-ascii\n\nflöde är flod\n", "flöde är flod", id="false charset"
        ),
    ],
)
def test_body(mail: str, text: str) -> None:
    content = read(HEAD + mail)
    assert (content.title, content.text, dict(content.metadata), content.notes) == ("Tides", text, FIELDS, ())


@pytest.mark.parametrize(
    ("head", "title", "fields"),
    [
        ("Subject: =?utf-8?q?Fl=C3=B6de?=\n", "Flöde", {}),
        ("Subject: Flöde\n", "Flöde", {}),
        ("Subject: a\n folded one\n", "a folded one", {}),
        ("Date: yesterday\n", "", {"date": "yesterday"}),
        ("To: =?utf-8?q?Anna?= <a@x>\n", "", {"to": "Anna <a@x>"}),
        ("", "", {}),
    ],
)
def test_headers(head: str, title: str, fields: dict[str, str]) -> None:
    content = read(head + "\nThe tide turns.")
    assert (content.title, content.text) == (title, "The tide turns.")
    assert content.metadata == fields


def test_quoted_history_is_a_block() -> None:
    content = read(f"{HEAD}\nYes, at nine.\n\nOmar wrote:\n> When does it turn?\n>\n> > Ask Ines.\n\nInes\n")
    ((start, end),) = content.blocks
    assert content.text[start:end] == "> When does it turn?\n>\n> > Ask Ines."
    assert content.text.endswith("\n\nInes")


def test_attachments_are_documents() -> None:
    inside = "Subject: Inner\n\nThe inner mail.\n"
    mail = read(
        HEAD
        + MIXED
        + part("See both.")
        + part("# Ebb\n\nLow.", "text/markdown", 'Content-Disposition: attachment; filename="../ebb.md"')
        + part("Again.", "text/plain", 'Content-Disposition: attachment; filename="ebb.md"')
        + part(inside, "message/rfc822")
        + part("A second text.")
        + part(
            "aGk=", "image/png", "Content-Transfer-Encoding: base64", 'Content-Disposition: inline; filename="a.png"'
        )
        + part("{", "application/json", 'Content-Disposition: attachment; filename="a.ipynb"')
        + "--B--\n"
    )
    assert mail.text == "See both."
    assert {name: (content.title, content.text) for name, content in mail.inner} == {
        "ebb.md": ("Ebb", "# Ebb\n\nLow."),
        "2-ebb.md": ("", "Again."),
        "part-3.eml": ("Inner", "The inner mail."),
        "part-4.txt": ("", "A second text."),
    }
    damaged, unread = mail.notes
    assert damaged.startswith("the attachment a.ipynb is not read: expected a notebook (JSON), found ")
    assert unread == "attachments that no reader takes: a.png"


def test_mailbox() -> None:
    mails = [f"Message-ID: <{id}@x>\nSubject: {id}\n\nText of {id}.\n>From here on.\n" for id in "aba"]
    mailbox = read("".join(f"From x@y Tue Feb  3 10:00:00 2026\n{mail}\n" for mail in mails), ".mbox")
    assert mailbox.text == ""
    assert [(name, content.title, content.text) for name, content in mailbox.inner] == [
        ("a@x", "a", "Text of a.\nFrom here on."),
        ("b@x", "b", "Text of b.\nFrom here on."),
        ("3", "a", "Text of a.\nFrom here on."),
    ]
    with pytest.raises(DataError, match="expected a mailbox, which begins with a line 'From …'"):
        read("Subject: a\n\nText\n", ".mbox")


PAGE = part("<title>Tides</title><p>flöde", 'text/html; charset="{}"', "Content-Transfer-Encoding: 8bit")
FRAME = part("<p>An advertisement", "text/html")


@pytest.mark.parametrize(
    ("page", "notes"),
    [
        (PAGE.format("utf-8"), ()),
        (PAGE.format("utf-8") + FRAME, ("1 frame of the page: not read",)),
        (PAGE.format("no-such"), ()),
        (part('<meta charset="utf-8"><title>Tides</title><p>flöde', "text/html"), ()),
        (part("x", "image/png") + PAGE.format("utf-8"), ()),
    ],
)
def test_a_page_that_was_saved_with_its_pictures(page: str, notes: tuple[str, ...]) -> None:
    content = read(MIXED.replace("mixed", "related") + page + "--B--\n", ".mht")
    assert (content.title, content.text, content.notes) == ("Tides", "flöde", notes)


def test_a_saved_page_without_html() -> None:
    with pytest.raises(
        DataError, match=r"expected a page that was saved with its pictures \(.mht\); found no page in it"
    ):
        read("Subject: a\n\nText\n", ".mht")


def test_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    message = SimpleNamespace(
        sender='"Keller, Ines" </o=Firm/cn=x>',
        recipients=[SimpleNamespace(name="Omar\0", email_address="omar@example.org")],
        sent_date=datetime(2026, 2, 3, 9, tzinfo=UTC),
        subject="Tides\0",
        body="",
        html_body="<p>The tide <b>turns</b>.</p>",
        attachments=[
            SimpleNamespace(file_name="ebb.txt", file_bytes=b"Low."),
            SimpleNamespace(file_name=None, file_bytes=None),
        ],
    )
    monkeypatch.setattr(oxmsg.Message, "load", lambda raw: message)
    content = read(b"", ".msg")
    assert (content.title, content.text) == ("Tides", "The tide turns.")
    assert content.metadata == {"from": '"Keller, Ines"', "to": "omar@example.org", "date": "2026-02-03T09:00:00+00:00"}
    assert [(name, document.text) for name, document in content.inner] == [("ebb.txt", "Low.")]
    assert content.notes == ("attachments that no reader takes: attachment-2",)


@pytest.mark.parametrize("raw", [b"", b"no mail", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2000)])
def test_a_damaged_file_of_outlook(raw: bytes) -> None:
    with pytest.raises(DataError, match=r"expected a mail that Outlook saved \(\.msg\); found a damaged one"):
        read(raw, ".msg")


def test_long_header_is_cut_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser of the standard library takes a time that grows with the square of a header's length."""
    lengths = list[int]()

    def parse(value: str) -> object:
        lengths.append(len(value))
        return parse_addresses(value)

    parse_addresses = _header_value_parser.get_address_list
    monkeypatch.setattr(_header_value_parser, "get_address_list", parse)
    content = read(f"To: {'Ann <ann@example.org>, ' * 4_000}\n\nHello")
    assert content.text == "Hello"
    assert str(content.metadata["to"]).startswith("Ann <ann@example.org>, Ann")
    assert 500 < max(lengths) <= 10_000
