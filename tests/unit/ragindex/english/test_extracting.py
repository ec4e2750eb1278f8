"""What the offline rules find in sentences written for them."""

import pytest

from ragindex.english import (
    MentionSpan,
    entity_key,
    extract,
    find_mentions,
    find_names,
    normalize_text,
    split_sentences,
    strip_brackets,
)
from ragindex.types import Triple


def triples(title: str, text: str, **options: bool) -> list[tuple[str, str, str]]:
    return [(triple.subject, triple.predicate, triple.object) for triple in extract(title, text, **options).triples]


def texts(title: str, text: str) -> list[str]:
    return [proposition.text for proposition in extract(title, text).propositions]


# ---------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "He met Dr. Smith in Washington, D.C. on 4 July 1990. The U.S. Army left.",
            ["He met Dr. Smith in Washington, D.C. on 4 July 1990.", "The U.S. Army left."],
        ),
        (
            'J. R. R. Tolkien wrote it (in 1937. And so on). Then he left! Why? "Yes." He said so.',
            ["J. R. R. Tolkien wrote it (in 1937. And so on).", "Then he left!", "Why?", '"Yes."', "He said so."],
        ),
        (
            "It ended with World War II. During it, much changed.",
            ["It ended with World War II.", "During it, much changed."],
        ),
        ("A title\n\nA paragraph.", ["A title", "A paragraph."]),
        (
            "A line that is long enough to be taken for a line of wrapped text\ngoes on. It ends.",
            ["A line that is long enough to be taken for a line of wrapped text goes on.", "It ends."],
        ),
        ("中文句子。第二句。", ["中文句子。", "第二句。"]),
        ("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


def test_text_is_normalised() -> None:
    assert normalize_text("“Salt”[1] – a   film ( ; 1990)\tby\u200b  Ada") == '"Salt" - a film (1990) by Ada'


def test_hyphens_that_were_set_apart_are_joined_only_where_no_other_hyphen_is() -> None:
    assert (
        normalize_text("Kim Il - sung wrote a three - part book - the last.")
        == "Kim Il-sung wrote a three-part book - the last."
    )
    assert normalize_text("A well-known film - made here.") == "A well-known film - made here."


def test_a_sentence_without_an_end_is_cut_at_spaces() -> None:
    pieces = split_sentences("word " * 1_000)
    assert [len(piece) for piece in pieces] == [1199, 1199, 1199, 1199, 199]
    assert " ".join(pieces) == ("word " * 1_000).strip()


# ---------------------------------------------------------------- mentions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'In May 1990, the Ministry of Health and Welfare gave $5 million to "The Big Idea", a show on the BBC.',
            [
                ("date", "May 1990"),
                ("name", "Ministry of Health and Welfare"),
                ("number", "$5 million"),
                ("title", "The Big Idea"),
                ("name", "BBC"),
            ],
        ),
        (
            "On 3 March 1999 John F. Kennedy Jr. and the Baltimore and Ohio Railroad sold 45% of 1,200 shares.",
            [
                ("date", "3 March 1999"),
                ("name", "John F. Kennedy Jr."),
                ("name", "Baltimore and Ohio Railroad"),
                ("number", "45%"),
                ("number", "1,200"),
            ],
        ),
        (
            "the 2018 Winter Olympics in the 1990s and 19th century",
            [("name", "2018 Winter Olympics"), ("date", "1990s"), ("date", "19th century")],
        ),
        (
            "Women's World Cup and Vincent van Gogh, Rio de Janeiro, eBay, USS Enterprise and World War II.",
            [
                ("name", "Women's World Cup"),
                ("name", "Vincent van Gogh"),
                ("name", "Rio de Janeiro"),
                ("name", "eBay"),
                ("name", "USS Enterprise"),
                ("name", "World War II"),
            ],
        ),
        ("Construction began. Students were glad. Three left for the US.", [("name", "US")]),
        ("Ada Lund's brother and the Lunds' house", [("name", "Ada Lund"), ("name", "Lunds")]),
        ("《红楼梦》是中国古典小说，1791年出版。", [("title", "红楼梦"), ("date", "1791年")]),
        ("THE WHOLE LINE IS IN CAPITALS, MADE IN 1990", [("date", "1990")]),
        ("no capitals are here, and 12 km are", [("number", "12 km")]),
    ],
)
def test_mentions(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(mention.kind, mention.text) for mention in find_mentions(text)] == expected


