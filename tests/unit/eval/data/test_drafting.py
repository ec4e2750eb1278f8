"""Drafted questions: the rules one by one, and what is chosen."""

import csv
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from ragindex.types import Passage
from ragindex_eval.cli.questions import as_csv, readable
from ragindex_eval.data.drafting import Draft, make_drafts
from ragindex_eval.data.drafting.reading import make_gaps
from ragindex_eval.data.drafting.rules import GAP, IN_PLACE, LOOSE, REAL, WORD, ClauseQuestion, draft_questions
from ragindex_eval.data.drafting.subjects import find_topic, parse_clause
from ragindex_eval.data.drafting.text import list_mentions, select_sentences, split_blocks


def passage(id: str, title: str, text: str) -> Passage:
    return Passage(id, id, title, text, 0, len(text))


def draft_all(title: str, *sentences: str) -> list[ClauseQuestion]:
    about, previous, questions = find_topic(title, sentences), "", []
    for sentence in sentences:
        parsed = parse_clause(sentence, about, previous)
        previous = parsed.subject if parsed else ""
        questions += list(draft_questions(parsed)) if parsed else []
    return questions


def last(title: str, *sentences: str) -> tuple[str, str, int]:
    """Question, answer and form of the best question about the last sentence."""
    drafts = [
        draft_question for draft_question in draft_all(title, *sentences) if draft_question.sentence == sentences[-1]
    ]
    question = min(drafts, key=lambda draft_question: (draft_question.form, draft_question.kind == "name"))
    return question.about(question.subject), question.answer, question.form


# ---------------------------------------------------------------- prose


MARKDOWN = """---
title: front matter in 1999
---
# A heading of 1871

The **mill** has a [wheel](http://example.com/1871.html) and a `sluice_gate`.
It goes on here![picture](x.png).

| year | what |
|---|---|
| 1871 | a table |

```python
when = "1871"
```

    indented = 1871

- The first item was cut in 1901.
- [x] The second item, with ~~old~~ words.
  It goes on.
> Quoted &amp; kept.

[target]: http://example.com
<!-- a comment of 1871 --><b>Bold</b> text.
"""


def test_blocks_are_prose_without_markup() -> None:
    assert list(filter(None, split_blocks(MARKDOWN))) == [
        "The mill has a wheel and a sluice_gate. It goes on here .",
        "The first item was cut in 1901.",
        "The second item, with old words. It goes on.",
        "Quoted & kept.",
        "Bold text.",
    ]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            "Dr. A. Miller lived in St. Gallen. She (born 1870) painted the U.S. coast.",
            ["Dr. A. Miller lived in St. Gallen.", "She painted the U.S. coast."],
        ),
        ("Too short. See https://example.com for more of this. No end here", []),
        ("It held “one thing and never closed. A whole sentence stands here.", ["A whole sentence stands here."]),
        ("林道灯塔建于1856年，高33米。灯塔旁有两座雕像。", ["林道灯塔建于1856年，高33米。", "灯塔旁有两座雕像。"]),
        ("The cell shows \u202ereversed\u202c text.", ["The cell shows reversed text."]),
        ("10 2.12 Why is the mill named so? . . . . . . 11 2.13 What is a wheel? . . . . . . 12.", []),
        (
            "17 The wheel has been repaired often. 2001 wheels were counted in the valley.",
            ["2001 wheels were counted in the valley."],
        ),
        ("DESCRIPTION The mill daemon grinds corn.", ["The mill daemon grinds corn."]),
        ("GRINDING AT NIGHT The mill can grind in the dark.", ["The mill can grind in the dark."]),
        ("NATO Command has a mill near Brussels.", ["NATO Command has a mill near Brussels."]),
        ("They mea- sure the wheel in feet. The wheel is stored in the array.The array must be long.", []),
        ("The path is any text before ?. The rest of it stays here.", ["The rest of it stays here."]),
    ],
)
def test_sentences(block: str, expected: list[str]) -> None:
    assert [sentence for part in split_blocks(block) for sentence in select_sentences(part)] == expected


