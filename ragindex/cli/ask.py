"""The command `ask`: answer a question from the passages that a method finds."""

from typing import Annotated, Any

import typer
from rich.text import Text

from ragindex.accounting import ledger
from ragindex.accounting.spending import spending_to_json
from ragindex.cli.console import (
    print_spending,
    require_question,
    stdout,
    strip_controls,
    write_result,
)
from ragindex.cli.open_retriever import open_retriever
from ragindex.cli.options import (
    BudgetOption,
    EncoderOption,
    IndexOption,
    JsonOption,
    LlmOption,
    NoCacheOption,
    SeedOption,
    StoreOption,
)
from ragindex.llm.answer_question import (
    ANSWER,
    DEFAULT_TOKENS,
    AnswerContext,
    CitedAnswer,
    answer_inputs,
    build_context,
    resolve_citations,
)
from ragindex.llm.budget import parse_budget
from ragindex.llm.offline import display_name
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.retrieval.positions import format_positions, position_to_json
from ragindex.types import Query, Retrieval
from ragindex.workspace.workspace import Workspace

_NO_ANSWER = "The retrieved passages do not contain the answer."
_NO_PASSAGES = "No passages were retrieved."


def ask(
    question: Annotated[str, typer.Argument(help="The question to answer.")],
    folder: IndexOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="Method that retrieves the passages.")] = "hybrid",
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Number of hits to retrieve.")] = 10,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    no_cache: NoCacheOption = False,
    reader_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="Token budget of the context.")
    ] = DEFAULT_TOKENS,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Answer a question in a few words, and cite the passages that support the answer.

    Example: ragindex ask "Who wrote the report?" --index my-index --method hybrid
    """
    require_question(question)
    scheme = registry.scheme(method)
    with (
        Workspace.open(
            folder,
            create=False,
            llm=llm,
            encoder=encoder,
            store=store,
            seed=seed,
            asking=LLMSettings(budget=parse_budget(budget)),
            keep_calls=not no_cache,
        ) as workspace,
        ledger.attribute_calls("query", method),
        ledger.record_calls() as paid,
    ):
        workspace.require_prices([scheme], reads=True)
        retriever = open_retriever(workspace, scheme, {"--encoder": encoder, "--llm": llm, "--seed": seed})
        (retrieval,) = workspace.positions(scheme).locate(retriever.retrieve([Query("question", question)], k))
        context = build_context(retrieval.hits, retrieval.notes, reader_tokens, workspace.tokens_counted_by)
        answer, by_rules = _answer(workspace, question, context)
        name = workspace.llm_name
    value = _to_json(question, answer, context, retrieval)
    value |= {"llm": name, "rules": by_rules, "spent": spending_to_json(paid)}

    def show() -> None:
        _show(answer, context, retrieval, display_name(name))
        print_spending(paid)

    write_result(value, json, show)


def _answer(workspace: Workspace, question: str, context: AnswerContext) -> tuple[CitedAnswer, bool]:
    """Return the answer, and whether offline rules gave it. Without context, do not call the LLM."""
    if not context.passages and not context.notes:
        return CitedAnswer("", found=False), False
    with ledger.record_calls() as tally:
        output = workspace.llm.run(ANSWER, answer_inputs(question, context, workspace.language))
    return resolve_citations(output, context), tally.rules > 0


def _to_json(question: str, answer: CitedAnswer, context: AnswerContext, retrieval: Retrieval) -> dict[str, Any]:
    """Return the result as JSON: all `passages` of the context, and in `rests_on` the numbers of the cited ones."""
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
    return {"question": question, **support, "passages": passages, "tokens": context.tokens}


def _show(answer: CitedAnswer, context: AnswerContext, retrieval: Retrieval, answered_by: str) -> None:
    """Print the answer and the passages that support it; without an answer, the titles of all passages."""
    if not context.passages and not context.notes:
        stdout().print(_NO_PASSAGES)
        return
    stdout().print(Text(strip_controls(answer.answer), style="bold") if answer.found else _NO_ANSWER)
    places = {hit.id: format_positions(hit.positions, hit.title) or ", ".join(hit.doc_ids) for hit in retrieval.hits}
    for passage in context.passages:
        if passage.number in answer.passages or not answer.found:
            title = f"[{passage.number}] {strip_controls(passage.title or passage.hit_id)}"
            heading = Text.assemble((title, "bold"), "  ", (strip_controls(places[passage.hit_id]), "dim"))
            stdout().print(heading)
        if answer.found and passage.number in answer.passages:
            stdout().print(Text(strip_controls(passage.text)))
    if answer.found and not answer.passages:
        stdout().print("The answer cites no passage.")
    read = f"{len(context.passages)} of {len(retrieval.hits)} hits read, {context.tokens} tokens"
    stdout().print(Text(strip_controls(f"Answered by {answered_by}; {read}."), style="dim"))