def test_a_mention_names_its_characters() -> None:
    assert find_mentions("It rained.  In Oslo, it did.") == [MentionSpan("name", 15, 19, "Oslo")]


def test_known_words_are_no_names_where_they_open_a_sentence() -> None:
    assert find_mentions("Ferries left.", {"ferries"}) == []
    assert [mention.text for mention in find_mentions("Velm left.", {"ferries"})] == ["Velm"]


def test_names_are_mentions_without_dates_and_numbers() -> None:
    assert list(find_names('In 1990 Ada Lund sold 45% of "The Long Quay".')) == ["Ada Lund", "The Long Quay"]


@pytest.mark.parametrize(("title", "name"), [("Salt (film)", "Salt"), ("(film)", "(film)"), ("Salt", "Salt"), ("", "")])
def test_strip_brackets(title: str, name: str) -> None:
    assert strip_brackets(title) == name


# ---------------------------------------------------------------- triples


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        # "to be"
        ("Arno Vell", "Arno Vell is a Norwegian painter.", [("Arno Vell", "is", "Norwegian painter")]),
        ("Tellin", "Tellin is the capital of Marland.", [("Tellin", "is the capital of", "Marland")]),
        # the passive, and two agents
        (
            "Red Harbour",
            "Red Harbour was directed by Mia Holt and Jon Berg.",
            [("Red Harbour", "was directed by", "Mia Holt"), ("Red Harbour", "was directed by", "Jon Berg")],
        ),
        # participles, lists, and what stands in parentheses in the title
        (
            "Red Harbour (film)",
            "Red Harbour is a 1998 drama film directed by Mia Holt, starring Ada Lund and Per Oster.",
            [
                ("Red Harbour", "is", "1998 drama film"),
                ("Red Harbour", "directed by", "Mia Holt"),
                ("Red Harbour", "starring", "Ada Lund"),
                ("Red Harbour", "starring", "Per Oster"),
            ],
        ),
        ("Tellin", "Tellin borders Ask, Bo and Dal.", [("Tellin", "borders", place) for place in ("Ask", "Bo", "Dal")]),
        (
            "Rosenborg",
            "Rosenborg, Brann and Viking play in Eliteserien.",
            [(club, "play in", "Eliteserien") for club in ("Rosenborg", "Brann", "Viking")],
        ),
        # apposition
        (
            "Tellin",
            "Tellin, the largest port of Marland, was founded in 1204.",
            [("Tellin", "is the largest port of", "Marland"), ("Tellin", "was founded", "in 1204")],
        ),
        # dates of a life, places within places, two verbs of one subject
        (
            "Mia Holt",
            "Mia Holt (born 3 May 1950) was born in Tellin, Marland, and studied law at the University of Tellin.",
            [
                ("Mia Holt", "was", "born 3 May 1950"),
                ("Mia Holt", "was born in", "Tellin"),
                ("Tellin", "in", "Marland"),
                ("Mia Holt", "studied", "law"),
                ("Mia Holt", "studied law at", "University of Tellin"),
            ],
        ),
        (
            "Jon Berg",
            "Jon Berg (3 May 1901 - 4 June 1980) was a composer.",
            [
                ("Jon Berg", "was born", "on 3 May 1901"),
                ("Jon Berg", "died", "on 4 June 1980"),
                ("Jon Berg", "was", "composer"),
            ],
        ),
        # what stands in front
        (
            "Mia Holt",
            "In Oslo, Mia Holt met Jon Berg.",
            [("Mia Holt", "met", "Jon Berg"), ("Mia Holt", "met Jon Berg in", "Oslo")],
        ),
        (
            "Arno Vell",
            "Born in Tellin, Vell taught at the academy.",
            [("Arno Vell", "born in", "Tellin"), ("Arno Vell", "taught at", "academy")],
        ),
        # what belongs to the title
        (
            "Red Harbour",
            "The screenplay of Red Harbour was written by Jon Berg. The current owner is Nordisk Film.",
            [
                ("Red Harbour", "screenplay was written by", "Jon Berg"),
                ("Red Harbour", "current owner is", "Nordisk Film"),
            ],
        ),
        # possessives
        (
            "Mia Holt",
            "Mia Holt's brother Tor Holt manages Rosenborg.",
            [("Mia Holt", "has brother", "Tor Holt"), ("Tor Holt", "manages", "Rosenborg")],
        ),
        ("Tor Holt", "Tor Holt is Mia Holt's brother.", [("Tor Holt", "is brother of", "Mia Holt")]),
        # quoted titles, and statements on a name before them
        (
            "Ada Lund",
            'Ada Lund won the Amanda Award, wrote "The Long Quay" and recorded the album "Salt".',
            [
                ("Ada Lund", "won", "Amanda Award"),
                ("Ada Lund", "wrote", "The Long Quay"),
                ("Ada Lund", "recorded", "Salt"),
                ("Salt", "is", "album"),
            ],
        ),
        # relative clauses
        (
            "Velm Ferry",
            "Velm Ferry was built by Velm Industries, which also owns Tellin Shipyard.",
            [("Velm Ferry", "was built by", "Velm Industries"), ("Velm Industries", "owns", "Tellin Shipyard")],
        ),
        (
            "Arno Vell",
            "The painting that Arno Vell made hangs in Tellin Museum.",
            [("Arno Vell", "made", "painting"), ("Arno Vell", "painting hangs in", "Tellin Museum")],
        ),
        # brackets within brackets
        (
            "The Long Quay",
            "The Long Quay is a novel by the Norwegian author Ada Lund (translated by Jon Cole (a critic)) about Oslo.",
            [
                ("The Long Quay", "is", "novel"),
                ("The Long Quay", "is a novel by", "Ada Lund"),
                ("Ada Lund", "is", "Norwegian author"),
                ("Ada Lund", "translated by", "Jon Cole"),
                ("The Long Quay", "is a novel about", "Oslo"),
            ],
        ),
        # what turns a sentence round stays in it
        ("Arno Vell", "Arno Vell never left Tellin.", [("Arno Vell", "never left", "Tellin")]),
        ("Arno Vell", "Arno Vell was not born in Tellin.", [("Arno Vell", "was not born in", "Tellin")]),
        ("Arno Vell", "Arno Vell had no children.", [("Arno Vell", "had", "no children")]),
        # a name that no pattern ties
        ("Salt", "Oh, for Tellin and the sea!", [("Salt", "associated with", "Tellin")]),
    ],
)
def test_triples(title: str, text: str, expected: list[tuple[str, str, str]]) -> None:
    assert triples(title, text) == expected


