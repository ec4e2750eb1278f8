"""A model as judge: the task that grades one document for one question, asked for the whole pool."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import regex
from pydantic import BaseModel

from ragindex._util.progress import progress_bar
from ragindex.corpus.judgements import GRADES, add_judgement
from ragindex.interfaces.llm import LLM
from ragindex.llm.tasks import Failure, Task, answers_can_wait
from ragindex.text_analysis import analyse
from ragindex_eval.judge.pool import Pool, PooledDocument, PooledQuestion
from ragindex_eval.judge.session import Grades, read_pair_grades

MODEL_FOLDER = "model"
"""The folder of the model's judgements, in that of the person's."""
_BATCH = 64  # documents asked of the model before their grades are saved
_YES, _PARTLY = 0.6, 0.4  # shares of the question's words, by the rule
_WORD = regex.compile(r"\b(yes|partly|no)\b", regex.IGNORECASE)
_GRADE_OF = {name: grade for grade, name in GRADES.items()}


class RelevanceOutput(BaseModel):
    """Whether a document helps to answer a question."""

    relevant: Literal["yes", "partly", "no"]


def judge_by_rule(inputs: Mapping[str, Any]) -> RelevanceOutput:
    """Judge by the share of the question's words that the document has: yes from 60 %, partly from 40 %.

    Only a stand-in for a model: it does not read.
    """
    words = set(analyse(inputs["question"], inputs["language"]))
    passage_words = set(analyse(" ".join([inputs["title"], *inputs["passages"]]), inputs["language"]))
    share = len(words & passage_words) / len(words) if words else 0.0
    return RelevanceOutput(relevant="yes" if share >= _YES else "partly" if share >= _PARTLY else "no")


def read_relevance(text: str) -> RelevanceOutput:
    """Return the one answer in a plain text. Raises ValueError if it has none, or several."""
    words = {word.lower() for word in _WORD.findall(text)}
    if len(words) != 1:
        raise ValueError("it does not say yes, partly or no")
    return RelevanceOutput.model_validate({"relevant": words.pop()})


JUDGE = Task(
    name="judge",
    version=1,
    prompt=Path(__file__).with_name("prompts") / "judge.jinja",
    output=RelevanceOutput,
    rule=judge_by_rule,
    max_tokens=64,
    read=read_relevance,
)


def judge_pool(pool: Pool, llm: LLM, language: str, folder: Path) -> int:
    """Let the model judge every document of the pool, and save its grades in `folder`; return how many failed.

    What it has judged before comes from the cache of LLM calls. Grades are saved batch by batch. A document without a
    usable answer has no grade, and is asked for again the next time, unless it had two charged answers that cannot be
    used (see `LLMError`). Raises the errors of `LLM.map`.
    """
    pair_grades, failed = read_pair_grades(folder), 0
    pairs = [(question, document) for question in pool.questions for document in question.documents]
    size = max(_BATCH, llm.batch_size)
    with progress_bar(f"{llm.id}: judging", len(pairs)) as advance, answers_can_wait():
        for start in range(0, len(pairs), size):
            batch = pairs[start : start + size]
            inputs = (_inputs(question, document, language) for question, document in batch)
            answers = llm.map(JUDGE, inputs, again=True, progress=advance)
            failed += sum(isinstance(answer, Failure) for answer in answers)
            for (question, document), grade in _usable(batch, answers):
                if pair_grades.get((question.id, document.id)) != grade:
                    add_judgement(folder, question.text, document.id, grade)
    return failed


def count_judgements(pool: Pool, llm: LLM, language: str) -> None:
    """Ask a model that counts for every judgement of the pool; nothing is saved."""
    pairs = [(question, document) for question in pool.questions for document in question.documents]
    llm.map(JUDGE, [_inputs(question, document, language) for question, document in pairs])


def _inputs(question: PooledQuestion, document: PooledDocument, language: str) -> dict[str, Any]:
    return {
        "question": question.text,
        "title": document.title,
        "passages": list(document.passages),
        "language": language,
    }


def _usable(
    batch: list[tuple[PooledQuestion, PooledDocument]], answers: "list[RelevanceOutput | Failure]"
) -> Iterator[tuple[tuple[PooledQuestion, PooledDocument], int]]:
    for pair, answer in zip(batch, answers, strict=True):
        if not isinstance(answer, Failure):
            yield pair, _GRADE_OF[answer.relevant]


def read_model_grades(folder: Path) -> Grades:
    """Return the grades of the model that judged the pool in `folder`; none if no model has."""
    return read_pair_grades(folder / MODEL_FOLDER)
