"""Archives of XML, as books, Office files and OpenDocument files are."""

import io
import struct
import zipfile
from collections.abc import Mapping
from pathlib import PurePath

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def pack(parts: Mapping[str, str | bytes]) -> bytes:
    """Return an archive with these parts by name, the same at any time: ids of tests are made of its bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return written.getvalue()


def write_relations(kinds: Mapping[str, str]) -> str:
    """Return relationships to parts from the kind of each, whose ids are the names of their files without suffix."""
    links = "".join(
        f'<Relationship Id="{PurePath(name).stem}" Type="{OFFICE}/relationships/{kind}" Target="{name}"/>'
        for name, kind in kinds.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'


def pack_workbook(
    sheets: Mapping[str, str], styles: str = "", hidden: str = "", parts: Mapping[str, str] | None = None
) -> bytes:
    """Return an .xlsx file of sheets, which are XML by name, with styles and other parts."""
    paths = {f"worksheets/{name}.xml": "worksheet" for name in sheets}
    states = {hidden: "hidden"}
    entries = "".join(
        f'<sheet name="{name}" sheetId="{number}" r:id="{name}" state="{states.get(name, "visible")}"/>'
        for number, name in enumerate(sheets, start=1)
    )
    names = f'xmlns="{SHEET}" xmlns:r="{OFFICE}/relationships"'
    own = {
        "_rels/.rels": write_relations({"xl/workbook.xml": "officeDocument"}),
        "xl/workbook.xml": f"<workbook {names}><sheets>{entries}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": write_relations(paths),
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>',
        **{
            f"xl/worksheets/{name}.xml": f'<worksheet xmlns="{SHEET}">{xml}</worksheet>' for name, xml in sheets.items()
        },
        **(parts or {}),
    }
    return pack(own)


def pack_binary_workbook(sheet: str) -> bytes:
    """Return an .xlsb file that names a sheet, and has no part with this sheet."""
    strings = (struct.pack("<I", len(text)) + text.encode("utf-16-le") for text in ("rId1", sheet))
    record = struct.pack("<II", 0, 1) + b"".join(strings)
    workbook = b"\x9c\x01%c%s\x90\x01\x00" % (len(record), record)  # a sheet, and the end of all sheets
    return pack({"xl/workbook.bin": workbook, "xl/_rels/workbook.bin.rels": "<Relationships/>"})