def test_dates_and_numbers_are_objects_only_where_they_are_asked_to_be() -> None:
    text = "Tellin was founded in 1204. It has 31 ferries and has grown to 12 km2."
    assert triples("Tellin", text) == [
        ("Tellin", "was founded", "in 1204"),
        ("Tellin", "has", "31 ferries"),
        ("Tellin", "has grown", "to 12 km2"),
    ]
    assert extract("Tellin", text).entities == ("Tellin",)
    extraction = extract("Tellin", text, numbers_as_entities=True)
    assert Triple("Tellin", "was founded in", "1204") in extraction.triples
    assert Triple("Tellin", "has grown to", "12 km2") in extraction.triples
    assert extraction.entities == ("Tellin", "1204", "31", "12 km2")


# ---------------------------------------------------------------- resolving


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        (
            "Mia Holt",
            "Mia Holt is a lawyer. She moved to Oslo. In 1990, her father died. Holt stayed there.",
            [
                "Mia Holt is a lawyer.",
                "Mia Holt moved to Oslo.",
                "In 1990, Mia Holt's father died.",
                "Mia Holt stayed there.",
            ],
        ),
        (
            "Red Harbour",
            "Red Harbour is a film by Mia Holt. The film was shot in Tellin. It won a prize. Its music is lost.",
            [
                "Red Harbour is a film by Mia Holt.",
                "Red Harbour was shot in Tellin.",
                "Red Harbour won a prize.",
                "Red Harbour's music is lost.",
            ],
        ),
        (
            "Velm Industries",
            "Velm Industries makes ferries. The company was bought by Orkla. They sold it.",
            [
                "Velm Industries makes ferries.",
                "Velm Industries was bought by Orkla.",
                "Velm Industries sold Velm Industries.",
            ],
        ),
        # a person that another passage is about
        (
            "Red Harbour",
            "Red Harbour is a film. Mia Holt directed it. She was born in Oslo. Holt died there.",
            [
                "Red Harbour is a film.",
                "Mia Holt directed Red Harbour.",
                "Red Harbour: Mia Holt was born in Oslo.",
                "Red Harbour: Mia Holt died there.",
            ],
        ),
        # what stands for nothing, or for something else
        (
            "Tellin",
            "Tellin is a town. It is said that the film of Ada Lund was made.",
            ["Tellin is a town.", "Tellin: It is said that the film of Ada Lund was made."],
        ),
        (
            "Mia Holt",
            "Mia Holt is a lawyer. Jon Berg said that he left.",
            ["Mia Holt is a lawyer.", "Mia Holt: Jon Berg said that he left."],
        ),
        # headings say nothing by themselves
        ("Mia Holt", "Early life\nMia Holt is a lawyer.", ["Mia Holt is a lawyer."]),
    ],
)
def test_propositions_stand_alone(title: str, text: str, expected: list[str]) -> None:
    assert texts(title, text) == expected


