"""The command `ask`: a question answered from a workspace, with the passages that the answer rests on."""

from typing import Annotated, Any

import typer
from rich.text import Text

from ragindex.accounting import ledger, spending
from ragindex.cli import open_retriever
from ragindex.cli.console import (
    BudgetOption,
    EncoderOption,
    JsonOption,
    LlmOption,
    NoCacheOption,
    SeedOption,
    StoreOption,
    WorkspaceOption,
    clean,
    emit,
    existing,
    out,
    seed_of,
)
from ragindex.errors import UsageError
from ragindex.llm import answer_question
from ragindex.llm.answer_question import Answered, Context
from ragindex.llm.budget import limited
from ragindex.llm.offline import called
from ragindex.llm.settings import LLMSettings
from ragindex.plugins import registry
from ragindex.types import Query, Retrieval
from ragindex.workspace.workspace import Workspace

_NOT_HELD = "The passages that were found do not hold the answer."
_NOTHING = "Nothing was found that could hold the answer."


def ask(
    question: Annotated[str, typer.Argument(help="What to answer.")],
    workspace: WorkspaceOption,
    method: Annotated[str, typer.Option(metavar="NAME", help="The method that finds the passages.")] = "hybrid",
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="How many hits it finds.")] = 10,
    llm: LlmOption = None,
    budget: BudgetOption = None,
    no_cache: NoCacheOption = False,
    reader_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many tokens of what was found are read.")
    ] = answer_question.DEFAULT_TOKENS,
    encoder: EncoderOption = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    json: JsonOption = None,
) -> None:
    """Answer a question in a few words, and name the passages that the answer rests on; or say that none holds it.

    Example: ragindex ask "Who wrote the report?" --index my-index --method hybrid
    """
    if not question.strip():
        raise UsageError("The question is empty. Ask something.")
    scheme, asked_seed = registry.scheme(method), seed_of(existing(workspace), seed)
    asking = LLMSettings(budget=limited(budget))
    with (
        Workspace.open(
            workspace,
            llm=llm,
            encoder=encoder,
            store=store,
            seed=asked_seed,
            asking=asking,
            keep_calls=not no_cache,
        ) as opened,
        ledger.attributed("query", method),
        ledger.recording() as paid,
    ):
        opened.require_prices([scheme], reads=True)
        retriever = open_retriever.opened(opened, scheme, {"--encoder": encoder, "--llm": llm, "--seed": seed})
        found = retriever.retrieve([Query("question", question)], k)[0]
        seen = answer_question.context(found.hits, found.notes, reader_tokens, opened.tokens_counted_by)
        answer, by_rules = _read(opened, question, seen)
        name = opened.llm_name
    value = _as_json(question, answer, seen, found) | {"llm": name, "rules": by_rules, "spent": spending.as_json(paid)}

    def show() -> None:
        _show(answer, seen, found, called(name))
        if (said := spending.sentence(paid)) is not None:
            out().print(Text(clean(said), style="dim"))

    emit(value, json, show)


def _read(opened: Workspace, question: str, seen: Context) -> tuple[Answered, bool]:
    """The answer, and whether the rules gave it. A model is not asked where there is nothing to read."""
    if not seen.passages and not seen.notes:
        return Answered("", found=False), False
    with ledger.recording() as tally:
        said = opened.llm.run(answer_question.ANSWER, answer_question.inputs(question, seen, opened.language))
    return answer_question.answered(said, seen), tally.rules > 0


def _as_json(question: str, answer: Answered, seen: Context, found: Retrieval) -> dict[str, Any]:
    """`passages` are all that were read, `rests_on` the numbers of those that the answer rests on."""
    documents = {hit.id: list(hit.doc_ids) for hit in found.hits}
    passages = [
        {"number": one.number, "id": one.hit_id, "doc_ids": documents[one.hit_id], "title": one.title, "text": one.text}
        for one in seen.passages
    ]
    said = {"answer": answer.answer, "found": answer.found, "rests_on": list(answer.passages)}
    return {"question": question, **said, "passages": passages, "tokens": seen.tokens}


def _show(answer: Answered, seen: Context, found: Retrieval, who: str) -> None:
    """The answer and what it rests on; where it is not held, what was read."""
    if not seen.passages and not seen.notes:
        out().print(_NOTHING)
        return
    out().print(Text(clean(answer.answer), style="bold") if answer.found else _NOT_HELD)
    documents = {hit.id: ", ".join(hit.doc_ids) for hit in found.hits}
    for one in seen.passages:
        if one.number in answer.passages or not answer.found:
            name = Text.assemble((f"[{one.number}] {clean(one.title or one.hit_id)}", "bold"), "  ")
            out().print(name.append(clean(documents[one.hit_id]), style="dim"))
        if answer.found and one.number in answer.passages:
            out().print(Text(clean(one.text)))
    if answer.found and not answer.passages:
        out().print("It names no passage that it rests on.")
    read = f"{len(seen.passages)} of {len(found.hits)} hits read, {seen.tokens} tokens"
    out().print(Text(clean(f"Answered by {who}; {read}."), style="dim"))
