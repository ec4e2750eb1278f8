"""The contract of a scheme, as checks that anyone can run on their own: `check_scheme(scheme, folder)`.

Every registered scheme passes them; see docs/writing-a-retriever.md. They raise AssertionError with what was expected.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ragindex.errors import UsageError
from ragindex.filters import Filter, meta
from ragindex.interfaces import Retriever, Scheme
from ragindex.plugins import registry
from ragindex.retrieval.hits import breach
from ragindex.types import Document, Query, Retrieval
from ragindex.workspace.workspace import Workspace

TOLERANCE = 1e-5
"""How far scores may lie apart that mean the same."""
_CUTOFFS = (1, 5, 20)

_SENTENCES = """
Ada Miller|Ada Miller was a glass painter who was born in Lindau in 1871.
Lindau|Lindau is a town on an island of Lake Constance with an old lighthouse.
Lake Constance|Lake Constance lies between Germany, Austria and Switzerland, and the Rhine flows through it.
Rhine|The river Rhine rises in the Alps and reaches the sea at Rotterdam.
Rotterdam|Rotterdam has the largest harbour of Europe.
Alps|The highest mountain of the Alps is Mont Blanc.
Mont Blanc|Mont Blanc was first climbed by Jacques Balmat and Michel Paccard.
Paccard|Michel Paccard worked as a physician in Chamonix.
Chamonix|The first winter games were held in Chamonix in 1924.
Winter games|Figure skating and curling belong to the winter games.
Curling|Curling stones are cut from the granite of Ailsa Craig.
Ailsa Craig|Ailsa Craig is an uninhabited island where gannets breed.
Gannets|Gannets dive for mackerel from a great height.
Mackerel|Smoked mackerel is eaten with bread and horseradish.
Horseradish|Horseradish grows in damp gardens and makes the eyes water.
Gardens|A kitchen garden wants compost, sun and patience.
Compost|Compost warms up while bacteria break it down.
Bacteria|Bacteria were first seen by Antonie van Leeuwenhoek through his lenses.
Lenses|Lenses of flint glass disperse light more than those of crown glass.
Glass|Glass is made by melting sand, soda and lime.
Sand|Desert sand is too round for concrete.
Concrete|The dome of the Pantheon is made of unreinforced concrete.
Pantheon|The Pantheon in Rome was finished under the emperor Hadrian.
Hadrian|Hadrian had a wall built across the north of Britain.
"""
DOCUMENTS = tuple(
    Document(f"d{number:02d}", title, text, {"number": number, "half": "first" if number < 12 else "second"})
    for number, (title, _, text) in enumerate(line.partition("|") for line in _SENTENCES.strip().splitlines())
)
QUESTIONS = (
    "Who was first to climb Mont Blanc?",
    "What are curling stones cut from?",
    "Which emperor finished the Pantheon in Rome?",
    "Where does the river Rhine reach the sea?",
    "What do gannets dive for?",
)
ADDED = (
    Document("x1", "Mont Blanc tunnel", "The Mont Blanc tunnel was first opened to cars and stones in 1965."),
    Document("x2", "Emperor penguins", "Emperor penguins dive deep in the sea, and the river never."),
)
STRANGE = (
    "?",
    "\x00\x01\x07 glass \x1b[31m",
    "glass " * 20_000,
    "стекло γυαλί ガラス 玻璃 유리 زجاج काँच แก้ว 🪟 Ｇｌａｓｓ",
    "'; DROP TABLE passages; -- \" OR 1=1",
    "(a AND b) OR NOT \\ / * ~ ^ [x TO y] {z}",
)


def check_scheme(
    scheme: Scheme, folder: Path, encoder: registry.Written = "lsa", store: registry.Written = "lancedb"
) -> None:
    """Run every check in a fresh workspace under `folder`. Raises AssertionError at the first that fails."""
    for check in CHECKS:
        check(scheme, folder / check.__name__, encoder, store)


def build(
    scheme: Scheme,
    folder: Path,
    encoder: registry.Written,
    documents: Sequence[Document] = DOCUMENTS,
    store: registry.Written = "lancedb",
) -> Workspace:
    """A workspace with the documents, whole, and the scheme's parts made."""
    workspace = Workspace.open(folder, encoder=encoder, store=store, chunking=None)
    workspace.add(documents)
    workspace.sync([scheme])
    return workspace


