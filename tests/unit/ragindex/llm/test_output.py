"""Reading answers: what fits, what is meant, what cannot be used, and never for long."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from examples import examples
from ragindex._util.canonical import encodable
from ragindex.errors import LLMError
from ragindex.llm import json_text
from ragindex.llm.json_text import repair_text
from ragindex.llm.output import UnusableError, read_chosen_numbers, read_first_line, read_json
from ragindex.llm.tasks import Failure, require_output


class Triple(BaseModel):
    subject: str
    predicate: str
    object: str


class Extraction(BaseModel):
    entities: list[str] = []
    triples: list[Triple] = []


class Strictly(BaseModel):
    entities: list[str]
    triples: list[list[str]]


class Names(BaseModel):
    names: list[str]


class Tuples(BaseModel):
    triples: list[tuple[str, str, str]]


class Triples(BaseModel):
    triples: list[Triple]


class Answer(BaseModel):
    answer: str


class Choice(BaseModel):
    chosen: int = Field(ge=0)
    why: str | None = None


ABC, DEF = ("a", "b", "c"), ("d", "e", "f")
FACT = Triple(subject="a", predicate="b", object="c")
PARTS = Strictly(entities=["x"], triples=[["a", "b", "c"]])


@pytest.mark.parametrize(
    ("text", "expected", "stage"),
    [
        ('{"triples": [["a", "b", "c"]]}', Tuples(triples=[ABC]), "strict"),
        (' {"answer": "x", "more": 1}\n', Answer(answer="x"), "strict"),
        ('```json\n{"answer": "x"}\n```', Answer(answer="x"), "found"),
        ('Sure:\n```\n{"answer": "x"}\n```\nAnything else?', Answer(answer="x"), "found"),
        ('The answer is {"answer": "x"}, I think.', Answer(answer="x"), "found"),
        ('<think>{"answer": "y"}?</think>\n{"answer": "x"}', Answer(answer="x"), "found"),
        ('\ufeff{"answer": "x"}', Answer(answer="x"), "found"),
        ('{"answer": "y"} No: {"answer": "x"}', Answer(answer="x"), "found"),
        ('{"chosen": 3}\n{"why": "so"}', Choice(chosen=3, why="so"), "found"),
        ('{"answer": "x",}', Answer(answer="x"), "repaired"),
        ("{'answer': 'x'}", Answer(answer="x"), "repaired"),
        ('{"answer": "x', Answer(answer="x"), "repaired"),
        ('{"answer": "he said "hi" twice"}', Answer(answer='he said "hi" twice'), "repaired"),
        ('{"triples": [("a", "b", "c"), ("d", "e", "f"),]}', Tuples(triples=[ABC, DEF]), "repaired"),
        ("{'triples': [('a', 'b', 'c')]}", Tuples(triples=[ABC]), "repaired"),
        ('{"chosen": 3, "why": None}', Choice(chosen=3), "repaired"),
        ('[["a", "b", "c"], ["d", "e", "f"]]', Tuples(triples=[ABC, DEF]), "reshaped"),
        ('[{"subject": "a", "predicate": "b", "object": "c"}]', Triples(triples=[FACT]), "reshaped"),
        ('{"entities": ["x"]}\n\n{"triples": [["a", "b", "c"],]}', PARTS, "repaired"),
        ('[{"entities": ["x"]}, {"triples": [["a", "b", "c"]]}]', PARTS, "found"),
        ('{"result": {"entities": ["x"], "triples": [["a", "b", "c"]]}}', PARTS, "reshaped"),
        ('{"triples": [["a", "b", "c"]]}\n{"triples": [["d", "e", "f"]]}', Tuples(triples=[ABC, DEF]), "found"),
        ('{"entities": null}', Extraction(), "reshaped"),
        ('["x", "y"]', Names(names=["x", "y"]), "reshaped"),
        ('Here they are: ["x"]', Names(names=["x"]), "reshaped"),
        ('{"names": 1945}', Names(names=["1945"]), "reshaped"),
        ('{"triples": [["a", "b", 1.5]]}', Tuples(triples=[("a", "b", "1.5")]), "reshaped"),
        ('{"answer": 1945}', Answer(answer="1945"), "reshaped"),
        ('[{"answer": "x"}]', Answer(answer="x"), "found"),
        ('"{\\"answer\\": \\"x\\"}"', Answer(answer="x"), "found"),
    ],
)
def test_variants(text: str, expected: BaseModel, stage: str) -> None:
    assert read_json(text, type(expected))[:2] == (expected, stage)


@pytest.mark.parametrize(
    ("text", "output", "reason"),
    [
        ("", Answer, "Expecting value"),
        ("I cannot find any (none are named).", Extraction, "Expecting value"),
        ("As [1] says, nothing.", Extraction, "Expecting value"),
        ('{"reply": "x"}', Answer, "expected the keys answer; got reply"),
        ('{"foo": []}', Extraction, "expected the keys entities, triples; got foo"),
        ('{"chosen": -1}', Choice, "chosen: Input should be greater than or equal to 0"),
        ('{"chosen": "third"}', Choice, "chosen: Input should be a valid integer"),
        ('{"chosen": 1, "why": {"a": NaN}}', Choice, "why: Input should be a valid string"),
        ('{"answer": ', Answer, "Expecting value"),
        ("{'answer': }", Answer, "Expecting property name"),
        ('{"triples": [["a", "b"]]}', Tuples, "triples.0"),
        ("3", Answer, "expected a JSON object, got int"),
        ('{"answer": ' * 500, Answer, "Expecting value"),
        ('{"subject": "a", "predicate": "b", "object": "c"}', Triples, "expected the keys triples; got subject"),
        ('("a", "b", "c")\n("d", "e", "f")', Tuples, "Expecting value"),
        ('{"Entity": "x"}', Extraction, "expected the keys entities, triples; got Entity"),
        ('{"entities": "x, y"}', Extraction, "entities: Input should be a valid list"),
        ('{"entities": {"n1": "x"}}', Extraction, "entities: Input should be a valid list"),
        ('{"entities": ["x"]}\n{"triples": ["a | b | c"]}', Extraction, "triples.0"),
        ('{"answer": ["x"]}', Answer, "answer: Input should be a valid string"),
        ('"x"', Answer, "expected a JSON object, got str"),
    ],
)
def test_what_cannot_be_used(text: str, output: type[BaseModel], reason: str) -> None:
    with pytest.raises(UnusableError, match=reason) as caught:
        read_json(text, output)
    assert caught.value.kind == "malformed"


# ---------------------------------------------------------------- several answers in one text

LONG, SHORT = '[["a", "b", "c"], ["d", "e", "f"]]', '[["x", "y", "z"]]'
DRAFT, FINAL = f'{{"entities": ["a"], "triples": {LONG}}}', f'{{"entities": ["x"], "triples": {SHORT}}}'
FINAL_PARTS = ('{"entities": ["x"]}', f'{{"triples": {SHORT}}}')
ITEMS = [json.dumps(dict(zip(("subject", "predicate", "object"), letters, strict=True))) for letters in (ABC, DEF)]


def fence(*lines: str, language: str = "json") -> str:
    return f"```{language}\n{chr(10).join(lines)}\n```"


def quoted(text: str) -> str:
    return text.replace('"', "'")


@pytest.mark.parametrize(
    ("text", "drafts"),
    [
        (f"{fence(DRAFT)}\nWait, the year is wrong. Corrected:\n{fence(FINAL)}", 1),
        (f"{fence(DRAFT)}\n\n{fence(FINAL, language='')}", 1),
        (f"Draft: {DRAFT}\nCorrected: {FINAL}", 1),
        (f"Draft: {DRAFT}\nCorrected: {FINAL}\nI removed the first triple.", 1),
        (f"First {DRAFT}, then {DRAFT}, at last {FINAL}.", 2),
        (f"Draft: {DRAFT}\nFinal answer:\n{fence(FINAL)}", 1),
        (f"{fence(DRAFT)}\nOn reflection, better: {FINAL}", 1),
        (f"Draft: {quoted(DRAFT)}\nCorrected: {quoted(FINAL)}", 1),
        (f"{fence(quoted(DRAFT))}\nbetter\n{fence(FINAL)}", 1),
        (f"{fence(DRAFT)}\nbetter\n{fence(quoted(FINAL))}", 1),
        (f"Draft: {DRAFT}\nCorrected: {FINAL[:-1]},}}", 1),
        (f"```json {DRAFT}``` no: ```json {FINAL}```", 1),
        (f'{{"result": {DRAFT}}}\nNo:\n{{"result": {FINAL}}}', 1),
        (f"<think>{DRAFT}</think>{DRAFT} No, {FINAL}", 1),
        ("\n".join(FINAL_PARTS), 0),
        (f"{FINAL}\nSources: [1]", 0),
        (f"{FINAL}, confidence {{'score': 0.9}}.", 0),
        (f"{fence(FINAL)}\nI left out: [['a', 'b', 'c']]", 0),
        (f"In the {{entity}} notation: {FINAL}", 0),
        (f'The form is {{"a": 1}} or {{"entities": and so on.\n{fence(FINAL)}', 0),
    ],
)
def test_the_last_complete_answer_counts_alone(text: str, drafts: int) -> None:
    reading = read_json(text, Strictly)
    assert reading.output.model_dump() == json.loads(FINAL)
    assert reading.drafts == drafts


@pytest.mark.parametrize(
    ("text", "drafts"),
    [
        ('{"triples": [["a", "b", "c"]]}\n{"triples": [["d", "e", "f"]]}', 0),
        ('["a", "b", "c"], ["d", "e", "f"]', 0),
        (f"First: {SHORT}\nCorrected: {LONG}", 1),
        (f'{{"facts": {SHORT}}}\nno:\n{{"facts": {LONG}}}', 1),
    ],
)
def test_objects_that_are_one_answer_stay_together(text: str, drafts: int) -> None:
    reading = read_json(text, Tuples)
    assert (reading.output.triples, reading.drafts) == ([ABC, DEF], drafts)


@pytest.mark.parametrize(
    ("text", "drafts"),
    [
        ("\n".join(ITEMS), 0),
        (f"1. {ITEMS[0]}\n2. {ITEMS[1]}", 0),
        (f"{fence(ITEMS[0], ITEMS[0])}\nCorrected:\n{fence(*ITEMS)}", 1),
    ],
)
def test_json_lines_are_one_list(text: str, drafts: int) -> None:
    reading = read_json(text, Triples)
    assert ([triple.model_dump() for triple in reading.output.triples], reading.drafts) == (
        list(map(json.loads, ITEMS)),
        drafts,
    )


def test_json_lines_of_any_number() -> None:
    lines = [json.dumps({"subject": str(number), "predicate": "b", "object": "c"}) for number in range(200)]
    assert [triple.subject for triple in read_json("\n".join(lines), Triples).output.triples] == [
        str(n) for n in range(200)
    ]


@pytest.mark.parametrize(
    ("text", "output", "expected", "drafts"),
    [
        ('{"answer": "y"} No: {"answer": "x"}', Answer, {"answer": "x"}, 1),
        ('Draft: ["x", "z"]\nFinal: ["y"]', Names, {"names": ["y"]}, 1),
        ('Draft: ["x"]\nFinal: ["y"]', Names, {"names": ["y"]}, 1),
        ('{"chosen": 3, "why": "a"}, no, {"chosen": 2}', Choice, {"chosen": 2, "why": None}, 1),
        ('{"chosen": 3}, not {"chosen": "many"}', Choice, {"chosen": 3, "why": None}, 0),
    ],
)
def test_drafts_of_other_outputs(text: str, output: type[BaseModel], expected: dict[str, object], drafts: int) -> None:
    reading = read_json(text, output)
    assert (reading.output.model_dump(), reading.drafts) == (expected, drafts)


@pytest.mark.parametrize("end", [5, 12, 20, len(FINAL) - 3])
def test_a_draft_does_not_stand_for_an_answer_that_is_cut(end: int) -> None:
    with pytest.raises(UnusableError) as caught:
        read_json(f"Draft: {DRAFT}\nFinal: {FINAL[:end]}", Strictly)
    assert caught.value.kind == "truncated"


# ---------------------------------------------------------------- cut and broken answers


@pytest.mark.parametrize(
    "text",
    [
        '{"triples": [["a", "b", "c"], ["d", "e',
        '{"triples": [["a", "b", "c"],',
        '{"triples": [["a", "b", "c"]',
        '{\n  "triples": [\n    ["a", "b", "c"],\n    ["d", "e", "f"],\n',
        'Here they are:\n```json\n{"triples": [["a", "b", "c"],\n',
        '[["a", "b", "c"], ["d"',
        '<think>Two?</think>{"triples": [["a", "b", "c"], ["d", "e", "f"]',
    ],
)
def test_a_list_that_ends_in_the_middle_is_not_a_list(text: str) -> None:
    with pytest.raises(UnusableError, match="it ends within a list") as caught:
        read_json(text, Tuples)
    assert caught.value.kind == "truncated"


def test_broken_quotes_do_not_make_a_whole_list_half_a_list() -> None:
    assert read_json('[["a", "b, "c"]]', Tuples)[1] == "reshaped"
    assert read_json('{"answer": "see [1"}', Answer)[:2] == (Answer(answer="see [1"), "strict")
    assert read_json('Note [1: {"answer": "x"}', Answer)[:2] == (Answer(answer="x"), "found")


def test_only_strict_reading_where_that_is_asked() -> None:
    with pytest.raises(UnusableError):
        read_json('Well: {"answer": "x"}', Answer, tolerant=False)
    assert read_json('{"answer": "x"}', Answer, tolerant=False)[:2] == (Answer(answer="x"), "strict")


# ---------------------------------------------------------------- properties

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
extractions = st.builds(Tuples, triples=st.lists(st.tuples(words, words, words), max_size=5))


@given(extractions)
def test_json_round_trips(value: Tuples) -> None:
    assert read_json(value.model_dump_json(), Tuples)[:2] == (value, "strict")
    assert read_json(json.dumps(value.model_dump(), indent=2), Tuples)[:2] == (value, "strict")


@given(st.lists(st.tuples(*3 * [st.text(st.characters(), max_size=4)]), max_size=3))
def test_what_is_read_can_be_written(rows: list[tuple[str, str, str]]) -> None:
    """JSON may hold halves of surrogate pairs, plain or as escapes; UTF-8 may not."""
    for text in (json.dumps({"triples": rows}), json.dumps({"triples": rows}, ensure_ascii=False)):
        value, stage, _ = read_json(text, Tuples)
        assert [list(row) for row in value.triples] == [[encodable(word) for word in row] for row in rows]
        assert (stage, bool(value.model_dump_json().encode())) == ("strict", True)


pieces = st.sampled_from(
    ["{", "}", "[", "]", "(", ")", '"', "'", ",", ":", "\\", "\n", "1", "a", "null", "```", '{"answer":']
)


@settings(max_examples=examples(150))
@given(st.one_of(st.text(), st.lists(pieces, max_size=40).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    for output in (Answer, Extraction, Tuples, Choice):
        with contextlib.suppress(UnusableError):
            value, stage, _ = read_json(text, output)
            assert isinstance(value, output)
            assert stage in {"strict", "found", "repaired", "reshaped"}


@pytest.mark.parametrize("piece", ['{"', "[", '{")\'-#"', "{'true\"'", '{"a": ["b", ', "( '", "```\n", '{"answer": "x'])
def test_long_nonsense_ends(piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text._MeteredText, "left", 10_000)  # a hundredth of the bound
    for size in (60_000, 200_000):  # as much as is repaired, and more
        with pytest.raises(UnusableError):  # hours from now where nothing is bounded
            read_json(piece * (size // len(piece)), Tuples)


def test_repairing_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text._MeteredText, "left", 10_000)
    assert repair_text("{'a': [1, 2") == {"a": [1, 2]}
    assert repair_text('{")\'-#"' * 9000) is None
    assert repair_text("[" * 100) is None
    assert repair_text("[1, " + " " * 70_000) is None


listed = st.text(st.characters(exclude_categories=["Cs"]), max_size=6).filter(lambda word: not set("[]{}") & set(word))
facts = st.builds(Extraction, entities=st.lists(listed, max_size=3), triples=st.just([]))


@settings(max_examples=examples(40))
@given(facts, st.sampled_from([None, 1]))
def test_no_cut_of_an_answer_reads_as_another(value: Extraction, indent: int | None) -> None:
    """Every cut, also within the first key, and between fields of which the later have defaults."""
    text = json.dumps(value.model_dump(), indent=indent)
    for end in range(len(text)):
        with contextlib.suppress(UnusableError):
            assert read_json(text[:end], Extraction)[0] == value


def test_closing_brackets_are_added_before_anything_is_repaired() -> None:
    text = r'{"triples": [["\u001f\f", "a\/b", "\ud83c\udf5e"]]'  # json_repair leaves \f and \/ as they are written
    assert read_json(text, Tuples)[:2] == (Tuples(triples=[("\x1f\f", "a/b", "🍞")]), "repaired")
    assert read_json('{"triples": [["a", "b", "c"]],', Tuples)[0].triples == [("a", "b", "c")]


# ---------------------------------------------------------------- plain texts


def test_numbers_in_a_plain_text() -> None:
    assert read_chosen_numbers("Facts 3, 12 and 3", "fact") == [3, 12, 3]
    assert read_chosen_numbers("None of them.", "fact") == []
    with pytest.raises(ValueError, match="it names no fact by its number"):
        read_chosen_numbers("all of them", "fact")


def test_the_first_line_of_a_plain_text() -> None:
    assert read_first_line("\n  \n Who built it? \nAnd when?", "a question") == "Who built it?"
    with pytest.raises(ValueError, match="a question"):
        read_first_line(" \n ", "a question")


def test_a_failure_becomes_an_error() -> None:
    assert require_output(Names(names=["a"])) == Names(names=["a"])
    with pytest.raises(LLMError, match="no answer") as raised:
        require_output(Failure("echo", "no answer", "refused", set_aside=True))
    assert (raised.value.kind, raised.value.set_aside) == ("refused", True)