def test_mentions() -> None:
    text = 'On 5 May 1871 Ada B. Miller of the Bank of Lindau read "Grey Anna" to 1,250 people in 1902, 12 km away.'
    assert [(mention.kind, mention.text) for mention in list_mentions(text)] == [
        ("date", "5 May 1871"),
        ("name", "Ada B. Miller of the Bank of Lindau"),
        ("name", "Grey Anna"),
        ("number", "1,250"),
        ("year", "1902"),
        ("number", "12"),
    ]
    assert [mention.kind for mention in list_mentions("THE MILL OF LINDAU WAS BUILT IN 1856.")] == ["year"]


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("title", "sentences", "expected"),
    [
        (
            "Old Mill",
            ("The Old Mill was founded in 1871 by Ada Miller, a baker.",),
            ("When was the Old Mill founded by Ada Miller?", "1871", REAL),
        ),
        (
            "Ada Miller",
            ("Ada Miller was a painter from Lindau.", "She died in Lindau on 5 May 1902."),
            ("When did Ada Miller die in Lindau?", "5 May 1902", REAL),
        ),
        (
            "Ada Miller",
            ("Ada Miller was a painter.", "She lived there.", "Miller was born in Lindau, Bavaria."),
            ("Where was Ada Miller born?", "Lindau", REAL),
        ),
        (
            "Old Mill",
            ("The Old Mill is a mill in Lindau.", "The mill has three wheels and a sluice."),
            ("How many wheels does Old Mill have?", "three", REAL),
        ),
        (
            "Old Mill",
            ("Old Mill is a mill in Lindau.", "It was designed by Ada Miller."),
            ("Who designed Old Mill?", "Ada Miller", REAL),
        ),
        (
            "Old Mill",
            ("In 1902, the Old Mill was moved to Bregenz.",),
            ("When was the Old Mill moved to Bregenz?", "1902", REAL),
        ),
        (
            "Grey Anna",
            ("Grey Anna is the highest hill of the Orla Range, which is long.",),
            ("What is the highest hill of the Orla Range?", "Grey Anna", REAL),
        ),
        (
            "Grey Anna",
            ("Grey Anna is a 1931 silent film by Ada Miller.",),
            ("From which year is the film Grey Anna?", "1931", REAL),
        ),
        (
            "Grey Anna",
            ("Grey Anna rises over 1,250 metres above the sea.",),
            ("Grey Anna rises over how many metres above the sea?", "1,250", IN_PLACE),
        ),
        (
            "Manual",
            ("A passage is cut at 1,200 characters.",),
            ("A passage is cut at how many characters, according to “Manual”?", "1,200", LOOSE),
        ),
        (
            "Manual",
            (
                "Every reader opens the index, and a fit is written before the first vector.",
                "A fit is written once and kept.",
            ),
            ("What is written once and kept, according to “Manual”?", "A fit", LOOSE),
        ),
        (
            "Old Mill",
            ("Old Mill was bought, sold and then burnt in May 1902.",),
            None,  # "then" leans on something
        ),
        (
            "Old Mill",
            ("Old Mill was bought by a baker and burnt in 1902 during a storm.",),
            ("Which year is missing in “Old Mill was bought by a baker and burnt in … during a storm”?", "1902", GAP),
        ),
    ],
)
def test_the_form_of_a_question(title: str, sentences: tuple[str, ...], expected: tuple[str, str, int] | None) -> None:
    if expected is None:
        assert draft_all(title, *sentences) == []
    else:
        assert last(title, *sentences) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "This was founded in 1871 by Ada Miller.",
        "It was then founded in 1871 by Ada Miller.",
        "Old Mill was built by Ada Mill.",  # the question would hold half its answer
        "There were 12 mills in Lindau.",
        "However, the mill was founded in 1871.",
        "The file is opened before the mill enters its phase.",  # which file?
        "The most common task is to write a sack to the ledger.",
        "The reason is that corn can be ground in the dark.",
        "Figure 1 is an example of a wheel in the river.",
        "Additionally some mills are closed for the whole winter.",
        "Larger sites would have to share the wheel between two mills.",
        "The template sack conventionally has the mark of the miller.",
        # as a manual has them: a label, a parameter, what no sentence says
        "Default is the sack in the current mill.",
        "sacks is the number of bags on the wheel.",
        "The first parameter is the field to sort by.",
        "The flag is a feature of the wheel.",
        "An empty sack is written in that case by the mill.",
        "Errors occur when something is wrong with the corn.",
        "You'll need to turn the wheel on.",
        "Old Mill was shown to the guests every 1000 sacks and then closed.",  # no year
        "Old Mill has been grinding with Grinder 2.6 stones and Wheel 8 boards.",  # versions
    ],
)
def test_what_is_not_asked(sentence: str) -> None:
    assert draft_all("Old Mill", "Old Mill is a mill.", sentence) == []


