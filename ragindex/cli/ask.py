"""The command `ask`: answer a question from the passages that a method finds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

from ragindex._util.text import many
from ragindex.accounting import ledger
from ragindex.cli.console import (
    command_spending,
    print_note,
    require_question,
    stdout,
    strip_controls,
    write_result,
)
from ragindex.cli.hits import (
    QuestionOptions,
    describe_question_words,
    find_words_in_passages,
    mark_words,
    open_retriever,
)
from ragindex.cli.option_groups import group_of, with_groups
from ragindex.cli.options import IndexOption, JsonOption, NoCacheOption
from ragindex.errors import UsageError
from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import (
    ANSWER,
    AnswerContext,
    CitedAnswer,
    ContextLimits,
    NumberedPassage,
    answer_inputs,
    resolve_citations,
)
from ragindex.llm.offline import is_offline
from ragindex.llm.tokens import DEFAULT_TOKENS
from ragindex.plugins import registry
from ragindex.retrieval.formatting import format_positions, position_to_json
from ragindex.retrieval.matching import MatchedWords, cite_evidence, find_matching_evidence
from ragindex.types import Query, Retrieval

_NO_ANSWER = "The retrieved passages do not contain the answer."
_NO_PASSAGES = "No passages were retrieved."
_NOT_COMPOSED = "No answer was composed: no model is set. Set one with --llm openai:MODEL, and OPENAI_API_KEY."
_SCATTERED = "no hit contains enough of the question's words"


@dataclass(frozen=True, slots=True)
class AnswerOptions(QuestionOptions):
    """What an index is opened with for one question, and whether its answers are kept."""

    no_cache: NoCacheOption = False


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """Which model answers, and from how much of what was found."""

    reader_llm: Annotated[
        str | None, typer.Option(metavar="L", help="The model that answers, as openai:MODEL. Default: that of --llm.")
    ] = None
    reader_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"The most tokens that it is given. Default: {DEFAULT_TOKENS}, or no limit with --reader-passages.",
        ),
    ] = None
    reader_passages: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The most hits that it is given, in full. Default: all.")
    ] = None
    reader_input: Annotated[
        Literal["notes", "passages"],
        typer.Option(metavar="WHAT", help="What a method noted and its hits (notes), or the hits alone (passages)."),
    ] = "notes"

    def limits(self) -> ContextLimits:
        """Return what the reader is given."""
        return ContextLimits.of(self.reader_tokens, self.reader_passages, notes=self.reader_input == "notes")


@with_groups
def ask(
    question: Annotated[str, typer.Argument(help="The question to answer.")],
    folder: IndexOption,
    models: Annotated[AnswerOptions, group_of(AnswerOptions, "Index and models")],
    reading: Annotated[ReaderOptions, group_of(ReaderOptions, "Answers")],
    method: Annotated[str, typer.Option(metavar="NAME", help="Method that retrieves the passages.")] = "hybrid",
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Number of hits to retrieve.")] = 10,
    json: JsonOption = None,
) -> None:
    """Answer a question in a few words, and cite the passages that support the answer.

    Without a model, show the sentences that match the question; compose no answer.

    Example: ragindex ask "Who wrote the report?" --index my-index --method hybrid
    """
    require_question(question)
    if models.no_cache and models.cache is not None:
        raise UsageError("--no-cache keeps no answers, and --cache names a file for them. Leave out one of them.")
    scheme = registry.scheme(method)
    with (
        models.open_index(scheme, folder, keep_calls=not models.no_cache, reader=reading.reader_llm) as index,
        ledger.attribute_calls("query", method),
    ):
        reader = index.model_for(reading.reader_llm)
        index.require_prices([scheme], also=reader.plugin)
        retriever = open_retriever(index, scheme)
        (retrieval,) = index.positions(scheme).locate(retriever.retrieve([Query("question", question)], k))
        context = reading.limits().build(retrieval, reader.tokens_counted_by)
        name, language, used = reader.name, index.language, index.encoder_of(scheme)
        evidence = find_matching_evidence(question, context, language) if is_offline(name) else None
        answer = (
            _answer(reader.language, question, context, language)
            if evidence is None
            else cite_evidence(evidence, context)
        )
        missing = [] if answer.found or evidence is None else evidence.missing
        elsewhere = list(find_words_in_passages(index, scheme, missing))
        unknown, llm = describe_question_words(index, scheme, question), index.llm_name
    value = _to_json(question, answer, context, retrieval, evidence)
    value |= {"encoder": used, "llm": llm, "reader": name, "rules": is_offline(name), "spent": command_spending()}

    def show() -> None:
        if not context.passages and not context.notes:
            stdout().print(_NO_PASSAGES)
        elif evidence is None:
            _show(answer, context, retrieval, name)
        else:
            _show_evidence(evidence, context, retrieval, language, elsewhere)
        if unknown:
            print_note(unknown)

    write_result(value, json, show)


def _answer(llm: LLM, question: str, context: AnswerContext, language: str) -> CitedAnswer:
    """Return the model's answer. Without context, do not call it."""
    if not context.passages and not context.notes:
        return CitedAnswer("", found=False)
    return resolve_citations(llm.run(ANSWER, answer_inputs(question, context, language)), context)


