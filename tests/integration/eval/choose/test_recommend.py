"""Recommendations from the command to the decision, on a made-up world."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Done, failed, make_desk, ragindex

import ragindex as ragindex_api
from ragindex._util import time_limit
from ragindex.accounting import ledger
from ragindex.estimate import CountingEncoder
from ragindex.index.index import Index
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.types import Document
from ragindex_eval.choose import recommend
from ragindex_eval.choose.candidates import price_candidates
from ragindex_eval.choose.recommendation import Candidate
from ragindex_eval.run import build_costs
from ragindex_eval.run.build_costs import SAMPLED_DOCUMENTS, BuildCosts, estimate_building, estimate_rest_building
from ragindex_eval.run.settings import CompareSettings

WORLD = ("world:100", "--methods", "bm25,dense,links", "--limit", "80", "--index", "w", "--json", "found.json")
NOTES = ("notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--index", "w")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done, Any]:
    """The folder of a recommendation that was exported as `kept`, what it printed, and what it found."""
    with pytest.MonkeyPatch.context() as patch:
        folder = make_desk(tmp_path_factory.mktemp("first"), patch)
        done = ragindex("recommend", *WORLD, "--export", "kept")
        assert done.code == 0, done.err
    return folder, done, read_json(folder / "found.json")


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture
def answered(first: tuple[Path, Done, Any], desk: Path) -> Any:
    """What was found in a copy of the index that all candidates are built and answered in."""
    shutil.copytree(first[0] / "w", desk / "w")
    return first[2]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def answer_lines(folder: Path) -> list[str]:
    return sorted(line for path in folder.glob("runs/*/answers-*.jsonl") for line in path.read_text().splitlines())


def test_commands_resume_and_ask_nothing_twice(answered: Any) -> None:
    answers = answer_lines(Path("w"))
    assert ragindex("recommend", *WORLD).code == 0
    compared = ragindex("compare", *WORLD[:1], "--methods", "links", *WORLD[3:7], "--json", "-").json["methods"]
    assert answer_lines(Path("w")) == answers
    scores = {candidate["label"]: candidate["score"] for candidate in answered["candidates"]}
    assert scores["links"] == pytest.approx(compared[0]["metrics"]["R@5"])
    reports = (answered, read_json(Path("found.json")))
    values = [
        {**report, "candidates": {c["label"]: {**c, "costs": None} for c in report["candidates"]}} for report in reports
    ]
    for value in values:  # prices and with them the order are times; the second choice is not exported
        for name in ("steps", "pareto", "cheaper", "export"):
            value.pop(name, None)
    assert values[0] == values[1]
    assert answered["spent"] == len(answers)
    assert answered["full"] == 3 * 80
    assert {candidate["label"] for candidate in answered["candidates"]} == {"bm25", "dense", "links"}


def test_candidates_of_a_file_and_flags_that_win(answered: Any) -> None:
    Path("race.yaml").write_text("methods: [bm25, hybrid]\ngrid: ['hybrid:depth=50,100']\nlimit: 30\nseed: 1\n")
    done = ragindex("recommend", "world:100", "--config", "race.yaml", "--limit", "10", "--index", "w", "--json", "-")
    assert done.code == 0, done.err
    labels = sorted(candidate["label"] for candidate in done.json["candidates"])
    assert labels == ["bm25", "hybrid(depth=100)", "hybrid(depth=50)"]
    assert (done.json["questions"], done.json["dataset"]["questions"]) == (10, 10)
    Path("race.yaml").write_text("methodes: [bm25]\n")
    assert "race.yaml: " in failed(2, "recommend", "world:100", "--config", "race.yaml", "--index", "w")


def test_unread_files_have_the_exit_code_of_compare(desk: Path) -> None:
    (desk / "notes" / "empty.md").write_text("")
    done = ragindex("recommend", *NOTES)
    assert done.code == 11
    assert "1 file that cannot be read was left out" in done.err
    assert ragindex("recommend", *NOTES, "--skip-bad").code == 0
    assert ragindex("recommend", *NOTES, "--strict").code == 3


def test_choice_is_exported(first: tuple[Path, Done, Any], answered: Any) -> None:
    folder, done, _ = first
    assert "in Python       import ragindex; ragindex.load('kept').search(\"…\")" in done.out
    arguments = ("search", "Where was Vandry born?", "--k", "3", "--json", "-")
    hits = ragindex(*arguments, "--retriever", folder / "kept").json["hits"]
    same = ragindex(*arguments, "--index", "w", "--method", answered["chosen"]).json["hits"]
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in same]
    assert len(hits) == 3


def test_next_command_reads_the_same_questions_and_files(desk: Path) -> None:
    (desk / "notes" / "big.log").write_text("slate " * 1000)
    left_out = ("--exclude", "big *.md", "--exclude", "*.log", "--max-file-mb", "3")
    done = ragindex("recommend", *NOTES, *left_out)
    (line,) = [text for text in done.out.splitlines() if "all figures" in text]
    arguments = shlex.split(line.split("all figures")[1])
    assert arguments[:13] == ["ragindex", "compare", "notes", *NOTES[-2:], *NOTES[1:3], *left_out]
    compared = ragindex(*arguments[1:])
    assert compared.code == 0
    assert "big.log" not in compared.err


def test_candidate_that_breaks_a_constraint_leaves(answered: Any) -> None:
    """The one that remains is asked all questions, or until its recall is known."""
    done = ragindex("recommend", *WORLD, "--max-mb", "0.1")
    assert done.code == 0
    message = "Use bm25: it is the only candidate that meets the constraints. R@5 57.2 on 80 questions."
    assert message in " ".join(done.out.split())
    report = read_json(Path("found.json"))
    states = {candidate["label"]: (candidate["state"], candidate["reason"]) for candidate in report["candidates"]}
    assert states["bm25"] == ("accepted", "no other meets the constraints")
    assert states["dense"][0] == states["links"][0] == "constraint"
    assert states["dense"][1].startswith("--max-mb 0.1: ")
    assert states["links"][1] == f"{states['dense'][1]} of the parts of dense alone"
    assert f"links is left out before it is built: {states['links'][1]}" in report["steps"]
    assert (report["chosen"], report["spent"]) == ("bm25", 80)
    assert any(condition.startswith("dense may enter without --max-mb 0.1") for condition in report["would_change"])
    ragindex("recommend", *WORLD, "--max-mb", "0.1", "--min-recall", "0.2")
    report = read_json(Path("found.json"))
    assert (report["chosen"], report["spent"]) == ("bm25", 20)
    assert report["recall"][0] >= 0.2


def test_recall_below_the_least_leaves(answered: Any) -> None:
    """Of exactly these questions, all is known in the end: two methods are below 0.6, links is at 63.0."""
    done = ragindex("recommend", *WORLD, "--min-recall", "0.6", "--estimand", "questions", "--delta", "0.3")
    assert done.code == 0, done.err
    report = read_json(Path("found.json"))
    states = {candidate["label"]: (candidate["state"], candidate["reason"]) for candidate in report["candidates"]}
    below = "--min-recall 0.6: R@5 is below it for certain"
    assert states["bm25"] == states["dense"] == ("constraint", below)
    assert states["links"][0] == "accepted"
    assert report["chosen"] == "links"
    assert report["recall"] == pytest.approx((0.6302, 0.6302), abs=0.002)
    assert "--min-recall 0.6 is met: R@5 of links is 62.9 to 63.1 (risk 5 %)." in done.out
    assert "bm25 may enter without --min-recall 0.6" in done.out


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        (("--min-recall", "0.95"), "--min-recall 0.95: R@5 is below it"),
        (("--max-p95-ms", "0.000001"), "--max-p95-ms 1e-06: the 95th percentile is above"),
    ],
)
def test_when_none_meets_the_constraints_reasons_are_given(
    answered: Any, constraint: tuple[str, str], reason: str
) -> None:
    done = ragindex("recommend", *WORLD, *constraint)
    assert done.code == 2
    output = done.err.strip().splitlines()[-1]
    assert output.startswith(f"error: No candidate meets the constraints. bm25: {reason}")


def test_wrong_rules_are_refused() -> None:
    done = ragindex("recommend", "notes", "--questions", "questions.txt", "--methods", "bm25,dense")
    assert done.code == 2
    output = done.err.strip().splitlines()[-1]
    assert output.startswith("error: recommend needs questions with gold documents")
    assert "--metric must be one of R@5" in failed(2, "recommend", *NOTES, "--metric", "R@7")
    assert failed(2, "recommend", *NOTES, "--min-recall", "0.6", "--metric", "nDCG@5") == (
        "--min-recall bounds the metric that is decided by, which must be one of R@5, R@10, R@20. Got --metric nDCG@5."
    )
    assert failed(2, "recommend", *NOTES, "--delta", "2").startswith("--delta: Input should be less than 1. Got 2")
    assert "two candidates at least" in failed(2, "recommend", *NOTES[:3], "--methods", "bm25")


def test_dear_methods_are_tried_on_a_growing_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method counts as expensive but bm25; what is not built over the whole corpus says so, with its figure."""
    price = recommend.price_within_rules

    def price_alike(*given: Any) -> list[Candidate]:
        """What building takes, whatever this machine does besides."""
        return [
            replace(
                candidate, costs=replace(candidate.costs, index_seconds=0.0 if candidate.label == "bm25" else 100.0)
            )
            for candidate in price(*given)
        ]

    monkeypatch.setattr(recommend, "price_within_rules", price_alike)
    given = ("world:400", "--methods", "bm25,dense", "--encoder", "lsa:8", "--limit", "40", "--index", "w")
    done = ragindex("recommend", *given, "--json", "-")
    assert done.code == 0, done.err
    trials = [step for step in done.json["steps"] if step.startswith("trial on ")]
    assert trials[0].endswith("of 400 documents")
    sizes = [int(step.split()[2]) for step in trials]
    assert sizes == sorted(sizes)
    assert sizes[0] < 400
    state = {candidate["label"]: candidate for candidate in done.json["candidates"]}["dense"]
    built = any(step.startswith("dense is built") for step in done.json["steps"])
    assert built == (state["state"] != "sub-corpus")
    assert ragindex("search", "Where?", "--index", "w", "--method", "bm25", "--json", "-").code == 0


