"""An answer to a question from a retrieval, as commands and the evaluator ask for it."""

from ragindex.interfaces.llm import LLM
from ragindex.llm.answer_question import (
    ANSWER,
    CitedAnswer,
    answer_inputs,
    build_context,
    resolve_citations,
)
from ragindex.llm.tokens import DEFAULT_TOKENS
from ragindex.types import Retrieval


def answer_from_retrieval(
    llm: LLM, question: str, retrieval: Retrieval, tokens: int = DEFAULT_TOKENS, *, model: str = ""
) -> CitedAnswer:
    """Raises the same errors as `LLM.run`."""
    context = build_context(retrieval.hits, retrieval.notes, tokens, model)
    return resolve_citations(llm.run(ANSWER, answer_inputs(question, context)), context)
