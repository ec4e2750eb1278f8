"""What passages hold of a question where no model composes an answer: matching sentences, and missing words."""

from dataclasses import dataclass

from ragindex.llm.answer_question import AnswerContext, CitedAnswer
from ragindex.retrieval.matching import (
    QuestionWord,
    find_matching_sentences,
    find_missing,
    find_question_words,
    holds_question,
)

_SHOWN_SENTENCES = 5


@dataclass(frozen=True, slots=True)
class MatchedWords:
    """What is shown where no model composes an answer: the question's words, and those that no passage contains.

    `sentences` are those that match best, with the numbers of their passages (None for a method's note).
    """

    words: list[QuestionWord]
    missing: list[str]
    sentences: list[tuple[int | None, str]]


def find_matching_evidence(question: str, context: AnswerContext, language: str) -> MatchedWords:
    """Match the question's words with the context. There are no sentences if it has too few of the words."""
    words = find_question_words(question, language)
    numbers = [*(passage.number for passage in context.passages), *(None for _ in context.notes)]
    texts = [*(passage.text for passage in context.passages), *context.notes]
    titled = [*(f"{passage.title}\n{passage.text}" for passage in context.passages), *context.notes]
    enough = holds_question(words, titled, language)
    matching = find_matching_sentences(texts, words, language, _SHOWN_SENTENCES) if enough else []
    sentences = [(numbers[place], sentence) for place, sentence in matching]
    return MatchedWords(words, find_missing(question, words, titled, language), sentences)


def cite_evidence(evidence: MatchedWords, context: AnswerContext) -> CitedAnswer:
    """Return an empty answer that cites the passages with matching sentences."""
    ids = {passage.number: passage.hit_id for passage in context.passages}
    cited = {number: ids[number] for number, _ in evidence.sentences if number is not None}
    return CitedAnswer("", bool(evidence.sentences), cited, context.tokens)