def test_the_estimate_of_compare_and_recommend_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over an index with `dense` alone: what it has is measured and not left, what it lacks is sampled once."""
    corpus, encoder = ragindex_api.read("world:400"), CountingEncoder(model="small")
    schemes = {label: registry.scheme(label) for label in ("bm25", "dense", "hybrid", "links")}
    settings = CompareSettings(encoder=encoder)

    def estimate(folder: Path | None, *labels: str) -> tuple[BuildCosts, int]:
        """Estimate methods; return the passages that were encoded for it, too."""
        chosen = {label: schemes[label] for label in labels}
        with ledger.record_calls() as tally:
            steps = estimate_building(chosen, corpus.documents, corpus.chunking, settings, folder)
        return steps, sum(entry.task == "counted encoding" for entry in tally.entries)

    nothing, encoded = estimate(None, "bm25", "dense", "hybrid")
    assert encoded == SAMPLED_DOCUMENTS  # one passage each
    assert nothing.seconds_left(nothing.methods) == pytest.approx(nothing.seconds_left(["hybrid"]))
    assert 0 < nothing.seconds_left(["bm25"]) < nothing.seconds_left(["hybrid"])
    with Index.open(tmp_path, encoder=encoder, chunking=corpus.chunking, create=True) as index:
        index.add(corpus)
        index.build(schemes["dense"])
        measured = {registry.label(part): index.figures(part).seconds for part in index.all_parts(schemes["dense"])}
    monkeypatch.setattr(build_costs, "list_rest", lambda: ["links"])
    with ledger.record_calls() as tally:
        assert estimate_rest_building(settings, tmp_path) is None  # without a sample
    assert tally.entries == ()
    estimates, encoded = estimate(tmp_path, *schemes)
    assert {label: estimates.parts[label].seconds for label in measured} == pytest.approx(measured)
    assert (estimates.seconds_left(["dense"]), encoded) == (0, 0)
    assert estimates.seconds_left(["links"]) == estimates.parts["links"].seconds > 0
    assert estimate_rest_building(settings, tmp_path) == estimates.seconds_left(["links"])
    again, _ = estimate(tmp_path, *schemes)
    assert again == estimates
    candidates = [Candidate(label, scheme) for label, scheme in schemes.items()]
    priced, building = price_candidates(candidates, corpus, settings, tmp_path)
    assert building == estimates
    assert {row.label: row.costs.estimated for row in priced} == {
        **{"bm25": False, "dense": False, "hybrid": False, "links": True}
    }


def test_texts_of_the_sample_are_encoded_once(tmp_path: Path) -> None:
    corpus, settings = ragindex_api.read("world:400"), CompareSettings(encoder=CountingEncoder(model="small"))
    schemes = {"dense": registry.scheme("dense")}
    counts = []
    with ledger.record_calls() as tally:
        for _ in range(2):
            estimate_building(schemes, corpus.documents, corpus.chunking, settings, tmp_path / "new")
            counts.append(sum(entry.task == "counted encoding" for entry in tally.entries))
        with Index.open(tmp_path / "new", encoder=settings.encoder, chunking=corpus.chunking, create=True) as index:
            index.add(corpus)
            index.build(schemes["dense"])
            passages = index.counts().passages
    counts.append(sum(entry.task == "counted encoding" for entry in tally.entries))
    assert counts == [SAMPLED_DOCUMENTS, SAMPLED_DOCUMENTS, passages]


def test_long_documents_are_sampled_by_their_length() -> None:
    documents = [Document(f"{n}", "", "x" * length) for n, length in enumerate([10_000] * 40 + [10**6] * 40)]
    drawn = build_costs._draw_sample(documents, 0)
    assert 0 < sum(len(document.text) for document in drawn) <= 150_000
    assert len(build_costs._draw_sample(documents[40:], 0)) == 1


def test_a_build_that_takes_longer_than_allowed_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would build the same again is left out: links rests on the passages and vectors of dense."""
    few = tuple("20" if argument == "80" else argument for argument in WORLD)
    begun = list[str]()
    apply = Vectors.apply

    def note_begin(part: Vectors, change: Any, context: Any) -> None:
        begun.append("vectors")
        apply(part, change, context)

    with monkeypatch.context() as patched:
        patched.setattr(Vectors, "apply", note_begin)
        patched.setattr(time_limit.time, "monotonic", lambda: 1e9 * len(begun))
        done = ragindex("recommend", *few, "--max-index-minutes", "5")
    assert done.code == 0, done.err
    report = read_json(Path("found.json"))
    states = {candidate["label"]: (candidate["state"], candidate["reason"]) for candidate in report["candidates"]}
    over = "--max-index-minutes 5: its build takes longer"
    assert states["bm25"][0] == "accepted"
    assert states["dense"] == ("constraint", over)
    assert states["links"] == ("constraint", f"{over}; so do the parts of dense alone")
    assert begun == ["vectors"]
    assert ragindex("recommend", *few).code == 0
    states = {candidate["label"]: candidate["state"] for candidate in read_json(Path("found.json"))["candidates"]}
    assert "constraint" not in states.values()


def test_undecided_race_says_how_many_questions_would_tell(first: tuple[Path, Done, Any]) -> None:
    assert re.search(
        r"Undecided between bm25, (dense and links|links and dense) \(the cheapest first\) on .*, "
        r"with a margin of 2\.0 points\. Best so far: links.* more questions? would show links ahead of ",
        " ".join(first[1].out.split()),
    )
