"""Token vectors: compression and MaxSim by hand and against plain loops; the part over several syncs and failures."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from letters import Letters, LettersEncoder
from minilm import model_folder
from openai_server import KEY, OpenAIServer

from examples import examples
from ragindex import interfaces, testing
from ragindex.errors import DamagedError, StoreError, UsageError
from ragindex.index import fit_watch
from ragindex.index.index import Index
from ragindex.index.notes import format_part_notes
from ragindex.interfaces import Collection, Floats
from ragindex.interfaces.llm import LLMSettings
from ragindex.parts.records import Doubles
from ragindex.parts.vectors import token_vectors
from ragindex.parts.vectors.quantized_tokens import RecordRows, average, compress, maxsim, quantize_question, restore
from ragindex.parts.vectors.token_vectors import TokenIndex, TokenVectors
from ragindex.plugins import registry
from ragindex.types import Document, Query

PART = TokenVectors()
NUMBERS = st.floats(-2, 2, width=32, allow_subnormal=False).map(lambda x: 0.0 if abs(x) < 1e-6 else x)


def vectors(rows: int, dimensions: int = 3) -> st.SearchStrategy[Floats]:
    return arrays(np.float32, (rows, dimensions), elements=NUMBERS)


def naive(record: Floats, question: Floats) -> float:
    """MaxSim, token by token."""
    total = 0.0
    for vector in question.astype(np.float64):
        total += max(float(vector @ other) for other in record.astype(np.float64))
    return total


def scored(records: Sequence[Floats], questions: Sequence[Floats]) -> Doubles:
    """All records in one file, one after the other."""
    counts = np.array([len(record) for record in records], np.int64)
    places = RecordRows(np.zeros(len(records), np.int64), np.cumsum(counts) - counts, counts)
    return maxsim([compress(np.concatenate(records))], places, [quantize_question(question) for question in questions])


# ---------------------------------------------------------------- MaxSim


def test_maxsim_by_hand() -> None:
    first = np.array([[1, 0], [0, 1]], np.float32)
    other = np.array([[0, -1], [0.5, 0]], np.float32)
    question = np.array([[0.6, 0.8], [-1, 0]], np.float32)
    scores = scored([first, other], [question, question[:1]])
    # one: max(.6, .8) + max(-1, 0); other: max(-.8, .3) + max(0, -.5)
    np.testing.assert_allclose(scores, [[0.8, 0.8], [0.3, 0.3]], atol=1e-5)


def test_what_has_no_tokens_is_not_found() -> None:
    something, nothing = np.ones((2, 3), np.float32), np.empty((0, 3), np.float32)
    scores = scored([something, nothing, something], [nothing, something])
    assert scores[:, 0].tolist() == [-np.inf] * 3
    assert scores[:, 1].tolist() == [scores[0, 1], -np.inf, scores[0, 1]]
    assert scores[0, 1] == pytest.approx(6, abs=1e-4)
    assert scored([something], []).shape == (1, 0)


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 4).flatmap(vectors), min_size=1, max_size=6),
    st.lists(st.integers(1, 4).flatmap(vectors), min_size=1, max_size=3),
)
def test_maxsim_against_plain_loops(records: list[Floats], questions: list[Floats]) -> None:
    expected = [
        [naive(restore(compress(record)), question) if len(record) else -np.inf for question in questions]
        for record in records
    ]
    np.testing.assert_allclose(scored(records, questions), expected, atol=2e-4)


@settings(max_examples=examples(12))
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_a_score_depends_on_nothing_but_question_and_record(seed: int, dimensions: int) -> None:
    """To the last bit: alone or among others, in any order and file, asked together or alone."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 300, 60)
    records = [_units(rng, length, dimensions) for length in lengths]
    questions = [_units(rng, length, dimensions) for length in (3, 1, 9)]
    together = scored(records, questions)
    shuffled = rng.permutation(60)
    np.testing.assert_array_equal(scored([records[n] for n in shuffled], questions), together[shuffled])
    for number in (0, 17, 59):
        for column, question in enumerate(questions):
            assert scored([records[number]], [question])[0, 0] == together[number, column]
    files = [compress(records[n]) for n in range(60)]
    apart = RecordRows(np.arange(60), np.zeros(60, np.int64), lengths)
    np.testing.assert_array_equal(
        maxsim(files, apart, [quantize_question(embedded) for embedded in questions]), together
    )


