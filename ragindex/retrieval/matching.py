"""Which words of a question stand in a text, and where: for showing hits, and for deciding that nothing was found.

Only words are compared, never scores, so the result does not depend on the method that found the text.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import regex

from ragindex.english import MAX_TEXT_LENGTH, find_sentences
from ragindex.llm.answer_question import AnswerContext, CitedAnswer
from ragindex.text_analysis import analyse, is_unspaced, listed_stop_words, token_spans

FOUND_TOGETHER, FOUND_IN_ONE = 2 / 3, 2 / 5
"""The least shares of a question's words that all texts together, and the best single text, must contain.

Chosen on questions of HotpotQA's training set over their own passages and MuSiQue's questions over the same passages.
"""

_LINE_BREAK = regex.compile(r"(?<=[^\n]{60})\n(?![^\S\n]*(?:[*+•-]\s|\d+[.)]\s|[#>|\n]|\Z))")
"""The end of a full line inside a paragraph; the next line begins no list item, heading or table row."""
_FENCED = regex.compile(
    r"^[ ]{0,3}(?P<fence>(?P<mark>[`~])(?P=mark){2,})[^\n`]*\n.*?(?:^[ ]{0,3}(?P=fence)(?P=mark)*[ \t]*$|\Z)",
    regex.MULTILINE | regex.DOTALL,
)
"""A block of code between fences, as Markdown has it; one without an end goes on to the end of the text."""
_HANGUL = regex.compile(r"\p{Hangul}")


@dataclass(frozen=True, slots=True)
class QuestionWord:
    """An informative word, `question[start:end]`, which a text contains if it has one of `tokens`.

    In scripts without spaces it is a single character with half a word's weight, which a text contains if it has a pair
    of characters with it. A Korean word is its first two syllables, because particles and endings follow.
    """

    start: int
    end: int
    weight: float
    tokens: frozenset[str]


def find_question_words(question: str, language: str) -> list[QuestionWord]:
    """Return the words of a question that are not listed stop words; all its words if every one is listed."""
    runs = list(_find_runs(question, token_spans(question, language)))
    return _select_words(question, runs, listed_stop_words(language)) or _select_words(question, runs, frozenset())


def share_found(words: Sequence[QuestionWord], tokens: Set[str]) -> float:
    """Return the share of the words, by weight, that are among the tokens of a text; 0 without words."""
    weight = sum(word.weight for word in words if not tokens.isdisjoint(word.tokens))
    return weight / sum(word.weight for word in words) if words else 0.0


def find_missing(question: str, words: Sequence[QuestionWord], texts: Sequence[str], language: str) -> list[str]:
    """Return the words of the question that are in none of the texts; neighbouring characters are one word."""
    tokens = {token for text in texts for token in analyse(text, language)}
    spans: list[tuple[int, int]] = []
    for word in words:
        if tokens.isdisjoint(word.tokens):
            start = spans.pop()[0] if spans and spans[-1][1] == word.start else word.start
            spans.append((start, word.end))
    return [question[start:end] for start, end in spans]


def holds_question(words: Sequence[QuestionWord], texts: Sequence[str], language: str) -> bool:
    """Return whether the texts contain enough of the question's words: `FOUND_TOGETHER` and `FOUND_IN_ONE`."""
    token_sets = [frozenset(analyse(text, language)) for text in texts]
    best = max((share_found(words, tokens) for tokens in token_sets), default=0.0)
    return share_found(words, frozenset().union(*token_sets)) >= FOUND_TOGETHER and best >= FOUND_IN_ONE


def find_matches(text: str, words: Sequence[QuestionWord], language: str) -> list[tuple[int, int]]:
    """Return the ranges of a text that match a word."""
    word_tokens = frozenset[str]().union(*(word.tokens for word in words))
    return [(start, end) for token, start, end in token_spans(text, language) if token in word_tokens]


