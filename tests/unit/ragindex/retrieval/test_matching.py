"""Words of a question in texts: which count, which are missing, where they stand; and when nothing was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.retrieval.matching import (
    find_matches,
    find_matching_sentences,
    find_missing,
    find_question_words,
    find_window,
    holds_question,
    share_found,
)

TEXT = (
    "# Orla\n\nThe Orla is a river. It carries barges, e.g. with slate, from the quarry of Sarn to the harbour\n"
    "of Quill. Dr. Miller measured it.\n- Slate is heavy.\n- Barges are flat."
)


@pytest.mark.parametrize(
    ("question", "language", "words"),
    [
        ("What is the capital of Mongolia?", "english", ["capital", "Mongolia"]),
        ("To be or not to be?", "english", ["To", "be", "or", "not", "to", "be"]),  # all are stop words
        ("Wo liegt die Hauptstadt?", "german", ["liegt", "Hauptstadt"]),
        ("蒙古的首都", "chinese", ["蒙", "古", "首", "都"]),
        ("モンゴルの首都はどこですか", "japanese", ["モ", "ン", "ゴ", "ル", "首", "都"]),
        ("몽골의 수도는 어디입니까?", "korean", ["몽골의", "수도는"]),
        ("?!", "english", []),
    ],
)
def test_the_words_that_count(question: str, language: str, words: list[str]) -> None:
    assert [question[word.start : word.end] for word in find_question_words(question, language)] == words


@pytest.mark.parametrize(
    ("language", "question", "holding", "other", "missing"),
    [
        ("english", "What is the capital of Mongolia?", "Ulan Bator, Mongolia's capital.", "A capital.", "Mongolia"),
        ("chinese", "蒙古的首都是什么?", "乌兰巴托是蒙古国的首都。", "北京是中国的首都。", "蒙古"),
        (
            "japanese",
            "モンゴルの首都はどこですか",
            "モンゴル国の首都はウランバートル。",
            "日本の首都は東京。",
            "モンゴル",
        ),
        ("korean", "몽골의 수도는 어디입니까?", "울란바토르는 몽골의 수도이다.", "서울은 한국의 수도이다.", "몽골의"),
    ],
)
def test_a_question_about_something_else_is_not_held(
    language: str, question: str, holding: str, other: str, missing: str
) -> None:
    words = find_question_words(question, language)
    assert holds_question(words, [other, holding], language)
    assert not holds_question(words, [other], language)
    assert find_missing(question, words, [other], language)[0] == missing


def test_the_floor_counts_all_texts_and_the_best_one() -> None:
    words = find_question_words("slate barges harbour quarry river", "english")
    assert share_found(words, {"slate", "barg"}) == 0.4
    assert holds_question(words, ["slate barge", "harbour quarry"], "english")  # 4 of 5 together, 2 of 5 in one
    assert not holds_question(words, ["slate barge", "harbour"], "english")  # 3 of 5 together
    assert not holds_question(words, ["slate", "barge", "harbour", "quarry", "river"], "english")  # 1 of 5 in one
    assert not holds_question(words, [], "english")
    assert not holds_question([], ["slate"], "english")


def test_sentences_keep_abbreviations_and_wrapped_lines() -> None:
    words = find_question_words("Which slate does Miller carry to Quill?", "english")
    assert find_matching_sentences(["no", TEXT], words, "english", 3) == [
        (1, "It carries barges, e.g. with slate, from the quarry of Sarn to the harbour of Quill."),
        (1, "Dr. Miller measured it."),
        (1, "- Slate is heavy."),
    ]


def test_the_window_is_the_part_with_most_words() -> None:
    words = find_question_words("Miller and slate", "english")
    start, end = find_window(TEXT, words, "english", 60)
    assert TEXT[start:end] == "Dr. Miller measured it.\n- Slate is heavy.\n- Barges are flat."
    assert find_window(TEXT, words, "english", 1_000) == (0, len(TEXT))
    start, end = find_window(TEXT, find_question_words("plutonium", "english"), "english", 30)
    assert TEXT[start:end] == "# Orla\n\nThe Orla is a river."


def test_matches_are_found_in_their_inflected_form() -> None:
    words = find_question_words("measure a barge", "english")
    assert [TEXT[start:end] for start, end in find_matches(TEXT, words, "english")] == ["barges", "measured", "Barges"]


@given(st.text(max_size=200), st.text(max_size=40), st.integers(1, 50))
def test_a_window_of_any_text_is_short_enough(text: str, question: str, longest: int) -> None:
    words = find_question_words(question, "english")
    start, end = find_window(text, words, "english", longest)
    assert 0 <= start <= end <= len(text)
    assert end - start <= longest
    share = share_found(words, {token for word in words for token in word.tokens})
    assert share == (1.0 if words else 0.0)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Restore it first.\n\n```bash\n# restore it\n```\n\nRestore it last.",
            ["Restore it first.", "Restore it last."],
        ),
        ("~~~~\nrestore\n~~~\nrestore\n~~~~\nRestore it.", ["Restore it."]),
        ("Restore it:\n\n```\nrestore it", ["Restore it:"]),
        ("Write ```restore``` to restore it.", ["Write ```restore``` to restore it."]),
        ("```\nrestore\n```", []),
    ],
)
def test_code_between_fences_is_no_sentence(text: str, sentences: list[str]) -> None:
    words = find_question_words("How do I restore it?", "english")
    assert find_matching_sentences([text], words, "english", 5) == [(0, sentence) for sentence in sentences]
