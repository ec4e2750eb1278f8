"""Readers of mail: messages (RFC 5322 with MIME), mailboxes of them (RFC 4155), and messages that Outlook saved.

The body is read once, as plain text if there is one. Attachments are documents of their own. Pages that browsers save
as messages are read, too.
"""

import codecs
import email
import email.policy
import mimetypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from email.header import decode_header, make_header
from email.message import EmailMessage, MIMEPart
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import cast

import regex

from ragindex._util.text import first_names, many
from ragindex.corpus.readers.archives import FAULTS, describe_fault
from ragindex.corpus.readers.content import ContentBuilder, FileContent, clean_text
from ragindex.corpus.readers.html_file import read_html
from ragindex.corpus.readers.text_encodings import decode_text
from ragindex.errors import DataError
from ragindex.types import MetadataValue

ReadAttachment = Callable[[bytes, Path], FileContent | None]
"""Returns the content of a file; None if no reader takes files of its suffix."""
_SEPARATOR = regex.compile(rb"^From [^\n]*+\n", regex.MULTILINE)
_ESCAPED_FROM = regex.compile(rb"^>(>*+From )", regex.MULTILINE)
_QUOTED = regex.compile(r"^[ \t]*+(>[^\n]*+(?:\n[ \t]*+>[^\n]*+)*+)", regex.MULTILINE)
_EXCHANGE_NAME = regex.compile(r" </o=[^>]*+>", regex.IGNORECASE)  # where an address should stand
_SURROGATE = regex.compile(r"\p{Cs}")
_LONGEST_FIELD, _LONGEST_HEADER = 500, 10_000  # characters of a field that are kept, and of a header that are parsed