def _units(rng: np.random.Generator, rows: int, dimensions: int) -> Floats:
    drawn = rng.standard_normal((rows, dimensions))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


# ---------------------------------------------------------------- compression


@settings(max_examples=examples(100))
@given(st.integers(0, 5).flatmap(lambda rows: vectors(rows, 7)))
def test_how_far_numbers_are_off(given_vectors: Floats) -> None:
    rows = compress(given_vectors)
    assert (rows.dtype, rows.shape) == (np.uint8, (len(given_vectors), 11))
    largest = np.abs(given_vectors).max(axis=1, keepdims=True, initial=0)
    assert (np.abs(restore(rows) - given_vectors) <= largest / 254 * (1 + 1e-5)).all()
    np.testing.assert_array_equal(compress(restore(rows)), rows)


def test_how_far_scores_are_off() -> None:
    """At most the sum of the question's numbers times the largest of the record's, over 254."""
    rng = np.random.default_rng(0)
    records = [_units(rng, 40, 384) for _ in range(30)]
    question = _units(rng, 12, 384)
    exact = np.array([naive(record, question) for record in records])
    bound = np.array([np.abs(question).sum() * np.abs(record).max() / 254 for record in records])
    off = np.abs(scored(records, [question])[:, 0] - exact)
    assert (off <= bound).all()
    assert off.max() < 0.01  # of scores around 2


@settings(max_examples=examples(60))
@given(st.integers(1, 5).flatmap(vectors))
def test_an_average_by_hand(given_vectors: Floats) -> None:
    mean = restore(compress(given_vectors)).astype(np.float64).mean(axis=0)
    length = np.linalg.norm(mean)
    averages = restore(average(compress(given_vectors)))
    assert averages.shape == (1, 3)
    np.testing.assert_allclose(averages[0], mean / length if length else mean, atol=1 / 254 + 1e-6)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_refused(wrong: float) -> None:
    broken = np.array([[0.5, wrong]], np.float32)
    for function in (compress, quantize_question):
        with pytest.raises(UsageError, match="must be finite; got NaN or infinity"):
            function(broken)


# ---------------------------------------------------------------- the part

TEXTS = [
    "The Sarn carries barges with slate to the harbour.",
    "The harbour of Orla was built of slate.",
    "Barges leave the harbour every morning.",
    "The morning fog hides the harbour and the barges.",
]
QUESTION = "Which barges carry slate to the harbour?"


