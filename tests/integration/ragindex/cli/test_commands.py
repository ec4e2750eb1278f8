"""The command line as a user meets it: every command, with real parts behind it."""

import json
import os
import re
import sys
from pathlib import Path
from threading import Event, Thread, Timer

import numpy as np
import pytest
import typer
from command_line import NOTHING_SPENT, build, failed, make_desk, ragindex, write

from ragindex._util import distribution
from ragindex.cli import main
from ragindex.encoders import lsa
from ragindex.index import fit_watch
from ragindex.index.index import Index
from ragindex.plugins import registry
from ragindex.types import Document
from ragindex_eval.run import study

OURS = distribution.find_distribution().name
COMMANDS = (
    *("methods", "read", "index", "search", "add", "remove", "doctor", "compare", "new-plugin", "demo", "repair"),
    *("report", "questions", "cache", "ask", "estimate", "parts", "tune", "use", "serve", "mcp", "spending"),
    *("recommend", "gate", "export", "judge", "results", "update", "audit", "study", "studies"),
)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_desk(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Never written to."""
    return build(tmp_path_factory.mktemp("built"))


# ---------------------------------------------------------------- help


def test_an_index_without_methods_names_the_command_that_builds_one() -> None:
    Index.open(Path("bare"), create=True).close()
    message = "No part is built. Run: ragindex index --index bare --methods hybrid"
    assert message in ragindex("parts", "--index", "bare").out


def test_a_full_vocabulary_and_what_no_new_fit_mends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = "The vocabulary of lsa is full: it has no words of the fewest passages"
    assert full not in ragindex("index", "notes", "--index", "roomy", "--methods", "dense").out
    monkeypatch.setattr(lsa, "_VOCABULARY", 5)
    assert full in ragindex("index", "notes", "--index", "w", "--methods", "dense").out
    assert full not in ragindex("index", "notes", "--index", "w", "--methods", "dense").out, "it was fitted before"
    assert full not in ragindex("index", "notes", "--index", "words", "--methods", "bm25").out
    write(tmp_path / "notes", {"kelp.md": "# Kelp\n\nGiant kelp forests shelter otters off Monterey."})
    message = (
        "Its vocabulary is full, so a new fit leaves the words of the fewest passages out again, first those with "
    )
    message += "digits: ragindex index --index w --refit, or search with bm25."
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # as where what was paid for keeps its fit
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    assert message in ragindex("add", "notes/kelp.md", "--index", "w").err
    assert message in ragindex("search", "kelp otters", "--index", "w", "--method", "dense").err


def test_an_added_document_of_words_that_the_encoder_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning has the command that repairs all that is built; where all is well, there is none."""
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # as where what was paid for keeps its fit
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    ragindex("index", "notes", "--index", "w", "--methods", "dense,hipporag(mode=facts),bm25")
    write(tmp_path / "notes", {"kelp.md": "# Kelp\n\nGiant kelp forests shelter otters off Monterey."})
    added = ragindex("add", "notes/kelp.md", "--index", "w")
    message = "The encoder lsa, which was fitted before, does not know {} of 1 document ({}): methods with vectors"
    assert message.format("6 words", "kelp, giant, forests, shelter, otters, …") in added.err
    done = ragindex("search", "kelp", "--index", "w", "--method", "dense")
    assert done.out == "No results with dense (encoder lsa).\n"
    unknown = "The encoder lsa does not know {}, which passages contain: vectors rank by the other words"
    assert unknown.format("kelp") in done.err
    partly = ragindex("search", "kelp otters of slate, zyx", "--index", "w", "--method", "dense")
    assert (len(partly.out.splitlines()) > 1, unknown.format("kelp, otters") in partly.err) == (True, True)
    assert "ragindex index --index w --refit" in partly.err
    assert ragindex("search", "kelp otters of slate", "--index", "w", "--method", "bm25").err == ""
    answered = ragindex("ask", "Where do kelp otters live?", "--index", "w", "--method", "dense")
    assert unknown.format("kelp, otters") in answered.err
    command = "ragindex index --index w --refit"
    assert added.err.endswith(f"run: {command}\n")
    assert ragindex(*command.split()[1:], "--methods", "dense").code == 0
    for method in ("dense", "hipporag(mode=facts)", "bm25"):
        report = ragindex("search", "kelp", "--index", "w", "--method", method, "-k", "1", "--json", "-").json
        assert [hit["id"] for hit in report["hits"]] == ["kelp.md#0"]
    ragindex("index", "notes", "--index", "v", "--methods", "dense")
    assert ragindex("add", "notes/kelp.md", "--index", "v").err == ""  # nothing changed
    (tmp_path / "notes" / "kelp.md").write_text("# Kelp\n\nGiant kelp forests shelter urchins.")
    assert message.format("1 word", "urchins") in ragindex("add", "notes/kelp.md", "--index", "v").err
    known = " ".join(path.read_text() for path in (tmp_path / "notes").rglob("*.md"))
    (tmp_path / "notes" / "kelp.md").write_text(f"{known} urchins")
    assert ragindex("add", "notes/kelp.md", "--index", "v").err == ""  # one word is less than a tenth of them
    ragindex("index", "notes", "--index", "lexical", "--methods", "bm25")
    (tmp_path / "notes" / "moss.md").write_text("# Moss\n\nSphagnum bogs acidify peatland.")
    assert ragindex("add", "notes/moss.md", "--index", "lexical").err == ""  # no vectors are built
    again = ragindex("index", "notes", "--index", "v")  # the other command that adds
    assert message.format("5 words", "moss, sphagnum, bogs, acidify, peatland") in again.out


def test_no_new_fit_is_advised_where_it_would_learn_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of which only other forms stand in the passages, or that stand in none, although the encoder is new."""
    Path("notes/kelp.md").write_text("# Kelp\n\nGiant kelp forests shelter otters.")
    ragindex("index", "notes", "--index", "w", "--methods", "dense")
    arguments = ("--index", "w", "--method", "dense")
    output = ragindex("search", "forested sheltering", *arguments).err
    assert "The encoder lsa does not know forested, sheltering, which passages contain in other forms: " in output
    nowhere = ragindex("search", "zyxomat", *arguments).err
    assert "No word of the question is known to the encoder lsa" in nowhere
    assert "--refit" not in output + nowhere
    monkeypatch.setattr(  # known words without a vector, as a fit of an earlier version may have them
        lsa.LsaEncoder, "encode_documents", lambda self, texts: np.zeros((len(texts), self.dimensions), np.float32)
    )
    printed = ragindex("search", "giant kelp", *arguments).err
    assert "The encoder lsa knows giant, kelp, but its vector of the question is empty, so nothing" in printed
    assert "ragindex index --index w --refit" in printed
    assert "No word of the question" not in printed


def test_an_index_whose_documents_change_says_so(tmp_path: Path) -> None:
    write(tmp_path / "notes", {"logs/day.log": "started\nstopped"})
    arguments = ("notes", "--questions", "questions.csv", "--methods", "bm25,dense", "--index", "w")
    message = "warning: the documents of w were others until now: 1 document added (logs/day.log)"
    assert message not in ragindex("compare", *arguments, "--exclude", "*.log").err
    assert message not in ragindex("recommend", *arguments, "--exclude", "*.log").err
    assert message not in ragindex("recommend", *arguments).err  # the index reads the folder as it did before
    assert message in ragindex("recommend", *arguments, "--include", "*").err
    assert message not in ragindex("compare", *arguments).err
    left = ragindex("compare", *arguments, "--exclude", "*.log").err.splitlines()
    assert left[0].startswith("warning: 1 document leaves w, as this command does not read them: logs/day.log. Retriev")
    assert left[1].startswith("warning: the documents of w were others until now: 1 document removed (logs/day.log)")
    moved = "held results of 2 questions, 2 methods and 5 documents, which are now in ragindex-results/notes.1"
    assert any(line.endswith(moved) for line in left)


def test_figures_of_an_older_fit_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_watch, "UNKNOWN_LIMIT", 1.0)  # as where what was paid for keeps its fit
    monkeypatch.setattr(fit_watch, "TURNOVER_LIMIT", 2.0)
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "dense", "--index", "w")
    message = "the encoder lsa was fitted to 4 passages, and the index has 5: a new index would give other vectors."
    assert message not in " ".join(ragindex(*arguments).out.split())
    write(tmp_path / "notes", {"kelp.md": "# Kelp\n\nGiant kelp forests shelter otters off Monterey."})
    compared = " ".join(ragindex(*arguments).out.split())
    assert message in compared
    assert re.search(r"It does not know \d\d.\d% of the words of the passages and [\d.]+% of those of the q", compared)
    lexical = [argument.replace("dense", "bm25") for argument in arguments]
    assert "was fitted to" not in ragindex(*lexical).out  # it has no vectors
    tree = registry.part("summary_tree")
    with Index.open("w", create=True) as workspace:
        workspace.build(tree)  # its method, raptor, needs nothing else
        workspace.build(registry.part("name_vectors"))  # of hipporag and griever, of which other parts are missing
    refitted = ragindex("index", "--refit", "--index", "w", "--methods", "dense").out
    assert re.search(r"lsa was fitted again in [\d.]+ s, and built again: (vectors|summary_tree) [\d.]+ s, ", refitted)
    assert "Not built again, as no method is complete with it: name_vectors" in refitted
    assert "was fitted to" not in ragindex(*arguments).out


def test_adding_one_file_from_elsewhere_names_this_file_in_the_next_command(tmp_path: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.md").write_text("# A\n\nOne.")
    (tmp_path / "other" / "b.md").write_text("# B\n\nTwo.")
    message = failed(4, "add", "other/a.md", "--index", "w")
    command = f"ragindex add {tmp_path}/other/a.md --as other --index w"
    assert message.endswith(f"Run: {command}")
    assert ragindex(*command.split()[1:]).out.startswith("1 document added")


def test_results_of_other_questions_are_kept() -> None:
    first = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--index", "w")
    message = "held results of 2 questions, 1 method and 4 documents, which are now in ragindex-results/notes.1"
    assert message not in ragindex(*first).err
    assert message not in ragindex(*first, "--fresh").err
    results = Path("ragindex-results/notes/comparison.json").read_bytes()
    Path("more.csv").write_text("question,answer,documents\nWhich river is short?,,rivers/orla.md\n")
    other = ragindex("compare", "notes", "--questions", "more.csv", "--methods", "bm25", "--index", "w")
    assert message not in " ".join(other.err.split())
    assert "ragindex-results/notes-more/report.html" in other.out
    assert Path("ragindex-results/notes/comparison.json").read_bytes() == results
    questions = Path("questions.csv").read_bytes()
    Path("questions.csv").write_bytes(Path("more.csv").read_bytes())
    assert message in " ".join(ragindex(*first).err.split())
    assert Path("ragindex-results/notes.1/comparison.json").read_bytes() == results
    Path("questions.csv").write_bytes(questions + Path("more.csv").read_bytes().splitlines(keepends=True)[1])
    assert "are now in" not in ragindex(*first).err  # the one question before is among these


@pytest.mark.parametrize("out", [(), ("--out", "figures"), ("--out", ".")])
def test_results_of_methods_that_are_not_compared_again_are_kept(tmp_path: Path, out: tuple[str, ...]) -> None:
    """Whatever folder is named, and also where the command ends with an error, as of --fail-below."""
    given = ("compare", "notes", "--questions", "questions.csv", "--index", "w", *out, "--methods")
    folder = Path(*out[1:]) if out else Path("ragindex-results/notes")
    runs, mine = folder / "runs", "bm25.of-mine.trec"
    assert "are now in" not in ragindex(*given, "bm25,dense").err
    (runs / mine).write_text("")
    assert "are now in" not in ragindex(*given, "bm25,dense,hybrid").err  # all of the earlier ones are there
    larger = {path.relative_to(folder): path.read_bytes() for path in folder.glob("*.json*")}
    failed = ragindex(*given, "bm25", "--fail-below", "bm25:R@5=1.0", "--limit", "1", "--seed", "1", "--fresh")
    assert "are now in" in failed.err
    replaced = " ".join(failed.err.split())
    earlier = folder.resolve().with_name(f"{folder.resolve().name}.1")
    assert f"which are now in {earlier if out == ('--out', '.') else earlier.relative_to(tmp_path)}" in replaced
    assert {path.relative_to(earlier): path.read_bytes() for path in earlier.glob("*.json*")} == larger
    assert sorted(path.name for path in runs.iterdir()) == [mine, "bm25.trec"]
    assert len(list((earlier / "runs").iterdir())) == 3
    shown = ragindex("results", earlier)
    assert shown.code == 0, shown.err
    assert "hybrid" in shown.out


def test_a_study_of_several_comparisons_is_kept() -> None:
    given = ("compare", "notes", "--questions", "questions.csv", "--methods")
    Path("seeds.yaml").write_text("seeds: [1, 2]\n")
    assert ragindex(*given, "bm25,dense", "--config", "seeds.yaml").code == 0
    lost = "held results of 2 comparisons, one of 2 questions, 2 methods and 4 documents"
    single = " ".join(ragindex(*given, "bm25").err.split())
    assert f"{lost}, which are now in ragindex-results/notes.1" in single
    folders = sorted(path.parent.name for path in Path("ragindex-results/notes.1").glob("*/comparison.json"))
    assert folders == ["01-notes", "02-notes"]


def test_help_of_commands() -> None:
    """Each has an example and fits a terminal, and those that read documents can leave files out."""
    assert set(typer.main.get_command(main.app).commands) == set(COMMANDS)  # type: ignore[attr-defined]
    reading = {"index", "add", "compare", "recommend", "judge", "gate", "tune", "questions", "estimate"}
    flags = ("--include", "--exclude", "--encoding", "--max-file-mb", "--ocr", "--rows", "--skip-bad")
    for command in COMMANDS:
        done = ragindex(command, "--help")
        assert done.code == 0
        assert f"Example: ragindex {command}" in done.out
        assert max(map(len, done.out.splitlines())) <= 80
        assert "[[" not in done.out
        for flag in flags if command in reading else ():
            assert f"│ {flag} " in done.out, (command, flag)
    listed = ragindex("--help")
    assert all(f"\n  {command} " in listed.out for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serch"], "No such command 'serch'. Did you mean 'search', 'serve'?"),
        (["compare", "notes", "--colour", "red"], "No such option: --colour"),
        (["compare", "notes", "--limit", "0"], "--limit"),
        (["compare", "notes", "--seed", "x"], "--seed"),
        (["search", "slate"], "--index"),
        (["search", "slate", "--index", "w", "-k", "0"], "-k"),
        (["remove", "--index", "w"], "Missing argument"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = ragindex(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "--help" in done.err


# ---------------------------------------------------------------- methods, doctor


def test_methods() -> None:
    listed = ragindex("methods", "--json", "-").json
    summary = "Keyword search and search by meaning, or other `bases`, fused into one ranking."
    where = {"distribution": OURS, "object": "ragindex_baselines.hybrid:Hybrid"}
    assert {"name": "hybrid", "summary": summary, **where} in listed
    assert all(method["summary"] for method in listed)


def test_encoders_stores_and_parts_are_described_too() -> None:
    assert ragindex("methods", "openai", "--json", "-").json["parameters"][0] == {
        "name": "model",
        "type": "str",
        "default": None,
        "description": "Name of the model, as the endpoint knows it.",
    }
    for name, row in {
        "sentence-transformers": "model str required Folder of a model,",
        "lancedb": "memory_gib float, ≥ 0 1.0 Memory for searching, in GiB,",
        "vectors": "of part passages Part whose records are encoded.",
    }.items():
        lines = [" ".join(line.split()) for line in ragindex("methods", name).out.splitlines()]
        assert [line for line in lines if line.startswith(row)]
    encoder, model = (value := ragindex("methods", "openai", "--json", "-").json), value["others"][0]
    assert (encoder["kind"], model["kind"], len(value["others"])) == ("encoder", "language model", 1)
    described = {parameter["name"]: parameter["default"] for parameter in model["parameters"]}
    assert (described["concurrency"], described["reasoning_effort"]) == (16, None)
    assert ragindex("methods", "openai").out.count("\nopenai (language model): LLM `openai:MODEL` at ") == 1
    (only,) = {"kind", "others"} & ragindex("methods", "openai(model=x, dimensions=3)", "--json", "-").json.keys()
    assert only == "kind"
    assert "kind" in ragindex("methods", "offline", "--json", "-").json
    assert "openai has no parameter 'depth'" in failed(2, "methods", "openai(model=x, depth=3)")
    assert failed(2, "methods", "hibrid") == "No method is called 'hibrid'. Did you mean hybrid?"


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if it were not installed
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    done = ragindex("doctor", "--json", "-")
    rows = {row["what"]: (row["state"], row["detail"]) for row in done.json}
    install = "pip install 'onnx>=1.17' 'onnxruntime>=1.20' 'sentence-transformers>=5'"
    assert rows["extra neural"] == ("missing", f"for encoders and rerankers that run on torch: {install}")
    engine, detail = rows["engine of sentence-transformers"]
    assert engine in ("openvino", "onnxruntime")
    assert detail.endswith(f" cores; models in ONNX form only, or run: {install}")
    assert rows["method bm25"] == ("ok", "ragindex_baselines.bm25:BM25")
    assert rows["OPENAI_API_KEY"][0] == "set"
    assert rows["EMBEDDING_API_KEY"] == ("not set", "default: OPENAI_API_KEY")
    assert "secret" not in done.out
    last = ragindex("doctor").out.splitlines()[-1]
    assert last == "Try it: ragindex demo. On your documents: ragindex compare DATA --questions FILE"


# ---------------------------------------------------------------- index, search, add, remove


def test_index_as_json() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,dense", "--json", "built.json")
    value = json.loads(Path("built.json").read_text(encoding="utf-8"))
    assert (value["index"], value["documents"], value["passages"]) == ("w", 4, 4)
    assert list(value["parts"]) == ["passages", "vectors", "lsa fit"]
    assert value["parts"]["passages"]["search"] == "exact, from memory"
    again = ragindex("index", "--index", "w", "--methods", "bm25", "--json", "-").json
    assert again["parts"]["passages"] == value["parts"]["passages"]


def test_an_update_updates_all_that_is_built(tmp_path: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,links")
    with Index.open(Path("w")) as index:
        index.add([Document("kelp", "Kelp", "Giant kelp forests shelter otters.")], source="more")
    search = ("search", "highest hill", "--index", "w", "--method", "links")
    command = "ragindex index --index w"
    assert f"is older than the corpus. Run: {command}\n" in ragindex(*search).err
    updated = ragindex(*command.split()[1:])
    assert "Next: ragindex search '…' --index w\n" in updated.out
    assert {"links", "passages", "vectors"} <= {line.split()[0] for line in updated.out.splitlines()}
    assert ragindex(*search).err == ""
    by_words = ragindex("search", "kelp otters", "--index", "w", "--method", "bm25", "--json", "-").json
    assert [hit["id"] for hit in by_words["hits"]] == ["kelp#0"]
    (tmp_path / "notes" / "kelp.md").write_text("# Kelp\n\nUrchins graze the kelp.")
    ragindex("index", "notes", "--index", "w", "--methods", "dense")  # adds a method, and updates the others
    assert ragindex(*search).err == ""


def test_another_encoder_builds_all_that_is_built(tmp_path: Path) -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,links")
    ragindex("index", "notes", "--index", "w", "--encoder", "lsa:2")
    done = ragindex("search", "highest hill", "--index", "w", "--method", "links", "--encoder", "lsa:2")
    assert (done.code, done.err) == (0, "")


def test_method_is_removed_with_what_it_alone_uses() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,dense,links")
    sizes = {path.name for path in Path("w").rglob("*") if path.is_dir()}
    dry = ragindex("remove", "--method", "links", "--index", "w", "--dry-run")
    assert (dry.code, dry.out) == (0, "Nothing here is paid for.\n")
    assert ragindex("search", "slate", "--index", "w", "--method", "links").code == 0
    removed = ragindex("remove", "--method", "links", "--index", "w", "--json", "-").json
    assert (removed["removed"], removed["parts"], removed["methods"]) == (0, ["links"], ["evidence", "hop", "links"])
    assert {path.name for path in Path("w").rglob("*") if path.is_dir()} < sizes
    assert [part["part"] for part in ragindex("parts", "--index", "w", "--json", "-").json["parts"]] == [
        "passages",
        "vectors",
    ]
    assert ragindex("search", "slate", "--index", "w", "--method", "dense").code == 0
    missing = failed(4, "search", "slate", "--index", "w", "--method", "links")
    assert missing.startswith("The index w is not built for links with the encoder lsa. Built: bm25, ")
    ragindex("index", "notes", "--index", "w")  # updates what is left
    assert failed(4, "search", "slate", "--index", "w", "--method", "links") == missing
    again = failed(2, "remove", "--method", "links,evidence", "--index", "w")
    assert again == "The index w is not built for links, evidence. Nothing was removed."
    assert ragindex("index", "notes", "--index", "w", "--methods", "links").code == 0
    assert ragindex("search", "slate", "--index", "w", "--method", "links").code == 0
    assert failed(4, "remove", "--method", "raptor", "--index", "v").startswith("No index in v.")


def test_methods_that_need_all_parts_of_a_removed_one_go_with_it() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25,dense")
    refused = failed(2, "remove", "--method", "bm25", "--index", "w")
    assert refused.startswith("All parts of bm25 are used by ")
    assert {"dense", "hybrid"} <= set(refused.partition(" are used by ")[2].partition(" too. ")[0].split(", "))
    parts, unbuilt = ragindex("remove", "--method", "dense", "--index", "w").out.rstrip().split(". No longer built: ")
    assert parts == "1 part removed: vectors"
    assert {"dense", "hybrid"} <= set(unbuilt.split(", "))
    assert "bm25" not in unbuilt.split(", ")
    assert ragindex("search", "slate", "--index", "w", "--method", "bm25").code == 0


NUMBERED = {f"plants/{number}.md": f"# Plant {number}\n\nIt grows to {number} metres." for number in range(9)}


def test_most_of_a_source_is_removed_on_request_alone(tmp_path: Path) -> None:
    write(tmp_path, NUMBERED)
    ragindex("index", "plants", "--index", "w", "--methods", "bm25")
    for number in range(1, 9):
        (tmp_path / f"plants/{number}.md").unlink()
    before = Path("w/workspace.json").read_bytes()
    refused = failed(2, "index", "plants", "--index", "w")
    assert refused.startswith("8 documents of 9 of the source plants would be removed, because it no longer has them: ")
    assert refused.endswith("Nothing was done: nobody can be asked here. To go on, add --allow-removals.")
    assert Path("w/workspace.json").read_bytes() == before
    compared = failed(2, "compare", "plants", "--index", "w", "--methods", "bm25", "--questions", "questions.txt")
    assert "Nothing was done." in compared
    assert "ragindex index DATA --index w --allow-removals" in compared
    with Index.open(Path("w"), read_only=True) as index:
        assert len(index) == 9
    removed = ragindex("index", "plants", "--index", "w", "--allow-removals", "--json", "-").json
    assert (removed["documents"], removed["changed"]["removed"]) == (1, 8)


@pytest.mark.parametrize("gone", [4, 9])
def test_edits_and_renames_need_no_consent(gone: int, tmp_path: Path) -> None:
    write(tmp_path, NUMBERED)
    ragindex("index", "plants", "--index", "w", "--methods", "bm25")
    for number in range(gone):
        path = tmp_path / f"plants/{number}.md"
        if gone == 9:
            path.rename(path.with_name(f"plant-{number}.md"))
        else:
            path.unlink()
    changed = ragindex("index", "plants", "--index", "w", "--json", "-").json["changed"]
    counts = (changed["removed"], changed["added"], len(changed["renamed"]))
    assert counts == ((0, 0, 9) if gone == 9 else (4, 0, 0))


def test_index_tells_what_its_parts_have_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ragindex("index", "notes", "--index", "w", "--methods", "bm25(over=triples)", "--json", "-")
    assert result.json["notes"] == ["extractions: 4 passages were read by rules, not by a language model."]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    nobody = 'openai(model=x, base_url="http://127.0.0.1:9", retries=0)'
    refused = ragindex("index", "notes", "--index", "v", "--methods", "bm25(over=triples)", "--llm", nobody)
    assert (refused.code, refused.out) == (6, "")
    assert "error: openai:x at http://127.0.0.1:9 cannot be reached (attempts: 1)" in refused.err


def test_the_chunking_of_an_index_is_given_and_changed(desk: Path) -> None:
    write(desk / "long", {"pier.md": "# Pier\n\nThe pier is closed.\n\n## Tides\n\nThe tide turns.\n"})
    chunked = ("index", "long", "--index", "w", "--methods", "bm25", "--json", "-", "--chunking")
    assert ragindex(*chunked, "passages(by=sections)").json["passages"] == 2
    assert ragindex(*chunked[:-1]).json["passages"] == 2
    assert ragindex(*chunked, "passages(size=3)").json["passages"] == 4
    report = ragindex("search", "turns", "--index", "w", "--method", "bm25", "-k", "1", "--json", "-").json
    assert [hit["id"] for hit in report["hits"]] == ["pier.md#3"]
    for wrong in ("passages", "bm25", "sentences"):
        refused = ragindex(*chunked, wrong)
        assert (refused.code, refused.out) == (2, "")
    refused = ragindex(*chunked, "passages")
    assert "A chunking is written 'passages(by=headings, size=200)'. Got 'passages' instead." in refused.err


def test_extractions_that_nothing_reads_are_refused() -> None:
    write(Path(), {"openie.json": '{"docs": []}'})
    message = failed(2, "index", "notes", "--index", "w", "--methods", "bm25,dense", "--triples", "openie.json")
    assert message == "No selected method uses triples. Try 'bm25(over=triples)'."
    assert not Path("w").exists()
    built = ragindex("index", "notes", "--index", "w", "--methods", "bm25,bm25(over=triples)")
    assert built.code == 0
    assert failed(3, "index", "--index", "w", "--methods", "bm25(over=triples)", "--triples", "questions.csv")


def test_a_workspace_among_its_documents_is_refused() -> None:
    for command in ("index", "add"):
        assert failed(2, command, "notes", "--index", "notes/w") == (
            "The index notes/w is inside the folder of its documents, notes: keep them apart. "
            "Choose another folder with --index."
        )
        assert failed(2, command, "notes", "--index", ".") == (
            "The documents notes are inside the folder of their index, .: keep them apart. "
            "Choose another folder with --index."
        )
    estimated = ("--methods", "bm25", "--llm", "openai:small", "--index", "notes/w")
    assert "is inside the folder of its documents" in failed(2, "estimate", "notes", *estimated)
    assert not Path("notes/w").exists()
    write(Path("set"), {"corpus.jsonl": '{"_id": "a", "text": "slate"}\n'})
    assert ragindex("index", "set", "--index", "set/w", "--methods", "bm25").code == 0  # one file is read, by name


def test_search_as_json(built: Path) -> None:
    value = ragindex("search", "slate", "--index", built, "--json", "-").json
    assert (value["question"], value["notes"]) == ("slate", [])
    assert [hit["doc_ids"] for hit in value["hits"]][:2] == [["quill.txt"], ["rivers/sarn.md"]]
    assert value["hits"][0]["metadata"]["quill.txt"]["source"] == "quill.txt"
    assert [step["index"] for step in value["trace"]] == ["text", "vectors"]


def test_filters(built: Path) -> None:
    def ids(*filters: str) -> list[str]:
        flags = [part for where in filters for part in ("--filter", where)]
        done = ragindex("search", "river slate", "--index", built, "--method", "bm25", *flags, "--json", "-")
        assert done.err == ""
        return sorted(hit["id"] for hit in done.json["hits"])

    assert ids() == ["quill.txt#0", "rivers/orla.md#0", "rivers/sarn.md#0"]
    assert ids("source=quill.txt") == ["quill.txt#0"]
    assert ids("source=quill.txt", "source=rivers/orla.md") == ["quill.txt#0", "rivers/orla.md#0"]
    unknown = ragindex("search", "slate", "--index", built, "--method", "bm25", "--filter", "sauce=quill.txt")
    assert (unknown.code, unknown.out) == (0, "No results with bm25.\n")
    assert unknown.err == "No document has the metadata key 'sauce'. Available: modified, source.\n"
    filters = ("--filter", "source=quill.txt", "--filter", "source=quil.txt", "--filter", "source=zzz", "--json", "-")
    misspelled = ragindex("search", "slate", "--index", built, "--method", "bm25", *filters)
    assert [hit["id"] for hit in misspelled.json["hits"]] == ["quill.txt#0"]
    assert misspelled.err.splitlines() == [
        "No document has the value 'quil.txt' of the metadata key 'source' (near it is 'quill.txt').",
        "No document has the value 'zzz' of the metadata key 'source' "
        "(values: hill.md, quill.txt, rivers/orla.md, rivers/sarn.md).",
    ]
    assert failed(2, "search", "x", "--index", built, "--filter", "a") == (
        "--filter must be KEY=VALUE. Got 'a' instead."
    )


def test_add_and_remove() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    write(Path(), {"new/mill.txt": "A mill grinds."})
    assert ragindex("add", "new", "--as", "new", "--index", "w").out == "1 document added\n"
    assert ragindex("add", "new", "--index", "w", "--json", "-").json == {
        **{"added": 0, "changed": 0, "unchanged": 1, "reread": 0, "skipped": []},
        "spent": NOTHING_SPENT,
    }
    arguments = ("search", "mill", "--index", "w", "--method", "bm25", "--json", "-")
    assert [hit["id"] for hit in ragindex(*arguments).json["hits"]] == ["new/mill.txt#0"]
    assert failed(2, "remove", "new/mill.txt", "hil.md", "--index", "w") == (
        "The index w has no document 'hil.md'. Nothing was removed. Near it is 'hill.md'."
    )
    assert failed(2, "remove", "orla.md", "--index", "w").endswith("Nothing was removed. Near it is 'rivers/orla.md'.")
    assert failed(2, "remove", "zyxomat", "--index", "w").endswith("Nothing was removed.")
    assert failed(2, "remove", "notes/rivers/orla.md", "--index", "w") == (
        "The index w has no document 'notes/rivers/orla.md'. Nothing was removed. "
        "The id of that file is 'rivers/orla.md'."
    )
    assert ragindex("remove", "new/mill.txt", "--index", "w", "--json", "-").json["removed"] == 1
    assert ragindex(*arguments).json["hits"] == []


def test_a_command_waits_for_another_writer_if_it_is_told_to() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    taken, left = Event(), Event()

    def write_elsewhere() -> None:
        with Index.open(Path("w"), create=True) as other, other.store.lease("a test"):
            taken.set()
            left.wait()

    writer = Thread(target=write_elsewhere)
    writer.start()
    taken.wait()
    message = failed(4, "remove", "hill.md", "--index", "w", "--wait", "0.1")
    assert "Another process is writing to the index: a test" in message
    assert "--wait SECONDS" in message
    Timer(0.3, left.set).start()
    done = ragindex("remove", "hill.md", "--index", "w", "--wait", "60")
    writer.join()
    assert (done.code, done.out) == (0, "1 document removed\n")


def test_files_are_selected_and_what_is_left_out_is_said() -> None:
    write(Path("docs"), {"a.md": "# A\n\nOne.", "b.log": "x" * 2000, "-y.md": "Two."})
    Path("docs/latin.txt").write_bytes("Łódź".encode("cp1250"))
    flags = ("--exclude", "b.log", "--encoding", "cp1250", "--max-file-mb", "0.001")
    done = ragindex("index", "docs", "--index", "w", "--methods", "bm25", *flags, "--json", "-")
    assert (done.json["documents"], done.err) == (3, "read as cp1250: 3 (-y.md, a.md, latin.txt)\nexcluded: 1 file\n")
    assert (
        ragindex("search", "Łódź", "--index", "w", "--method", "bm25", "--json", "-").json["hits"][0]["text"] == "Łódź"
    )
    assert ragindex("remove", "--index", "w", "--", "-y.md").out == "1 document removed\n"
    large = ragindex("index", "docs", "--index", "w", "--forget-options", "--max-file-mb", "0.001")
    assert large.code == 11
    assert "b.log: expected a file of at most 0.001 MB (or leave it out with --exclude)" in large.err
    only = ragindex("add", "docs", "--index", "w2", "--include", "*.md", "--json", "-")
    assert only.json["added"] == 2


def test_what_is_removed_locks_no_folder_out_and_is_said() -> None:
    ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    done = ragindex("remove", "hill.md", "quill.txt", "--index", "w")
    assert done.out == "2 documents removed\n"
    assert done.err.splitlines() == [
        f"{Path.cwd()}/notes/{name} still exists. Indexing its folder again adds it back."
        for name in ("hill.md", "quill.txt")
    ]
    Path("notes/quill.txt").unlink()
    Path("notes/rivers/sarn.md").unlink()
    again = ragindex("index", "./notes/", "--index", "w", "--methods", "bm25", "--json", "built.json")
    assert again.out.splitlines()[:2] == [
        "2 documents, 2 passages in w",
        "./notes/: 1 document added (hill.md), 1 removed (rivers/sarn.md), 1 unchanged",
    ]
    value = json.loads(Path("built.json").read_text(encoding="utf-8"))["changed"]
    assert value == {"added": 1, "changed": 0, "removed": 1, "unchanged": 1, "reread": 0, "renamed": {}}


def test_two_folders_with_one_file_name() -> None:
    write(Path("two"), {"a/index.md": "Slate is of a.", "b/index.md": "Copper is of b."})
    ragindex("index", "two/a", "--index", "w", "--methods", "bm25")
    for command in ("add", "index", "compare"):
        flags = ("--questions", "questions.txt") if command == "compare" else ()
        message = failed(4, command, "two/b", "--index", "w", *flags)
        assert f"{Path.cwd()}/two/a" in message
        assert f"{Path.cwd()}/two/b --as b --index w" in message
    assert ragindex("add", "two/b", "--as", "b", "--index", "w").code == 0
    write(Path(), {"copper.csv": "question,documents\nWhat is copper?,index.md\n"})
    flags = ("--questions", "copper.csv", "--methods", "bm25", "--k", "1", "--index", "w", "--json", "-")
    value = ragindex("compare", "two/b", *flags).json
    assert (value["dataset"]["documents"], value["methods"][0]["metrics"]["R@1"]) == (2, 1.0)
    assert value["notes"] == ["1 other document of the index is searched too"]
    assert ragindex("index", "two/a", "--index", "w", "--methods", "bm25", "--json", "-").json["documents"] == 2
    assert ragindex("remove", "--source", "b", "--index", "w").out == "1 document removed\n"
    assert ragindex("index", "--index", "w", "--methods", "bm25", "--json", "-").json["documents"] == 1


def test_several_paths_at_once() -> None:
    paths = ("notes/hill.md", "notes/rivers", "notes/rivers/sarn.md", "./notes")  # the first makes notes the root
    assert ragindex("add", *paths, "--index", "w").out == "4 documents added\n"


def test_documents_that_nothing_is_built_over() -> None:
    done = ragindex("add", "notes", "--index", "my work")
    assert done.out == "4 documents added\n"
    assert done.err == ("No method is built yet. Run: ragindex index --index 'my work' --methods hybrid\n")
    assert failed(4, "search", "x", "--index", "my work", "--method", "bm25", "--seed", "3") == (
        "The index my work is not built for bm25. Run: ragindex index --index 'my work' --methods bm25 --seed 3"
    )


def test_all_methods_are_estimated_as_all_are_compared() -> None:
    done = ragindex("estimate", "notes", "--methods", "all", "--llm", "openai:gpt-4o-mini", "--json", "-")
    assert {task["task"] for task in done.json["tasks"]} >= {"extract", "community_report", "entities", "propositions"}


@pytest.mark.parametrize(
    "arguments",
    [["search", "x"], ["remove", "x"], ["index"], ["compare", "--questions", "questions.csv"]],
)
def test_looking_into_a_workspace_makes_none(arguments: list[str]) -> None:
    message = failed(4, *arguments, "--index", "nowhere")
    assert message == "No index in nowhere. Run: ragindex index DATA --index nowhere"
    assert not Path("nowhere").exists()


# ---------------------------------------------------------------- compare


def test_a_workspace_is_compared_without_data(built: Path) -> None:
    arguments = ("compare", "--index", built, "--questions", "questions.csv", "--methods", "bm25", "--k", "1")
    value = ragindex(*arguments, "--json", "-").json
    assert value["dataset"]["name"] == "w"
    assert value["dataset"]["documents"] == 4
    assert value["methods"][0]["metrics"]["R@1"] == 0.75
    assert failed(2, "compare", "--index", built) == ("compare needs DATA, or --questions FILE beside --index.")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["elsewhere"], 3, "elsewhere: expected a file or a folder; found no such path."),
        (["nots"], 3, "nots: expected a file or a folder; found no such path (near it is 'notes')."),
        (["notes"], 2, "notes (folder) comes without questions. Give some: --questions FILE, a .csv"),
        (["notes", "--questions", "none.csv"], 3, "none.csv: expected a file that can be read"),
        (["notes", "--methods", "bm52"], 2, "No method is called 'bm52'. Did you mean bm25?"),
        (
            ["notes", "--encoder", "openai:x", "--methods", "dense"],
            2,
            "The encoder openai:x needs a key: set EMBEDDING_",
        ),
        (
            ["notes", "--k", "5,0"],
            2,
            "'k': Input should be one or more whole numbers in the range [1, inf), as 5,10,20",
        ),
        (["notes", "--out", "questions.csv"], 5, "Cannot write to questions.csv: "),
        (["notes", "--out", "questions.csv/deep"], 5, "Cannot write to questions.csv/deep: "),
        (["notes", "--json", "nodir/x.json"], 5, "Cannot write JSON to nodir/x.json: the folder"),
        (["notes", "--json", "notes"], 5, "Cannot write JSON to notes: it is a folder."),
        (["notes", "--index", "questions.csv"], 4, "questions.csv is not a valid index"),
        (["notes", "--config", "none.yaml"], 3, "none.yaml: expected a YAML file; found No such file"),
    ],
)
def test_what_compare_refuses(arguments: list[str], code: int, message: str) -> None:
    questions = [] if "--questions" in arguments or arguments == ["notes"] else ["--questions", "questions.csv"]
    assert failed(code, "compare", *arguments, *questions).startswith(message)
    assert not Path("ragindex-results").exists()


def test_the_place_for_results_is_looked_at_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_early(*arguments: object, **more: object) -> None:
        raise AssertionError("the comparison began")

    monkeypatch.setattr(study, "evaluate", too_early)
    write(Path(), {"study.yaml": "json: nodir/x.json\ndata: notes\nquestions: questions.csv\n"})
    assert failed(5, "compare", "--config", "study.yaml").startswith("Cannot write JSON to nodir/x.json")
    assert failed(5, "compare", "notes", "--out", "questions.csv").startswith("Cannot write to")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(desk: Path) -> None:
    (desk / "sealed").mkdir(mode=0o500)
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25")
    assert failed(5, *arguments, "--out", "sealed/o") == (
        f"Cannot write to sealed/o: no permission to write in {desk / 'sealed'}. Choose another path."
    )
    assert failed(5, *arguments, "--index", "sealed/w") == "The index sealed/w cannot be created: Permission denied."


def test_skipping_what_is_bad() -> None:
    write(Path("notes"), {"empty.txt": "", "picture.png": "x"})
    skipped = "notes/empty.txt: expected a file with text in it; found none."
    assert failed(3, "index", "notes", "--index", "w", "--strict") == skipped
    arguments = ("index", "notes", "--index", "w", "--methods", "bm25", "--json", "-")
    done, skipping = ragindex(*arguments), ragindex(*arguments, "--skip-bad")
    assert (done.code, skipping.code) == (11, 0)
    assert done.json["documents"] == skipping.json["documents"] == 4
    assert done.json["skipped"] == [skipped]
    assert skipping.err.splitlines() == ["ignored: 1 picture (picture.png)", f"skipped: {skipped}"]
    assert done.err.splitlines() == [
        *skipping.err.splitlines(),
        "error: 1 file that cannot be read was left out, as listed above; everything else is done. Repair or remove "
        "them and run the command again, leave them out with --skip-bad, or stop at the first one with --strict.",
    ]


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if it were not installed
    flags = ("--questions", "questions.csv", "--encoder", "sentence-transformers:some-model")
    message = failed(2, "compare", "notes", *flags, "--methods", "dense")
    assert message.endswith(
        "needs the package sentence-transformers, which is not installed. Run: pip install 'sentence-transformers>=5'"
    )
    done = ragindex("compare", "notes", *flags, "--methods", "bm25", "--json", "-")
    assert [method["label"] for method in done.json["methods"]] == ["bm25"]


def test_a_guessed_encoding_is_told(desk: Path) -> None:
    (desk / "notes" / "cafe.txt").write_bytes("Le café était très bon, près de la plage.".encode("cp1252"))
    done = ragindex("index", "notes", "--index", "w", "--methods", "bm25")
    assert (done.code, done.err) == (0, "read as cp1252: 1 (cafe.txt)\n")
    arguments = ("compare", "notes", "--questions", "questions.csv", "--methods", "bm25", "--json", "-")
    assert "read as cp1252: 1 (cafe.txt)" in ragindex(*arguments).json["details"]
    assert ragindex("search", "plage", "--index", "w", "--method", "bm25", "--json", "-").json["hits"][0]["text"] == (
        "Le café était très bon, près de la plage."
    )