class _Policy(email.policy.EmailPolicy):
    """Cuts off long headers: the time that parsing one takes grows with the square of its length."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


_POLICY = cast("email.policy.Policy[EmailMessage]", _Policy())


@dataclass(frozen=True, slots=True)
class _Mail:
    """A message. `fields` are from, to, cc and date as far as there are any; `attachments` are names and bytes."""

    id: str
    subject: str
    fields: dict[str, MetadataValue]
    text: str
    is_html: bool
    attachments: tuple[tuple[str, bytes], ...]


def read_mail(raw: bytes, path: Path, encoding: str | None, read_attachment: ReadAttachment) -> FileContent:
    """Read a message: its subject is the title, and from, to, cc and date are metadata. Raises DataError."""
    return _build(_parse(raw, path, encoding), path, read_attachment)


def read_mailbox(raw: bytes, path: Path, encoding: str | None, read_attachment: ReadAttachment) -> FileContent:
    """Read a mailbox (.mbox), whose messages and their attachments are documents of their own. Raises DataError."""
    starts = [
        match
        for match in _SEPARATOR.finditer(raw)
        if match.start() == 0 or raw[max(0, match.start() - 4) : match.start()].endswith((b"\n\n", b"\n\r\n"))
    ]
    if not starts or raw[: starts[0].start()].strip():
        raise DataError("a mailbox, which begins with a line 'From …'", "another kind of file", path=path)
    ends = [match.start() for match in starts[1:]] + [len(raw)]
    inner, notes = dict[str, FileContent](), list[str]()
    for number, (match, end) in enumerate(zip(starts, ends, strict=True), start=1):
        try:
            mail = _parse(_ESCAPED_FROM.sub(rb"\1", raw[match.end() : end]), path, encoding)
        except DataError as error:
            notes.append(f"mail {number} is not read: expected {error.expected}, found {error.found}")
            continue
        name = str(number) if not mail.id or mail.id in inner else mail.id
        content = _build(mail, path, read_attachment)
        notes += [f"mail {name}: {note}" for note in content.notes]
        inner |= {name: content, **{f"{name}/{attached}": attachment for attached, attachment in content.inner}}
    return FileContent("", "", notes=tuple(notes), inner=tuple(inner.items()))


def read_outlook(raw: bytes, path: Path, encoding: str | None, read_attachment: ReadAttachment) -> FileContent:
    """Read a message that Outlook saved (.msg) as `read_mail` does. Raises DataError."""
    import oxmsg  # here, since few folders have such files

    codecs.register(_find_windows_codec)
    try:
        message = oxmsg.Message.load(raw)
        fields = {
            "from": _EXCHANGE_NAME.sub("", str(make_header(decode_header(message.sender or "")))),
            "to": ", ".join(dict.fromkeys(person.email_address or person.name for person in message.recipients)),
            "date": "" if message.sent_date is None else message.sent_date.isoformat(),
        }
        text, html = message.body or "", message.html_body or ""
        attachments = [(file.file_name or "", file.file_bytes or b"") for file in message.attachments]
        subject = message.subject.strip("\0")
    except FAULTS as error:
        damage = f"a damaged one ({describe_fault(error)})"
        raise DataError("a mail that Outlook saved (.msg)", damage, path=path) from error
    finally:
        codecs.unregister(_find_windows_codec)
    is_html = not text.strip(" \0\r\n\t")
    mail = _Mail("", subject, _shorten(fields), html if is_html else text, is_html, tuple(attachments))
    return _build(mail, path, read_attachment)


def read_saved_page(raw: bytes, path: Path, encoding: str | None) -> FileContent:
    """Read a page of HTML that was saved with its pictures as one message (.mht). Raises DataError."""
    message = email.message_from_bytes(raw, policy=_POLICY)
    pages = [part for part in _list_parts(message) if part.get_content_subtype() in ("html", "xhtml+xml")]
    if not pages:
        raise DataError("a page that was saved with its pictures (.mht)", "no page in it", path=path)
    if pages[0].get_content_charset() is None:
        content = read_html(_get_bytes(pages[0]), path, encoding)
    else:
        content = read_html(_decode_part(pages[0], path, encoding).encode("utf-8", "replace"), path, "utf-8")
    frames = [f"{many(len(pages) - 1, 'frame')} of the page: not read"] if len(pages) > 1 else []
    return replace(content, notes=(*content.notes, *frames))


def _build(mail: _Mail, path: Path, read_attachment: ReadAttachment) -> FileContent:
    inner, notes, unread = dict[str, FileContent](), list[str](), list[str]()
    for number, (file_name, raw) in enumerate(mail.attachments, start=1):
        name = Path(file_name.replace("\\", "/")).name or f"attachment-{number}"
        name = f"{number}-{name}" if name in inner else name
        try:
            content = read_attachment(raw, Path(name))
        except DataError as error:
            notes.append(f"the attachment {name} is not read: expected {error.expected}, found {error.found}")
            continue
        if content is None:
            unread.append(name)
            continue
        notes += [f"attachment {name}: {note}" for note in content.notes]
        inner |= {name: content} if content.text.strip() else {}
        inner |= {f"{name}/{below}": attachment for below, attachment in content.inner}
    notes += [f"attachments that no reader takes: {first_names(unread)}"] if unread else []
    if mail.is_html:
        page = read_html(mail.text.encode("utf-8", "replace"), path, "utf-8")
        metadata, notes = {**page.metadata, **mail.fields}, [*notes, *page.notes]
        return replace(page, title=mail.subject, metadata=metadata, notes=tuple(notes), inner=tuple(inner.items()))
    builder = ContentBuilder()
    text = clean_text(mail.text.replace("\0", "")).strip()
    builder.add_paragraph(text)
    for quoted in _QUOTED.finditer(text):
        builder.place_block(quoted.start(1), quoted.start(1) + len(quoted[1].rstrip()))
    return builder.build(mail.subject, mail.fields, notes, tuple(inner.items()))


def _parse(raw: bytes, path: Path, encoding: str | None) -> _Mail:
    message = email.message_from_bytes(raw, policy=_POLICY)
    fields = {name: _read_field(message, name, path) for name in ("from", "to", "cc", "date")}
    with suppress(*FAULTS):  # one that cannot be parsed stays as it is
        fields["date"] = parsedate_to_datetime(fields["date"]).isoformat()
    texts = [
        part
        for part in _list_parts(message)
        if part.get_content_type() in ("text/plain", "text/html")
        and part.get_content_disposition() != "attachment"
        and not part.get_filename()
    ]
    bodies = {kind: [part for part in texts if part.get_content_subtype() == kind][:1] for kind in ("plain", "html")}
    text, is_html = "", False
    for kind, parts in bodies.items():
        if not text.strip() and parts:
            text, is_html = _decode_part(parts[0], path, encoding), kind == "html"
    others = [part for part in _list_parts(message) if part not in [*bodies["plain"], *bodies["html"]]]
    attachments = tuple((_name_part(part, number), _get_bytes(part)) for number, part in enumerate(others, start=1))
    id = _read_field(message, "message-id", path).strip("<> ")
    return _Mail(id, _read_field(message, "subject", path), _shorten(fields), text, is_html, attachments)


def _list_parts(message: MIMEPart) -> Iterator[MIMEPart]:
    """Yield the parts of a message that hold something, and messages inside of it whole."""
    if message.get_content_maintype() == "multipart" and message.is_multipart():
        for part in message.iter_parts():
            yield from _list_parts(part)
    else:
        yield message


def _decode_part(part: MIMEPart, path: Path, encoding: str | None) -> str:
    raw = _get_bytes(part)
    try:
        return raw.decode(part.get_content_charset() or "utf-8")
    except (LookupError, UnicodeDecodeError):
        return decode_text(raw, path, encoding)[0]


def _get_bytes(part: MIMEPart) -> bytes:
    if part.get_content_maintype() == "message" and part.is_multipart():
        return b"\n\n".join(inside.as_bytes(policy=email.policy.compat32) for inside in part.iter_parts())
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _name_part(part: MIMEPart, number: int) -> str:
    """Return the file name of a part, with the suffix of its kind if it has none."""
    kind = part.get_content_type()
    name = part.get_filename() or f"part-{number}"
    if kind == "message/rfc822":
        return name if name.lower().endswith(".eml") else f"{name}.eml"
    return name if Path(name).suffix else name + (mimetypes.guess_extension(kind, strict=False) or "")


def _read_field(message: MIMEPart, name: str, path: Path) -> str:
    try:
        value = str(message[name] or "")
    except FAULTS:  # a malformed one
        value = next((str(field) for key, field in message.raw_items() if key.lower() == name), "")
    if _SURROGATE.search(value):  # bytes that should have been encoded
        value = decode_text(value.encode("utf-8", "surrogateescape"), path)[0]
    return " ".join(value.split())


def _shorten(fields: dict[str, str]) -> dict[str, MetadataValue]:
    cleaned = {name: value.replace("\0", "").strip() for name, value in fields.items()}
    return {name: value[:_LONGEST_FIELD] for name, value in cleaned.items() if value}


def _find_windows_codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec of a code page that Outlook calls windows-950 and Python cp950."""
    prefix, _, number = name.replace("-", "_").partition("_")
    return codecs.lookup(f"cp{number}") if prefix == "windows" and number.isdecimal() else None