def ask(retriever: Retriever, k: int, where: Filter | None = None) -> list[Retrieval]:
    """The answers to QUESTIONS."""
    return retriever.retrieve([Query(f"q{n}", text, where) for n, text in enumerate(QUESTIONS)], k)


def assert_same(first: Sequence[Retrieval], second: Sequence[Retrieval], because: str) -> None:
    """The same ids in the same order, scores within TOLERANCE."""
    for one, other in zip(first, second, strict=True):
        ids, expected = [hit.id for hit in one.hits], [hit.id for hit in other.hits]
        assert ids == expected, f"{because}: got {ids}, expected {expected}"
        for hit, twin in zip(one.hits, other.hits, strict=True):
            near = abs(hit.score - twin.score) <= TOLERANCE
            assert near, f"{because}: {hit.id} scores {hit.score}, expected {twin.score}"


def check_parameters(
    scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb"
) -> None:
    """A scheme can be made again from its description and from its label."""
    described = registry.describe(scheme)
    assert registry.scheme(described) == scheme, "made from its description, it is another"
    assert registry.scheme(registry.label(scheme)) == scheme, "made from its label, it is another"


def check_hits(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """Hits are at most k, without repeats, best first, and name the corpus's documents (`hits.breach`)."""
    retriever = scheme.open(build(scheme, folder, encoder, store=store))
    known = {document.id: document for document in DOCUMENTS}
    for k in (1, 5, 100):
        for retrieval in ask(retriever, k):
            hits = retrieval.hits
            assert hits, f"asked for {k}, got no hit"
            broken = breach(hits, k, known)
            assert broken is None, broken
            for hit in hits:
                for doc_id in hit.doc_ids:
                    assert hit.metadata[doc_id] == known[doc_id].metadata, "the document's metadata is lost"


def check_finds(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """A question in a document's own words finds that document among the first three."""
    retriever = scheme.open(build(scheme, folder, encoder, store=store))
    queries = [Query(document.id, f"{document.title}: {document.text}") for document in DOCUMENTS]
    for query, retrieval in zip(queries, retriever.retrieve(queries, 3), strict=True):
        found = [doc_id for hit in retrieval.hits for doc_id in hit.doc_ids]
        assert query.id in found, f"{query.text!r} finds {found}, not {query.id}"


def check_batches(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """Asked together, one by one, or from many threads: the same answers, and so from a second workspace."""
    retriever = scheme.open(build(scheme, folder / "one", encoder, store=store))
    together = ask(retriever, 5)
    queries = [Query(f"q{n}", text) for n, text in enumerate(QUESTIONS)]
    assert_same([retriever.retrieve([query], 5)[0] for query in queries], together, "one by one")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda query: retriever.retrieve([query], 5)[0], queries * 4))
    assert_same(answers, together * 4, "from threads")
    again = scheme.open(build(scheme, folder / "two", encoder, store=store))
    assert_same(ask(again, 5), together, "from a second workspace")
    assert retriever.retrieve([], 5) == [], "no question, yet answers"


def check_bad_input(
    scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb"
) -> None:
    """k below 1 and empty questions are refused; strange questions are answered."""
    retriever = scheme.open(build(scheme, folder, encoder, store=store))
    for query, k in ((Query("q", "glass"), 0), (Query("q", "glass"), -1), (Query("q", ""), 5), (Query("q", " \n"), 5)):
        try:
            retriever.retrieve([query], k)
        except UsageError:
            continue
        raise AssertionError(f"the question {query.text!r} with k = {k} was not refused")
    for text in STRANGE:
        hits = retriever.retrieve([Query("q", text)], 3)[0].hits
        assert len(hits) <= 3, f"{text[:30]!r} finds {len(hits)} hits"


def check_filter(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """Every document of every hit passes the query's filter."""
    retriever = scheme.open(build(scheme, folder, encoder, store=store))
    half = {document.id for document in DOCUMENTS if document.metadata["half"] == "second"}
    answers = ask(retriever, 24, meta("half", "second"))
    found = {doc_id for retrieval in answers for hit in retrieval.hits for doc_id in hit.doc_ids}
    assert {"d22"} <= found, f"the Pantheon passes the filter, but {found} is found"
    assert found <= half, f"{found - half} do not pass the filter"
    one = [{id for hit in r.hits for id in hit.doc_ids} for r in ask(retriever, 24, meta("number", 22))]
    assert all(found <= {"d22"} for found in one), f"only d22 passes the filter, got {one}"
    assert not any(retrieval.hits for retrieval in ask(retriever, 5, meta("half", "third"))), "nothing passes, yet hits"


def check_law(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """After additions, changes and removals it answers like an index of what is left; open readers stay put."""
    disturbed = build(scheme, folder / "disturbed", encoder, store=store)
    before = scheme.open(disturbed)
    expected = ask(before, 10)
    disturbed.add([*ADDED, replace(DOCUMENTS[3], text="Nothing about rivers any more, but quicksilver.")])
    disturbed.sync([scheme])
    found = scheme.open(disturbed).retrieve([Query("q", "quicksilver"), Query("q", "emperor penguins dive")], 10)
    reached = [[doc_id for hit in retrieval.hits for doc_id in hit.doc_ids] for retrieval in found]
    assert "x2" in reached[1], f"an added document is not found: {reached[1]}"
    disturbed.remove([document.id for document in ADDED])
    disturbed.add([DOCUMENTS[3]])
    disturbed.sync([scheme])
    assert_same(ask(scheme.open(disturbed), 10), expected, "after adding, changing and removing")
    assert_same(ask(before, 10), expected, "a reader opened before")
    undisturbed = build(scheme, folder / "undisturbed", encoder, store=store)
    assert_same(ask(scheme.open(undisturbed), 10), expected, "an undisturbed index")


def check_cutoffs(scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb") -> None:
    """The best few of many are the best that few are asked for, unless the scheme or one of its bases reads k."""
    largest = max(_CUTOFFS)
    if scheme.depends_on_k(largest):
        return
    retriever = scheme.open(build(scheme, folder, encoder, store=store))
    texts = [*QUESTIONS, *_on_three_subjects()]
    queries = [Query(f"q{n}", text) for n, text in enumerate(texts)]
    answers = {k: [_named(one) for one in retriever.retrieve(queries, k)] for k in _CUTOFFS}
    for k in _CUTOFFS:
        for text, found, of_many in zip(texts, answers[k], answers[largest], strict=True):
            assert found == of_many[:k], (
                f"asked for {k} it finds {found}, but the first {k} of {largest} are {of_many[:k]} ({text!r}): "
                "its first hits depend on k, so depends_on_k must return True"
            )


def _on_three_subjects() -> Iterator[str]:
    """Long questions, which many documents answer a little: there a ranking shows what it depends on."""
    for start in range(len(DOCUMENTS)):
        three = (DOCUMENTS[(start + step) % len(DOCUMENTS)] for step in (0, 7, 13))
        yield " ".join(f"{document.title}: {document.text}" for document in three)


def _named(found: Retrieval) -> list[tuple[str, tuple[str, ...]]]:
    return [(hit.id, tuple(hit.doc_ids)) for hit in found.hits]


class Check(Protocol):
    """One check, in a fresh workspace under `folder`, on the engine `store`."""

    __name__: str

    def __call__(
        self, scheme: Scheme, folder: Path, encoder: registry.Written, store: registry.Written = "lancedb"
    ) -> None:
        """Raises AssertionError with what was expected."""
        ...


CHECKS: tuple[Check, ...] = (
    check_parameters,
    check_hits,
    check_finds,
    check_batches,
    check_bad_input,
    check_filter,
    check_cutoffs,
    check_law,
)


def schemes() -> Iterator[Scheme]:
    """Every registered scheme with its default parameters."""
    for name in registry.names("schemes"):
        yield registry.scheme(name)