def test_a_proposition_has_its_title_and_its_entities() -> None:
    propositions = extract(
        "Red Harbour (film)", "It was shot in Tellin by Ada Lund in 1990. Jon Berg left."
    ).propositions
    assert [(proposition.topic, proposition.entities) for proposition in propositions] == [
        ("Red Harbour", ("Red Harbour", "Tellin", "Ada Lund")),
        ("Red Harbour", ("Red Harbour", "Jon Berg")),
    ]


def test_other_names_of_the_title_are_tied_to_it() -> None:
    assert triples("North Sea Commission", "The North Sea Commission (NSC) is an agency. NSC has 31 members.")[0] == (
        "North Sea Commission", "also known as", "NSC",
    )  # fmt: skip
    extraction = extract("James Hetfield", "James Alan Hetfield (born August 3, 1963) is a singer.")
    assert extraction.entities == ("James Hetfield", "James Alan Hetfield")
    assert Triple("James Hetfield", "is", "singer") in extraction.triples
    assert ("Tellin, Marland", "also known as", "Tellin") in triples("Tellin, Marland", "Tellin is a town.")
    assert triples("Salt, the Film", "Salt is a film.") == [("Salt", "is", "film")]


def test_a_text_without_a_title_gives_what_it_says_itself() -> None:
    extraction = extract("", "Red Harbour was directed by Mia Holt. It won.")
    assert extraction.entities == ("Red Harbour", "Mia Holt")
    assert extraction.triples == (Triple("Red Harbour", "was directed by", "Mia Holt"),)
    assert [proposition.text for proposition in extraction.propositions] == [
        "Red Harbour was directed by Mia Holt.",
        "It won.",
    ]


def test_a_text_without_a_title_may_describe_what_it_is_about() -> None:
    extraction = extract("", "Tellin is a video game. It is part of the game series.")
    assert extraction.triples == (Triple("Tellin", "is", "video game"),)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("The Beatles", "Beatles"),
        ("U.S. Army", "u s army"),
        ("Scott's", "scott"),
        ("Saxe-Coburg", "saxe coburg"),
        ("Å", "å"),
    ],
)
def test_entity_keys(first: str, other: str) -> None:
    assert entity_key(first) == entity_key(other)


def test_an_entity_key_is_never_empty() -> None:
    assert (entity_key("!!!"), entity_key("The")) == ("!!!", "the")


# ---------------------------------------------------------------- what was not read


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this text was written without any capital.", "The text has no capitals"),
        ("THIS TEXT WAS WRITTEN IN CAPITALS ALONE.", "The text is in capitals"),
        ("تقع المدينة على الساحل وهي كبيرة", "The text is in a script without capitals"),
    ],
)
def test_notes_say_why_little_is_found(text: str, reason: str) -> None:
    assert extract("Tellin", text).notes == (f"{reason}: only its title, quoted titles, dates and numbers are found.",)


def test_notes_say_what_was_not_read() -> None:
    assert extract("Tellin", "Ada left. " * 20).notes == ()
    cut = extract("Tellin", "Ada left. " * 20 + "\n" * 99_800 + "Jon stayed.")
    assert cut.notes == ("Only the first 100,000 of 100,011 characters were read.",)
    assert cut.entities == ("Tellin", "Ada")


def test_little_is_found_without_capitals() -> None:
    assert extract("Tellin", "the ferry goes from tellin to oslo.").entities == ("Tellin",)
    assert extract("Tellin", "THE FERRY OF OSLO LEFT TELLIN IN 1990.").entities == ("Tellin",)