def find_matching_sentences(
    texts: Sequence[str], words: Sequence[QuestionWord], language: str, count: int
) -> list[tuple[int, str]]:
    """Return the `count` sentences with the largest share of the words, as (number of the text, sentence), in order.

    Sentences without any of the words are left out, and so is code between fences; of equals, the first are returned.
    """
    proses = [_FENCED.sub("\n", text[:MAX_TEXT_LENGTH]) for text in texts]
    sentences = [
        (number, " ".join(prose[start:end].split()))
        for number, prose in enumerate(proses)
        for start, end in _split_sentences(prose)
    ]
    shares = [share_found(words, frozenset(analyse(sentence, language))) for _, sentence in sentences]
    best = sorted(range(len(sentences)), key=lambda place: -shares[place])[:count]
    return [sentences[place] for place in sorted(best) if shares[place]]


def find_window(text: str, words: Sequence[QuestionWord], language: str, longest: int) -> tuple[int, int]:
    """Return the range of at most `longest` characters with the largest share of the words; the first of equals.

    It begins and ends with a sentence; a sentence that is longer is cut between words.
    """
    pieces = [piece for span in _split_sentences(text) for piece in _cut_at_spaces(text, *span, longest)]
    token_sets = [frozenset(analyse(text[start:end], language)) for start, end in pieces]
    best, best_share, last = (0, 0), -1.0, 0
    for first, (start, _) in enumerate(pieces):
        while last < len(pieces) and pieces[last][1] - start <= longest:
            last += 1
        share = share_found(words, frozenset().union(*token_sets[first:last]))
        if share > best_share:
            best, best_share = (start, pieces[last - 1][1]), share
    return best


def _find_runs(question: str, spans: Sequence[tuple[str, int, int]]) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the tokens of each word; a run of characters in scripts without spaces is one word."""
    run: list[tuple[str, int, int]] = []
    end = 0
    for token in spans:
        touches = token[1] == end and is_unspaced(question[max(0, end - 1) : token[2]])
        if run and token[1] >= end and not touches:
            yield run
            run = []
        run.append(token)
        end = max(end, token[2])
    if run:
        yield run


def _select_words(
    question: str, runs: Sequence[Sequence[tuple[str, int, int]]], stops: frozenset[str]
) -> list[QuestionWord]:
    words: list[QuestionWord] = []
    for run in runs:
        bounds = sorted({bound for _, *span in run for bound in span})
        start, end = bounds[0], bounds[-1]
        if _HANGUL.match(question, start):
            if _begins_with_content(question, start, end, stops):
                words.append(QuestionWord(start, end, 1.0, frozenset([run[0][0]])))
        elif len(bounds) > 2:
            words += _select_characters(question, run, bounds, stops)
        elif not stops.issuperset(analyse(question[start:end], "none")):
            words.append(QuestionWord(start, end, 1.0, frozenset(token for token, _, _ in run)))
    return words


def _begins_with_content(question: str, start: int, end: int, stops: frozenset[str]) -> bool:
    """Return whether a Korean word begins at `start`, and not with a stop word (whose pair is no token)."""
    inside = bool(stops) and start > 0 and is_unspaced(question[start - 1])
    return not inside and not any(len(stop) > 1 and question.startswith(stop, start, end) for stop in stops)


def _select_characters(
    question: str, run: Sequence[tuple[str, int, int]], bounds: Sequence[int], stops: frozenset[str]
) -> Iterator[QuestionWord]:
    """Yield the characters of a run of pairs that are in no stop word, each with the pairs that contain it."""
    text = question[bounds[0] : bounds[-1]]
    stopped = {
        bounds[0] + place
        for stop in stops
        for match in regex.finditer(regex.escape(stop), text)
        for place in range(*match.span())
    }
    characters = list(pairwise(bounds))
    place_of = {bound: place for place, bound in enumerate(bounds)}
    pairs = [set[str]() for _ in characters]
    for token, first, last in run:
        for place in range(place_of[first], place_of[last]):
            start, end = characters[place]
            if last - first > end - start:
                pairs[place].add(token)
    for (start, end), containing in zip(characters, pairs, strict=True):
        if start not in stopped:
            yield QuestionWord(start, end, 0.5, frozenset(containing))


def _split_sentences(text: str) -> list[tuple[int, int]]:
    return find_sentences(_LINE_BREAK.sub(" ", text[:MAX_TEXT_LENGTH]))


def _cut_at_spaces(text: str, start: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    while end - start > longest:
        cut = text.rfind(" ", start + 1, start + longest)
        cut = start + longest if cut < 0 else cut
        yield start, cut
        start = cut
    yield start, end


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
