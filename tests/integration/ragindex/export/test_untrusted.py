"""Retrievers that someone else made or changed: paths, links, sizes, hashes, and what they would contact."""

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_server import KEY, OpenAIServer

import ragindex
from examples import examples
from ragindex.errors import DamagedError, DataError, RagindexError, UsageError
from ragindex.export.archive import unpack_archive
from ragindex.export.retriever_file import (
    LARGEST_RETRIEVER_FILE,
    ExportedRetriever,
    RetrieverLimits,
    parse_retriever_file,
    write_retriever_file,
)
from ragindex.stores.packed import _HEADER, _read_packed
from ragindex.testing import DOCUMENTS

Members = list[tuple[tarfile.TarInfo, bytes]]
VALID = (
    b'{"schema": {"stored": [], "keywords": [], "numbers": [], "text": [], "language": "english", "dimensions": null}, '
    b'"version": "1", "identity": "x"}'
)
QUESTION = "Which emperor finished the Pantheon in Rome?"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packed retriever of three files."""
    folder = tmp_path_factory.mktemp("packed")
    with ragindex.open(folder / "index", encoder="lsa", create=True) as index:
        index.add(DOCUMENTS)
        index.build("bm25")
        index.export("bm25", folder / "r", pack=True)
    return folder / "r.ragindex"


def members(path: Path) -> Members:
    with tarfile.open(path) as archive:
        return [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]


def pack(path: Path, archived: Members) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for header, content in archived:
            archive.addfile(header, io.BytesIO(content))
    return path


def describe(archived: Members, change: Callable[[dict[str, Any]], None]) -> Members:
    """Change the values of retriever.toml, with a right hash."""
    exported = parse_retriever_file(archived[0][1], Path("r"))
    values = exported.model_dump(mode="json", exclude_none=True)
    change(values)
    content = write_retriever_file(ExportedRetriever.model_validate(values))
    header = tarfile.TarInfo("retriever.toml")
    header.size = len(content)
    return [(header, content), *archived[1:]]


def header(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def renamed(name: str) -> Callable[[Members], Members]:
    """Name the first file otherwise, in the list and in the archive."""

    def change(archived: Members) -> Members:
        archived = describe(archived, lambda values: values["files"][0].update(path=name))
        archived[1][0].name = name
        return archived

    return change


def relinked(kind: bytes) -> Callable[[Members], Members]:
    return lambda archived: [archived[0], (header(archived[1][0].name, kind, "/etc/passwd"), b""), *archived[2:]]


def resized(count: int) -> Callable[[Members], Members]:
    return lambda archived: describe(archived, lambda values: values["files"][0].update(bytes=count))


ATTACKS: dict[str, tuple[Callable[[Members], Members], str]] = {
    "parent": (renamed("index/../../evil"), "with plain names"),
    "absolute": (renamed("/tmp/evil"), "with plain names"),
    "outside": (renamed("evil/file"), "with plain names"),
    "backslash": (renamed("index\\..\\evil"), "with plain names"),
    "drive": (renamed("index/C:evil"), "with plain names"),
    "device": (renamed("index/NUL"), "with plain names"),
    "hidden": (renamed("index/.evil"), "with plain names"),
    "newline": (renamed("index/a\nb"), "with plain names"),
    "symlink": (relinked(tarfile.SYMTYPE), "a link or a special file"),
    "hardlink": (relinked(tarfile.LNKTYPE), "a link or a special file"),
    "pipe": (relinked(tarfile.FIFOTYPE), "a link or a special file"),
    "character device": (relinked(tarfile.CHRTYPE), "a link or a special file"),
    "sparse": (relinked(tarfile.GNUTYPE_SPARSE), "a link or a special file"),
    "folder": (relinked(tarfile.DIRTYPE), "a link or a special file"),
    "twice in the archive": (
        lambda archived: [archived[0], archived[1], archived[1], *archived[2:]],
        "the file index/",
    ),
    "twice in the list": (
        lambda archived: describe(archived, lambda values: values["files"].append(values["files"][0])),
        "each file once",
    ),
    "twice but for capitals": (
        lambda archived: describe(
            archived, lambda values: values["files"].append({**values["files"][0], "path": "index/WORKSPACE.json"})
        ),
        "each file once",
    ),
    "extra at the end": (
        lambda archived: [*archived, (header("index/extra"), b"")],
        "the end of the archive",
    ),
    "missing": (lambda archived: archived[:-1], "in a file that ragindex export --pack wrote"),
    "order": (lambda archived: [archived[0], *reversed(archived[1:])], "the file index/"),
    "too many bytes": (resized(1 << 50), "files of at most"),
    "another length": (resized(7), "with 7 bytes"),
    "no description": (lambda archived: archived[1:], "the file retriever.toml"),
    "not packed": (
        lambda archived: describe(archived, lambda values: values.update(packed=False, files=[])),
        "a packed retriever",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_malformed_archive_writes_nothing(attack: str, packed: Path, tmp_path: Path) -> None:
    change, message = ATTACKS[attack]
    changed = pack(tmp_path / "changed.ragindex", change(members(packed)))
    with pytest.raises(DataError, match=re.escape(message)):
        ragindex.load(changed, into=tmp_path / "into")
    assert {path.name for path in tmp_path.iterdir()} <= {"changed.ragindex", "into.lock"}


def test_a_changed_file_is_found_before_it_is_opened(packed: Path, tmp_path: Path) -> None:
    archived = members(packed)
    for number, (name, content) in enumerate(archived[1:], start=1):
        middle = len(content) // 2
        wrong = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        changed = pack(tmp_path / "changed.ragindex", [*archived[:number], (name, wrong), *archived[number + 1 :]])
        with pytest.raises(DamagedError, match=re.escape(name.name)):
            ragindex.load(changed, into=tmp_path / "into")
        assert not (tmp_path / "into").exists()


@settings(max_examples=examples(60))
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7), cut=st.booleans())
def test_any_changed_bit_and_any_cut_is_refused_or_harmless(
    packed: Path, tmp_path: Path, place: int, bit: int, cut: bool
) -> None:
    """Bits of a header that say nothing of name, kind and size (owner, time) may differ; contents may not."""
    content = bytearray(packed.read_bytes())
    at = place % len(content)
    if cut:
        del content[at:]
    else:
        content[at] ^= 1 << bit
    path = tmp_path / "changed.ragindex"
    path.write_bytes(content)
    target = tmp_path / f"into-{len(list(tmp_path.iterdir()))}"
    try:
        ragindex.load(path, into=target).close()
    except RagindexError:
        assert not target.exists()
    else:
        assert {file.path for file in parse_retriever_file(members(packed)[0][1], path).files} == {
            str(entry.relative_to(target)) for entry in (target / "index").rglob("*") if entry.is_file()
        }


def test_limits_can_be_set(packed: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"at most 2 files \(max_files\)"):
        ragindex.load(packed, into=tmp_path / "into", max_files=2)
    with pytest.raises(DataError, match=r"at most 100 bytes together \(max_bytes\)"):
        ragindex.load(packed, into=tmp_path / "into", max_bytes=100)


FILES = {
    "large": (b"#" * (LARGEST_RETRIEVER_FILE + 1), "at most"),
    "not TOML": (b"= 1", "TOML"),
    "not text": (b"\xff\xfe", "TOML"),
    "deep": (b"a = " + b"[" * 100_000, "TOML"),
    "unknown key": (b"format = 1\nevil = 1", "the keys and values that ragindex export writes"),
    "text as number": (b'format = "1"', "the keys and values"),
    "empty": (b"", "the keys and values"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_malformed_description_is_refused(kind: str, tmp_path: Path) -> None:
    content, message = FILES[kind]
    (tmp_path / "retriever.toml").write_bytes(content)
    with pytest.raises(DataError, match=message):
        ragindex.load(tmp_path)


def unpacked(packed: Path, tmp_path: Path) -> Path:
    ragindex.load(packed, into=tmp_path / "there").close()
    return tmp_path / "there"


def test_a_folder_is_checked_like_an_archive(packed: Path, tmp_path: Path) -> None:
    folder = unpacked(packed, tmp_path)
    file = folder / "index" / "workspace.json"
    content = file.read_bytes()

    def refuse(message: str) -> None:
        with pytest.raises(DamagedError, match=message):
            ragindex.load(folder)

    (folder / "index" / "extra").write_text("")
    refuse("index/extra does not belong to the retriever")
    (folder / "index" / "extra").unlink()
    file.write_bytes(content + b" ")
    refuse("another length")
    file.write_bytes(content[:-2] + b" \n")
    refuse("index/workspace.json is not as it was exported")
    (tmp_path / "same.json").write_bytes(content)
    file.unlink()
    refuse("index/workspace.json is missing")
    file.symlink_to(tmp_path / "same.json")
    refuse("index/workspace.json cannot be read")
    file.unlink()
    os.mkfifo(file)
    refuse("index/workspace.json cannot be read")
    file.unlink()
    file.write_bytes(content)
    (folder / "index").rename(tmp_path / "index")
    (folder / "index").symlink_to(tmp_path / "index")
    refuse("index does not belong to the retriever|is missing")
    (folder / "index").unlink()
    (tmp_path / "index").rename(folder / "index")
    with ragindex.load(folder) as retriever:
        assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
    (folder / "retriever.toml").rename(tmp_path / "r.toml")
    (folder / "retriever.toml").symlink_to(tmp_path / "r.toml")
    with pytest.raises(DataError, match="a readable file retriever.toml"):
        ragindex.load(folder)


def test_a_changed_description_is_refused(packed: Path, tmp_path: Path) -> None:
    file = unpacked(packed, tmp_path) / "retriever.toml"
    file.write_text(file.read_text().replace("documents = 24", "documents = 25"))
    with pytest.raises(DataError, match="a changed one; export again"):
        ragindex.load(file.parent)


# ---------------------------------------------------------------- hosts and folders


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        for name in ("OPENAI", "EMBEDDING"):
            monkeypatch.setenv(f"{name}_BASE_URL", running.url)
            monkeypatch.setenv(f"{name}_API_KEY", KEY)
        yield running


def test_no_encoder_is_asked_before_its_host_is_allowed(server: OpenAIServer, tmp_path: Path) -> None:
    with ragindex.open(tmp_path / "index", encoder="openai:small", create=True) as index:
        index.add(DOCUMENTS)
        index.build("dense", "bm25")
        expected = index.retriever("dense").search(QUESTION).hits
        referred, packed = (index.export("dense", tmp_path / f"r{pack}", pack=pack).path for pack in (False, True))
        plain = [index.export("bm25", tmp_path / f"plain{pack}", pack=pack).path for pack in (False, True)]
    server.requests.clear()
    host = re.sub(r"http://(.*)/v1", r"\1", server.url)
    for allowed in ([], ["api.openai.com"], ["127.0.0.1:1"]):
        for path, into in ((referred, {}), (packed, {"into": tmp_path / "i"})):
            with pytest.raises(
                UsageError, match=rf"requests to {host} for openai:small, with the key in EMBEDDING_API_KEY"
            ):
                ragindex.load(path, allow_hosts=allowed, **into)
    for path in plain:
        with ragindex.load(path) as retriever:  # its parts need no encoder
            assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
    assert server.requests == []
    for path in (referred, packed):
        for allowed in ([host], ["127.0.0.1"]):
            with ragindex.load(path, allow_hosts=allowed) as retriever:
                assert retriever.search(QUESTION).hits == expected
    assert len(server.requests) == 4


def test_no_llm_is_asked_before_its_host_is_allowed(server: OpenAIServer, tmp_path: Path) -> None:
    with ragindex.open(
        tmp_path / "index", encoder="lsa", llm=f"openai(model=m, base_url={json.dumps(server.url)})", create=True
    ) as index:
        index.add(DOCUMENTS)
        index.build("ircot(base=bm25)", "bm25")
        index.export("ircot(base=bm25)", tmp_path / "agent")
        index.export("bm25", tmp_path / "plain")
    server.requests.clear()
    server.write = lambda body: '{"thought": "So the answer is: Hadrian."}'
    with pytest.raises(UsageError, match=r"for openai\(.*with the key in OPENAI_API_KEY"):
        ragindex.load(tmp_path / "agent")
    with ragindex.load(tmp_path / "plain") as retriever:
        assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
    assert server.requests == []
    with ragindex.load(tmp_path / "agent", allow_hosts=["127.0.0.1"]) as retriever:
        retriever.search(QUESTION)
    assert server.requests


def test_models_are_neither_read_nor_downloaded_without_consent(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    (tmp_path / "model").mkdir()
    file = unpacked(packed, tmp_path) / "retriever.toml"

    def named(model: str) -> None:
        encoder = {"label": "x", "name": "sentence-transformers", "parameters": json.dumps({"model": model})}
        archived = [(header("retriever.toml"), file.read_bytes())]
        ((_, content),) = describe(archived, lambda values: values.update(encoder=encoder))
        file.write_bytes(content)

    for model, message in (
        ("/etc", "names the path '/etc'"),
        ("~/model", "names the path '~/model'"),
        ("../model", "names the path '../model'"),
        ("\\\\host\\share", "names the path"),
        ("C:\\model", "names the path"),
        ("model", "names the path 'model'"),
        ("some/unknown", "requests to huggingface.co for sentence-transformers:some/unknown"),
    ):
        named(model)
        with pytest.raises(UsageError, match=re.escape(message)):
            ragindex.load(file.parent)


# ---------------------------------------------------------------- at the same time, and killed


def test_several_loads_at_once_unpack_once(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGINDEX_CACHE", str(tmp_path))

    def load(number: int) -> str:
        with ragindex.load(packed) as retriever:
            return retriever.search(QUESTION, k=1)[0].id

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(load, range(6))) == ["d22#0"] * 6
    assert len([path for path in (tmp_path / "retrievers").iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("dies_at", range(5))
def test_a_crash_while_unpacking_leaves_nothing_that_opens(
    dies_at: int, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragindex._util import durable_files

    class Died(BaseException):
        pass

    calls = 0

    def fsync(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls > dies_at:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(durable_files, "fsync", fsync)
        patched.setattr(
            "ragindex.export.archive.shutil.rmtree", lambda *given, **how: None
        )  # a dead process tidies nothing
        with pytest.raises(Died):
            unpack_archive(packed, tmp_path / "into", RetrieverLimits())
    left = tmp_path / "into.partial"
    assert left.exists() or (tmp_path / "into").exists()
    if left.exists() and not (left / "retriever.toml").exists():
        with pytest.raises(DataError):
            ragindex.load(left)
    with ragindex.load(packed, into=tmp_path / "into") as retriever:
        assert retriever.search(QUESTION, k=1)[0].id == "d22#0"
    assert not left.exists()


MANY = (1 << 31) - 2
GROWING = {
    "nulls": pa.nulls(MANY),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), pa.array(["a"])),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int8()), pa.array(["a" * 10_000])),
    "views": pa.array(["a" * 10_000] * 2, pa.string_view()),
    "lists of views": pa.ListViewArray.from_arrays(
        pa.array([0] * 100, pa.int32()), pa.array([1000] * 100, pa.int32()), pa.array(["a"] * 1000)
    ),
}
"""Columns of rows that have no bytes of their own."""
HEADERS = {
    "deep header": b"[" * 100_000,
    "null header": b"null",
    "list as schema": b'{"schema": []}',
    "number as fields": b'{"schema": {"stored": 1}}',
    "header cut off": b"{",
    "infinite version": VALID.replace(b'"1"', b"1e999"),
}
COLUMNS = {
    "missing": pa.table({"other": ["a"]}),
    "number as id": pa.table({"id": [1]}),
    "unknown": pa.table({"id": ["a"], "evil": ["b"]}),
    "text as metadata": pa.table({"id": ["a"], "meta.team": ["b"]}),
}
LONG = pa.table({"id": ["a" * (8 << 20)]})
VECTORS = pa.table({"id": ["a"], "vector": pa.array([[1.0]], pa.list_(pa.float32(), 1))})
COLLECTIONS: dict[str, tuple[pa.Table, bytes, dict[str, str], str]] = {
    **{kind: (pa.table({"id": ["a"]}), header, {}, "is not a packed collection") for kind, header in HEADERS.items()},
    **{
        kind: (pa.table({"id": column}), VALID, {}, r"is not a packed collection: its column 'id' has the type")
        for kind, column in GROWING.items()
    },
    **{kind: (table, VALID, {}, "its columns are not those of its schema") for kind, table in COLUMNS.items()},
    **{kind: (LONG, VALID, {"compression": kind}, "it is compressed") for kind in ("zstd", "lz4")},
    "vectors longer than the file": (VECTORS, VALID.replace(b"null", b"1000000000000"), {}, "is not a packed collec"),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_a_crafted_collection_is_damage(tmp_path: Path, kind: str) -> None:
    table, header, options, message = COLLECTIONS[kind]
    path = tmp_path / "documents.arrow"
    schema = table.schema.with_metadata({_HEADER: header})
    with pa.ipc.new_file(str(path), schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table.cast(schema))
    assert path.stat().st_size < 300_000
    with pytest.raises(DamagedError, match=message):
        _read_packed(path, "documents").image()
