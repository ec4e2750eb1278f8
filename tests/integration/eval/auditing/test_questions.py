"""Questions under audit, with documents in a folder."""

import json
from pathlib import Path

import pytest
from command_line import write

from ragindex.errors import DataError
from ragindex_eval.auditing.questions import QuestionAudit, audit_questions

TEXTS = {
    "docs/mill.md": "# The mill of Ely\nIt was built by Ada Hill.",
    "docs/copy.md": "# The mill of Ely\nIt was built  by Ada Hill.",
    "docs/leak.md": "# Who built the mill? A question\nAda Hill did.",
    "docs/ada.md": "# Ada Hill, a life\nShe was born in 1871.",
}
QUESTIONS = (
    "question,answer,documents\n"
    "Who built the mill?,Ada Hill,mill.md\n"
    "who built  the mill,Ada Hill,mill.md\n"
    "When was Ada Hill born?,1871,ada.md\n"
    "Is the mill of Ely old?,yes,mill.md\n"
    "What became of the barn?,ashes,barn.md\n"
)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {**TEXTS, "questions.csv": QUESTIONS})


def counts(audit: QuestionAudit) -> dict[str, int | None]:
    names = ("duplicates", "left_out", "without_gold", "in_titles", "answer_in_titles", "naming")
    return {name: getattr(audit, name) for name in names}


def test_questions_with_documents() -> None:
    audit = audit_questions(Path("questions.csv"), Path("docs"))
    assert (audit.questions, audit.documents) == (4, 4)
    assert counts(audit) == {
        "duplicates": 1,
        "left_out": 1,
        "without_gold": 0,
        "in_titles": 2,
        "answer_in_titles": 2,  # Ada Hill; neither the year nor `yes`
        "naming": 1,
    }
    assert (audit.duplicate_documents, audit.duplicate_gold) == (1, 1)
    assert audit.examples["duplicates"] == ("who built  the mill",)
    assert "barn.md" in audit.examples["left_out"][0]


def test_questions_alone() -> None:
    audit = audit_questions(Path("questions.csv"), None)
    assert (audit.questions, audit.duplicates, audit.documents, audit.in_titles) == (5, 1, None, None)
    lines = "".join(json.dumps({"question": text}) + "\n" for text in ("Why?", "Who?", "Why ?"))
    Path("q.jsonl").write_text(lines)
    assert (audit_questions(Path("q.jsonl"), None).questions, audit_questions(Path("q.jsonl"), None).duplicates) == (
        3,
        1,
    )
    Path("q.txt").write_text("Why?\n\nWho?\n")
    assert audit_questions(Path("q.txt"), None).questions == 2


def test_data_set_with_its_own_questions() -> None:
    audit = audit_questions(None, Path("world:100"))
    assert audit.questions > 50
    assert (audit.duplicates, audit.left_out, audit.without_gold) == (0, 0, 0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.csv", "text\nWhy?\n", "expected a header with question; found text"),
        ("q.jsonl", '{"answer": 1}\n', 'expected a "question" in each line'),
        ("q.jsonl", "{\n", "expected JSON in each line"),
        ("q.txt", "\n", "expected at least one question; found none"),
    ],
)
def test_file_without_questions(name: str, text: str, message: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(DataError) as raised:
        audit_questions(Path(name), None)
    assert message in str(raised.value)
