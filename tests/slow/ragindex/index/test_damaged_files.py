"""Every file of an index, harmed in every way, and every byte of its databases flipped."""

import warnings
from contextlib import closing
from pathlib import Path

import pytest
from damaged import HARMS, Attempt, PristineIndex, tried

from ragindex._util.durable_files import RepairWarning
from ragindex.errors import DamagedError, EngineError, RagindexError
from ragindex.llm.cache import CachedResponse, CallSource, SQLiteCache, export_calls, import_calls


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> PristineIndex:
    return PristineIndex(
        tmp_path_factory.mktemp("damaged"), ("bm25", "dense", "colbert", "hipporag(mode=facts)", "gear.naive")
    )


OPENED_BY = {
    "encoders": "dense",
    "phrase_graph": "hipporag(mode=facts)",
    "spread_vectors": "hipporag(mode=facts)",
    "token_vectors": "colbert",
    "triple_graph": "gear.naive",
}
"""A method that reads the files of a folder."""


def test_files_are_made_again(pristine: PristineIndex) -> None:
    """The error of a damaged file names the command; a sync makes it again, says so, and answers as before.

    Every file is harmed, in one way after the other; where a folder has few, each in all ways.
    """
    for kind, method in OPENED_BY.items():
        files = list(pristine.files(f"{kind}/**/*", f"parts/{kind}-*/**/*"))
        harms = list(HARMS.items())
        rounds = 4 if len(files) < 4 else 1
        cases = [(path, *harms[(number + turn) % 4]) for turn in range(rounds) for number, path in enumerate(files)]
        assert len(cases) >= 4
        for path, name, harm in cases:
            folder = pristine.fresh()
            harm(folder / path)
            require_mended(pristine, folder, method, f"{path} {name}", path)


def require_mended(pristine: PristineIndex, folder: Path, method: str, case: str, path: Path) -> None:
    wanted = [pristine.before[pristine.methods.index(method)]]
    first = tried(lambda at: pristine.read(at, method), folder)
    second = tried(lambda at: pristine.synced(at, method), folder)
    pointer = path.parent.name == "encoders"  # names the fit that builds use: readers have it in the manifest
    assert (first.answers == wanted) if pointer else isinstance(first.error, DamagedError), (case, first)
    assert pointer or path.name in str(first.error), (case, first)
    assert second.answers == wanted, (case, second)
    counts = path.suffix == ".words"  # follow from passages and fit, and are counted again without a message
    assert counts or any(path.name in sentence and "rebuilt" in sentence for sentence in second.warnings), (
        case,
        second,
    )
    assert tried(lambda at: pristine.read(at, method), folder) == Attempt(wanted, None, []), case


def test_no_flipped_byte_becomes_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    answers = {
        f"{number:064x}": CachedResponse(f"said {number} " * 9, "stop", "", "text", 3, 0, 2, False, 0.5, 1.5, 7.0)
        for number in range(20)
    }
    cache = SQLiteCache(path)
    for key, answer in answers.items():
        cache.put(key, CallSource("task", 1, "openai", "small", "http://x"), answer)
    with cache.connection() as connection, closing(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as done:
        done.fetchall()
    del cache
    content, lost, errors, again = path.read_bytes(), 0, list[str](), SQLiteCache(tmp_path / "again" / "calls.sqlite")
    for at in range(0, path.stat().st_size, 211):
        other = tmp_path / f"{at}" / "calls.sqlite"
        other.parent.mkdir()
        other.write_bytes(content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepairWarning)
            try:
                harmed = SQLiteCache(other)
                read_answers = {key: harmed.get(key) for key in answers}
                lost += sum(answer is None for answer in read_answers.values())
                assert all(read_answers[key] in (None, answer) for key, answer in answers.items()), at
                export_calls(harmed, tmp_path / "calls.jsonl")
                import_calls(again, tmp_path / "calls.jsonl")
            except RagindexError as error:
                errors.append(str(error))
    assert lost > 0
    assert all("calls.sqlite" in error for error in errors)
    assert {key: again.get(key) for key in answers} == answers


@pytest.mark.parametrize("harm", ["removed", "emptied", "cut short"])
@pytest.mark.parametrize(
    "kind", ["passages-*.records", "triples-*.records", "token_vectors-*.segments", "vectors-*.coverage"]
)
def test_collection_of_a_part_is_made_again(kind: str, harm: str, pristine: PristineIndex) -> None:
    """LanceDB's files have no hashes: what it fails over is named with the command that makes it again."""
    for pattern in ("data/*", "_versions/*.manifest"):
        files = list(pristine.files(f"store/{kind}.lance/{pattern}"))
        folder = pristine.fresh()
        for path in files:
            HARMS[harm](folder / path)
        for work, wanted in (
            (pristine.read, pristine.before),
            (pristine.synced, pristine.before),
            (pristine.added, pristine.after),
        ):
            attempt = tried(work, folder)
            if attempt.error is not None:
                assert isinstance(attempt.error, EngineError) or "Run: ragindex" in str(attempt.error), attempt.error
                pristine.follow(attempt.error)
                attempt = tried(work, folder)
            assert attempt.answers == wanted, (kind, pattern, harm, work.__name__, attempt)