def _to_json(
    question: str, answer: CitedAnswer, context: AnswerContext, retrieval: Retrieval, evidence: MatchedWords | None
) -> dict[str, Any]:
    """Return the result as JSON: all `passages` of the context, and in `rests_on` the numbers of the cited ones.

    Without a model, `answer` is empty; `sentences` match, and the words in `missing` are in no passage.
    """
    hits = {hit.id: hit for hit in retrieval.hits}
    passages = [
        {
            "number": passage.number,
            "id": passage.hit_id,
            "doc_ids": list(hits[passage.hit_id].doc_ids),
            "positions": [position_to_json(position) for position in hits[passage.hit_id].positions],
            "title": passage.title,
            "text": passage.text,
        }
        for passage in context.passages
    ]
    support = {"answer": answer.answer, "found": answer.found, "rests_on": list(answer.passages)}
    sentences = [] if evidence is None else [{"passage": number, "text": text} for number, text in evidence.sentences]
    matched = {"sentences": sentences, "missing": [] if evidence is None else evidence.missing}
    return {"question": question, **support, **matched, "passages": passages, "tokens": context.tokens}


def _show(answer: CitedAnswer, context: AnswerContext, retrieval: Retrieval, answered_by: str) -> None:
    """Print the answer and the passages that support it; without an answer, the titles of all passages."""
    stdout().print(Text(strip_controls(answer.answer), style="bold") if answer.found else _NO_ANSWER)
    for passage in context.passages:
        if passage.number in answer.passages or not answer.found:
            _print_heading(passage, retrieval)
        if answer.found and passage.number in answer.passages:
            stdout().print(Text(strip_controls(passage.text)))
    if answer.found and not answer.passages:
        stdout().print("The answer cites no passage.")
    _print_end(f"Answered by {answered_by}; {_describe_context(context, retrieval)}.")


def _show_evidence(
    evidence: MatchedWords, context: AnswerContext, retrieval: Retrieval, language: str, elsewhere: Sequence[str]
) -> None:
    """Print the matching sentences below their passages; if nothing was found, the titles of all passages.

    `elsewhere` are the missing words that other passages of the index contain.
    """
    if not evidence.sentences:
        lacking = f"no hit contains {', '.join(evidence.missing)}" if evidence.missing else _SCATTERED
        others = ""
        if elsewhere:
            others = f" Other passages contain {', '.join(elsewhere)}: try --method bm25, or a larger --k."
        stdout().print(Text(strip_controls(f"Nothing was found: {lacking}.{others} The nearest passages:")))
    for passage in context.passages:
        sentences = [text for number, text in evidence.sentences if number == passage.number]
        if sentences or not evidence.sentences:
            _print_heading(passage, retrieval)
        for sentence in sentences:
            stdout().print(mark_words(sentence, evidence.words, language))
    for number, sentence in evidence.sentences:
        if number is None:
            stdout().print(Text.assemble(("note: ", "bold"), mark_words(sentence, evidence.words, language)))
    _print_end(f"{_NOT_COMPOSED} {_describe_context(context, retrieval).capitalize()}.")


def _print_heading(passage: NumberedPassage, retrieval: Retrieval) -> None:
    hit = next(hit for hit in retrieval.hits if hit.id == passage.hit_id)
    place = format_positions(hit.positions, hit.title) or ", ".join(hit.doc_ids)
    title = f"[{passage.number}] {strip_controls(passage.title or passage.hit_id)}"
    stdout().print(Text.assemble((title, "bold"), "  ", (strip_controls(place), "dim")))


def _describe_context(context: AnswerContext, retrieval: Retrieval) -> str:
    return f"{len(context.passages)} of {many(len(retrieval.hits), 'hit')} read, {many(context.tokens, 'token')}"


def _print_end(line: str) -> None:
    stdout().print(Text(strip_controls(line), style="dim"))