@pytest.mark.parametrize(
    ("sentence", "unasked"),
    [
        ("Old Mill grinds for Mill 3 towns in the valley.", "how many towns"),  # "Mill 3" is a name
        ("Old Mill supports all four kinds of corn.", "how many kinds"),
        ("Old Mill passes in the edge’s two nodes.", "how many nodes"),
        ("Old Mill helps with three towards the valley.", "how many towards"),
    ],
)
def test_not_every_number_is_counted(sentence: str, unasked: str) -> None:
    drafts = draft_all("Old Mill", "Old Mill is a mill.", sentence)
    assert [question.text for question in drafts if unasked in question.text] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Skips weighing at the door for matched customers.",  # no subject
        "Returns the emptied container to the customer.",
        "A generalized container for the customer with the largest order.",  # no verb
        "This bakery has several ovens for different kinds of bread.",
        "Alternatively, bread can be ordered at the counter.",
        "For now, customers can collect the bread at the counter.",
        "If you want to order bread yourself, here is a description.",
        "Rye bread is traditionally kept in wood.",  # an adverb
    ],
)
def test_no_rare_word_is_asked_of_what_cannot_stand_alone(sentence: str) -> None:
    assert make_drafts([passage("a", "bread", sentence)], 3, 0) == []


def test_a_name_that_answers_in_many_documents_is_not_asked_for() -> None:
    mills = [
        passage(f"m{n}", f"Mill {n}", f"The wheel was made for the Lindau company by worker {n}.") for n in range(5)
    ]
    rare = [passage("r", "Reed", "The reed was cut for the Orla company by hand.")]
    assert [draft.answer for draft in make_drafts(mills[:3] + rare, 9, seed=0)].count("The wheel") == 3
    answers = {draft.answer for draft in make_drafts(mills + rare, 9, seed=0)}
    assert answers & {"The reed", "Orla"}
    assert not answers & {"The wheel", "Lindau"}


def test_a_question_does_not_break_off_within_parentheses() -> None:
    sentence = "The data are a block (long enough for 8 sacks, that is) of corn."
    clause = parse_clause(sentence, find_topic("Old Mill", [sentence]), "")
    assert clause is not None
    texts = [question.text for question in draft_questions(clause)]
    assert [text for text in texts if text.count("(") != text.count(")")] == []


def test_a_gap_in_any_language() -> None:
    sentence = "Der Turm am Hafen wurde 1856 von Anna Weber gebaut."
    assert [(gap.text, gap.answer) for gap in make_gaps(sentence)] == [
        ("Der Turm am Hafen wurde [year?] von Anna Weber gebaut.", "1856"),
        ("Der Turm am Hafen wurde 1856 von [name?] gebaut.", "Anna Weber"),
    ]