def documents(*numbers: int) -> list[Document]:
    return [Document(f"d{number}", f"Title {number}", TEXTS[number % 4] * (1 + number // 4)) for number in numbers]


def build(folder: Path, *numbers: int) -> Index:
    workspace = Index.open(folder, chunking=None, create=True)
    workspace.add(documents(*numbers))
    workspace.build(PART)
    return workspace


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an index of six documents; those that change it take a copy."""
    folder = tmp_path_factory.mktemp("six") / "index"
    build(folder, *range(6)).close()
    return folder


@pytest.fixture
def workspace(six: Path, tmp_path: Path) -> Index:
    """A copy of it."""
    shutil.copytree(six, tmp_path / "index")
    return Index.open(tmp_path / "index", create=True)


def opened(workspace: Index) -> TokenIndex:
    index = workspace.open_part(PART)
    assert isinstance(index, TokenIndex)
    return index


def everything(index: TokenIndex) -> dict[str, float]:
    scores = index.scores(index.ids, [index.question(QUESTION)])
    return dict(zip(index.ids, scores[:, 0].tolist(), strict=True))


def segments(workspace: Index) -> set[str]:
    (folder,) = (workspace.folder / "parts").glob("token_vectors-*")
    return {path.name for path in folder.iterdir()}


def test_scores_are_those_of_the_encoders_tokens(workspace: Index) -> None:
    index = opened(workspace)
    encode = workspace.encoder.encode_tokens
    question = encode([QUESTION])[0].vectors
    scores = everything(index)
    for document in documents(*range(6)):
        record = encode([f"{document.title}\n{document.text}"])[0].vectors
        assert scores[document.id] == pytest.approx(naive(restore(compress(record)), question), abs=1e-4)
        assert scores[document.id] == pytest.approx(naive(record, question), abs=0.05)
    tokens = int(index.places.counts.sum())
    (name,) = segments(workspace)
    (file,) = (workspace.folder / "parts").glob(f"*/{name}/rows.npy")
    assert file.stat().st_size == 128 + (tokens + 6) * (workspace.encoder.dimensions + 4)
    assert index.describe() == {"search": "exact, vectors of 8 bits, memory-mapped", "tokens": tokens}
    with pytest.raises(UsageError, match="no token vectors of 'elsewhere'"):
        index.scores(["elsewhere"], [question])


def test_small_segments_are_joined_and_old_ones_kept_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_vectors, "_MOST_SMALL", 2)
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # words are new, and a new fit would make new segments
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    workspace = build(tmp_path, *range(8))
    first, reader = opened(workspace), Index.open(workspace.folder, create=True)
    expected = everything(first)
    for number in (8, 9):
        workspace.add(documents(number))
        workspace.build(PART)
    assert len(opened(workspace).files) == 1  # of three, which were more than two
    assert len(segments(workspace)) == 2  # and that of the first sync, which somebody reads
    assert everything(first) == expected
    records = everything(opened(workspace))
    assert {id: records[id] for id in expected} == expected
    reader.close()
    workspace.add(documents(10))
    workspace.build(PART)
    assert len(segments(workspace)) == len(opened(workspace).files) == 2
    records = everything(opened(workspace))
    assert {id: records[id] for id in expected} == expected


def test_what_nobody_holds_and_what_a_crash_left_is_cleared_away(
    workspace: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)  # most passages are new, and a new fit would encode all again
    expected = everything(opened(workspace))
    (file,) = opened(workspace).files
    (folder,) = (workspace.folder / "parts").glob("token_vectors-*")
    for name in ("partial-1", "0123456789abcdef"):
        (folder / name).mkdir()
    workspace.add([Document(f"d{number}", "Slate", "Slate.") for number in (2, 3, 4, 5)])
    workspace.build(PART)
    index = opened(workspace)
    assert len(index.files) == len(segments(workspace)) == 2
    assert sum(map(len, index.files)) == index.places.counts.sum() + len(index.ids) < len(file)
    records = everything(index)
    assert {id: records[id] for id in ("d0", "d1")} == {id: expected[id] for id in ("d0", "d1")}


class Spelt(Letters):
    """A token a letter: another corpus does not change it, as it changes lsa. Registered nowhere."""

    def open(self, setting: LLMSettings | None = None) -> "SpeltEncoder":
        return SpeltEncoder()


class SpeltEncoder(LettersEncoder):
    def encode_tokens(self, texts: Sequence[str]) -> list[interfaces.TokenEmbeddings]:
        spans = [tuple((at, at + 1) for at, letter in enumerate(text) if letter.isalpha()) for text in texts]
        return [
            interfaces.TokenEmbeddings(pair, self.encode_queries([text[start:end] for start, end in pair]))
            for text, pair in zip(texts, spans, strict=True)
        ]

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Floats, list[interfaces.TokenEmbeddings]]:
        return self.encode_queries(texts), self.encode_tokens(texts)


class Counted:
    """The texts that were encoded, until one is spoilt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self.spoilt = ""
        encode = token_vectors._OfEncoder.documents

        def counted(coding: token_vectors._OfEncoder, texts: Sequence[str]) -> list[Floats]:
            if self.spoilt and any(self.spoilt in text for text in texts):
                raise StoreError("the lights went out")
            self.texts += texts
            return encode(coding, texts)

        monkeypatch.setattr(token_vectors._OfEncoder, "documents", counted)


@pytest.mark.parametrize("of", ["passages", "summary_tree(stop_at=1, dimensions=2)"])
def test_only_texts_that_changed_are_encoded(of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over passages, and over a tree, which is made whole: its summaries change where no passage of theirs does."""
    part = TokenVectors(of=of)

    def texts() -> dict[str, str]:
        rows = [row for batch in workspace.open_part(part.of).scan(("title", "text")) for row in batch.to_pylist()]
        return {row["id"]: f"{row['title']}\n{row['text']}".strip() for row in rows}

    workspace = Index.open(tmp_path, encoder=Spelt(), chunking=None, create=True)
    counted = Counted(monkeypatch)
    workspace.add(documents(0, 1, 2, 3))
    workspace.build(part)
    before = texts()
    assert sorted(counted.texts) == sorted(before.values())
    counted.texts.clear()
    workspace.add([Document("d0", "Another", "Nothing of the kind."), *documents(5)])
    workspace.remove(["d3"])
    workspace.build(part)
    after = texts()
    assert sorted(counted.texts) == sorted(text for id, text in after.items() if before.get(id) != text)
    assert workspace.open_part(part).ids == tuple(sorted(after))
    again = Index.open(tmp_path / "again", encoder=Spelt(), chunking=None, create=True)
    again.add([Document("d0", "Another", "Nothing of the kind."), *documents(1, 2, 5)])
    again.build(part)
    assert everything(again.open_part(part)) == everything(workspace.open_part(part))


def test_a_text_without_finite_vectors_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode, fault = token_vectors._OfEncoder.documents, "harbour of Orla"

    def spoil(coding: token_vectors._OfEncoder, texts: Sequence[str]) -> list[Floats]:
        encoded = zip(encode(coding, texts), texts, strict=True)
        return [np.full_like(vectors, np.nan) if fault in text else vectors for vectors, text in encoded]

    monkeypatch.setattr(token_vectors._OfEncoder, "documents", spoil)
    workspace, scheme = Index.open(tmp_path, encoder=Spelt(), chunking=None, create=True), registry.scheme("colbert")
    workspace.add(documents(0, 1, 2))
    for _ in range(2):  # it is tried at each sync, also where it is the only text
        workspace.build(scheme)
        assert format_part_notes(workspace, [scheme]) == [
            "token_vectors: 1 record could not be made and is tried again the next time: d1: the encoder gives NaN or "
            "infinity."
        ]
        (retrieval,) = workspace.open_method(scheme).retrieve([Query("q", QUESTION)], 9)
        assert {hit.id for hit in retrieval.hits} == {"d0", "d2"}
    fault = "none"
    workspace.build(scheme)
    assert (workspace.failures(scheme), set(everything(opened(workspace)))) == ({}, {"d0", "d1", "d2"})
    assert min(everything(opened(workspace)).values()) > 0
    fault = ""
    workspace.add([Document("d3", "Pier", "A pier.")])
    with pytest.raises(UsageError, match="must be finite; got NaN or infinity"):
        workspace.build(scheme)


def test_what_was_encoded_before_a_failure_is_kept(six: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_vectors, "_BATCH", 2)
    counted = Counted(monkeypatch)
    workspace = Index.open(tmp_path, chunking=None, create=True)
    workspace.add(documents(*range(6)))
    counted.spoilt = "Title 3"
    with pytest.raises(StoreError, match="the lights went out"):
        workspace.build(PART)
    first = list(counted.texts)
    counted.spoilt = ""
    workspace.build(PART)
    assert len(first) == 2  # the first batch
    assert sorted(counted.texts[2:]) == sorted(
        f"{document.title}\n{document.text}" for document in documents(2, 3, 4, 5)
    )
    assert everything(opened(workspace)) == everything(opened(Index.open(six, create=True)))


def test_files_that_are_gone(workspace: Index) -> None:
    (name,) = segments(workspace)
    (folder,) = (workspace.folder / "parts").glob(f"token_vectors-*/{name}")
    shutil.rmtree(folder)
    with pytest.raises(StoreError, match="The token vectors of .* cannot be read"):
        workspace.open_part(PART)


def test_record_without_vectors_between_others(tmp_path: Path) -> None:
    workspace = Index.open(tmp_path / "index", chunking=None, create=True)
    workspace.add([*documents(0, 1), Document("d00", "", "?!"), *documents(2)])
    workspace.build(PART)
    assert min(opened(workspace).places.counts.tolist()) == 0


@pytest.mark.parametrize(
    "numbers",
    [{"counts": 10**15}, {"counts": -1}, {"starts": -1}, {"starts": 2**62}, {"averages": 10**15}],
    ids=str,
)
def test_records_outside_their_file_are_damage(
    numbers: dict[str, int], workspace: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = token_vectors._read_stored_records

    def read_crafted(records: Collection) -> Any:
        intact = read(records)
        ((name, number),) = numbers.items()
        if name == "averages":
            return replace(intact, averages=np.full_like(intact.averages, number))
        return replace(intact, places=replace(intact.places, **{name: np.full_like(intact.places.starts, number)}))

    monkeypatch.setattr(token_vectors, "_read_stored_records", read_crafted)
    with pytest.raises(DamagedError, match="lie outside their file"):
        workspace.open_part(PART)


def test_records_without_a_known_token_are_counted(workspace: Index) -> None:
    workspace.add([Document("blank", "", " "), Document("other", "", "?!")])
    workspace.build(PART)
    assert sorted(everything(opened(workspace)).values())[:2] == [-np.inf, -np.inf]
    (record,) = [part for part in workspace.manifest.parts.values() if part.name == "token_vectors"]
    assert record.notes == ("2 of 8 records have no token that the encoder knows: nothing finds them.",)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        monkeypatch.setenv("EMBEDDING_BASE_URL", running.url)
        monkeypatch.setenv("EMBEDDING_API_KEY", KEY)
        yield running


def test_an_encoder_without_token_vectors(server: OpenAIServer, tmp_path: Path) -> None:
    workspace = Index.open(tmp_path, encoder="openai:small", chunking=None, create=True)
    workspace.add(documents(0))
    with pytest.raises(UsageError, match=r"openai-small-.* does not. Name another with --encoder \(lsa"):
        workspace.build(PART)


def test_what_texts_are_encoded_with_changes_nothing(tmp_path: Path) -> None:
    """With real weights, whose vectors of a batch depend on the batch in their last digits."""
    contents = []
    for name, batches in (("one", [[0, 1, 6, 7]]), ("two", [[7], [1, 0, 6]])):
        encoder = f"sentence-transformers:{model_folder()}"
        workspace = Index.open(tmp_path / name, encoder=encoder, chunking=None, create=True)
        for batch in batches:
            workspace.add(documents(*batch))
            workspace.build(PART)
        contents.append(everything(opened(workspace)))
    assert contents[0] == contents[1]
    exact = workspace.encoder.encode_tokens(
        [QUESTION, *(f"{document.title}\n{document.text}" for document in documents(0, 1, 6, 7))]
    )
    expected = [naive(record.vectors, exact[0].vectors) for record in exact[1:]]
    assert [contents[0][f"d{number}"] for number in (0, 1, 6, 7)] == pytest.approx(expected, abs=0.02)


def test_the_law_over_records_that_are_no_passages(tmp_path: Path) -> None:
    scheme = registry.scheme("colbert(over=triples, candidates=bm25(over=triples))")
    workspace = testing.build(scheme, tmp_path, "lsa")
    expected = testing.ask_questions(scheme.open(workspace), 10)
    assert {hit.kind for retrieval in expected for hit in retrieval.hits} == {"triple"}
    workspace.add([*testing.ADDED, replace(testing.DOCUMENTS[3], text="The Rhine is no river any more.")])
    workspace.build(scheme)
    assert testing.ask_questions(scheme.open(workspace), 10) != expected
    workspace.remove([document.id for document in testing.ADDED])
    workspace.add([testing.DOCUMENTS[3]])
    workspace.build(scheme)
    testing.assert_same(
        testing.ask_questions(scheme.open(workspace), 10), expected, "after adding, changing and removing"
    )