# ---------------------------------------------------------------- drafts


WORLD = [
    passage("brother", "Brother (song)", '"Brother" is a song by the rock band Pale Jam.'),
    passage("jam", "Pale Jam", "Pale Jam is a rock band formed in 1990 in Lindau."),
    passage("mill", "Old Mill", "The Old Mill was founded in 1871 by Ada Miller. It has three wheels."),
    passage("hill", "Grey Anna", "Grey Anna is the highest hill of the Orla Range."),
]
PAIR = Draft(
    "“Brother” is a song by the rock band X. When was X formed in Lindau?",
    "1990",
    ("brother", "jam"),
    "two",
    ('"Brother" is a song by the rock band Pale Jam.', "Pale Jam is a rock band formed in 1990 in Lindau."),
)


def test_drafts() -> None:
    assert make_drafts(WORLD, 6, seed=0)[-1] == PAIR
    singles = {draft.question: (draft.answer, draft.documents) for draft in make_drafts(WORLD, 6, seed=0)[:-1]}
    assert singles == {
        "Who founded the Old Mill in 1871?": ("Ada Miller", ("mill",)),
        "How many wheels does Old Mill have?": ("three", ("mill",)),
        "What is the highest hill of the Orla Range?": ("Grey Anna", ("hill",)),
        "When was Pale Jam formed in Lindau?": ("1990", ("jam",)),
    }


def test_without_titles_no_draft_names_that_of_its_document() -> None:
    (hill,) = make_drafts(WORLD, 6, seed=0, titles=False)  # the others name Brother, Old Mill or Pale Jam
    assert hill.question == "What is the highest hill of the Orla Range?"
    tea = [passage("tea", "Green tea", "The leaves are steamed for about a minute, and rolled by hand in three steps.")]
    (named,), (unnamed,) = (make_drafts(tea, 1, seed=0, titles=titles) for titles in (True, False))
    assert named.question == "What are steamed for about a minute, according to “Green tea”?"
    assert unnamed.question == (
        "Which number is missing in “The leaves are steamed for about a minute, and rolled by hand in … steps”?"
    )
    assert unnamed.answer == "three"


def test_both_documents_are_needed() -> None:
    leading = [
        WORLD[0],
        passage("jam", "Pale Jam", WORLD[1].text + ' It wrote "Brother".'),
    ]  # the second names the first
    known = [passage("brother", "Brother (song)", WORLD[0].text + " It is of 1990, from Lindau."), WORLD[1]]
    common = [*WORLD, *(passage(f"p{n}", f"Page {n}", "Pale Jam played.") for n in range(4))]  # six documents name it
    for read in (leading, known, common):
        assert "two" not in {draft.kind for draft in make_drafts(read, 4, seed=0)}


def test_the_same_arguments_give_the_same_drafts_and_seeds_differ() -> None:
    many = [passage(f"d{n}", f"Mill {n}", f"Mill {n} was founded in {1800 + n} by Ada Miller.") for n in range(60)]
    first, again, other = make_drafts(many, 10, seed=1), make_drafts(many, 10, seed=1), make_drafts(many, 10, seed=2)
    assert first == again
    assert {draft.documents for draft in first} != {draft.documents for draft in other}
    assert len({draft.documents for draft in first}) == 10


def test_drafts_are_spread_over_documents() -> None:
    long = " ".join(f"The Old Mill was repaired in {1800 + n}." for n in range(50))
    drafts = make_drafts([passage("mill", "Old Mill", long), *WORLD[2:]], 4, seed=0)
    assert {draft.documents for draft in drafts[:3]} == {("mill",), ("hill",)}
    assert len(drafts) == 4


def test_two_documents_in_another_language() -> None:
    read = [
        passage("a", "Turm", "Der Turm wurde von Anna Weber am Hafen gebaut."),
        passage("b", "Bild", "Im Jahr 1901 malte Anna Weber den Hafen von Lindau."),
    ]
    drafts = make_drafts(read, 2, seed=0, language="german")
    assert [draft.question for draft in drafts if draft.kind == "two"] == [
        "Der Turm wurde von X am Hafen gebaut. Im Jahr [year?] malte X den Hafen von Lindau."
    ]


def test_rare_words_where_there_is_nothing_else() -> None:
    drafts = make_drafts([passage("a", "bread", "Rye bread stays good for longer than wheat in a cupboard.")], 3, 0)
    assert [(draft.question, draft.answer) for draft in drafts] == [
        (
            "Which word is missing in “Rye bread stays good for longer than wheat in a …”, according to “bread”?",
            "cupboard",
        )
    ]
    assert WORD > GAP


@pytest.mark.parametrize(
    "text",
    [
        *(
            piece * 20_000
            for piece in ("A", "a. ", "( ", "[a", "*a ", "`a", '"', "中文。", "1,", "A. B", "> ", "It is ")
        ),
        *("", "\n" * 20_000, "---\n" * 20_000, "\x00\u202e" * 20_000),
    ],
    ids=lambda text: repr(text[:6]),
)
def test_texts_that_hold_nothing_to_ask(text: str) -> None:
    assert make_drafts([passage("a", "Title", text), passage("b", "Other", text)], 5, 0) == []


@settings(max_examples=examples(25))
@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=120), max_size=4), st.text(max_size=20))
def test_any_text(texts: list[str], title: str) -> None:
    read = [passage(f"d{n}", title, f"{text} was founded in 1871 by Ada Miller.") for n, text in enumerate(texts)]
    for draft in make_drafts(read, 4, 0):
        assert not re.search(rf"(?<!\w){re.escape(draft.answer)}(?!\w)", draft.question)
        assert draft.question[0] not in "=+-@\t\r"
        assert "\n" not in draft.question


# ---------------------------------------------------------------- the file


def test_formulas_and_quotes_stay_text() -> None:
    passages = [
        passage("a", "Old Mill", 'Old Mill is a mill. It was named by "=HYPERLINK(1)" in 1871. It has 3 wheels.'),
        passage("b", "Grey, Anna", 'Grey, Anna is the highest hill of the "Orla" Range.'),
    ]
    drafts = make_drafts(passages, 9, 0)
    assert all(draft.answer[0] not in "=+-@" for draft in drafts)
    rows = list(
        csv.DictReader(
            as_csv(drafts, {source.doc_id: source.text for source in passages}).splitlines(keepends=True), strict=True
        )
    )
    assert [(row["question"], row["documents"]) for row in rows] == [(d.question, d.documents[0]) for d in drafts]
    assert all(row["source"].startswith("“") for row in rows)


@pytest.mark.parametrize("id", ["a;b", " a", "a ", "", "=a", "+a", "-a", "@a", "a\nb", "a\x00"])
def test_ids_that_do_not_come_back(id: str) -> None:
    assert not readable(id)
    assert readable(f"x{id}x".replace(";", ",").replace("\n", "").replace("\x00", ""))


@pytest.mark.parametrize(
    "sentence",
    [
        "Roles are a way to organize content in a project.",
        "The most common formats are INI and YAML in each project.",
        "The default behavior described above is the linear strategy.",
        "Everything is fine if the module file is executed by root.",
        "MUST have a corresponding public tag in the forum.",
        "Prominent examples are the method format and the method update.",
        "Developers often need to analyze the behavior of an application.",
        "A few have additional options that can be set in the file.",
        "The recommended approach is have a link to the code of conduct.",
        "The job has stopped passing for several # months.",
        "A specific proposal is attached to _ in the archive.",
    ],
)
def test_subjects_and_predicates_that_are_no_question(sentence: str) -> None:
    assert [each for block in select_sentences(sentence) for each in draft_all("Manual", block)] == []
