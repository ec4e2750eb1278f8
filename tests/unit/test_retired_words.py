"""The check of retired words that `make lint` runs: what it finds, what it lets pass, and that limits only fall."""

import pytest
from retired_words import Occurrence, Rules, find_names, find_phrases, lower_limits, remove_exceptions, report_excess

RULES = Rules.model_validate(
    {
        "names": {"found": "match", "Made": "BuildResult"},
        "phrases": {"in vain": "needlessly", "(is|are) told": "is given"},
        "exceptions": [{"word": "found", "files": "tests/old/*", "reason": "an interface of another library"}],
        "limits": {"names": {"tests": 1}, "phrases": {}},
    }
)

BINDINGS = [
    "found = 1",
    "_found: int = 1",
    "a, *found = b",
    "for found in b: pass",
    "x = [found for found in b]",
    "x = (found := b)",
    "def f(found): pass",
    "def f(*, found=1): pass",
    "f = lambda found: 1",
    "self.found = 1",
    "with b as found: pass",
    "import b as found",
    "try: pass\nexcept OSError as found: pass",
    "match b:\n    case [found]: pass",
    "def found(): pass",
    "async def found(): pass",
    "class Made: pass",
    "class A:\n    found: int",
]


@pytest.mark.parametrize("code", BINDINGS)
def test_bound_names_are_found(code: str) -> None:
    (match,) = find_names("eval/a.py", code, RULES)
    assert (match.kind, match.word.lower() in {"found", "made"}, match.folder) == ("names", True, "eval")


@pytest.mark.parametrize(
    "code",
    ["print(found)", "a.found()", "f(found=1)", "not_found = founder = 1", "made = 1", "'found = 1'  # found = 1"],
)
def test_other_uses_of_names_pass(code: str) -> None:
    """What is only read is bound elsewhere, perhaps by a library."""
    assert list(find_names("eval/a.py", code, RULES)) == []


@pytest.mark.parametrize(
    ("path", "text", "line"),
    [
        ("docs/a.md", "# A\n\nIt asked in\nvain.", 3),
        ("README.md", "In Vain.", 1),
        ("eval/a.py", '"""One line.\n\nThe model is\n    told."""\n', 3),
        ("eval/a.py", "x = f'{a} in vain'\n", 1),
        ("eval/a.py", "x = 1\n# It is sought in\n# vain.\nx = 2\n", 2),
        ("eval/a.py", "x = [\n    1,  # in vain\n]\n", 2),
    ],
)
def test_phrases_are_found_with_their_lines(path: str, text: str, line: int) -> None:
    (match,) = find_phrases(path, text, RULES)
    assert (match.kind, match.line) == ("phrases", line)


@pytest.mark.parametrize(
    ("path", "text"), [("docs/a.md", "in vains, is retold"), ("eval/a.py", "x = in_vain\ny = 'in'\nz = 'vain'\n")]
)
def test_other_texts_pass(path: str, text: str) -> None:
    assert list(find_phrases(path, text, RULES)) == []


def test_exceptions_hold_for_their_files_alone() -> None:
    old, new = (Occurrence("names", "found", f"tests/{folder}/a.py", 1) for folder in ("old", "new"))
    assert remove_exceptions([old, new], RULES) == [new]
    with pytest.raises(ValueError, match=r"no file needs the exception for found in tests/old/\*: remove it"):
        remove_exceptions([new], RULES)


def test_excess_is_reported_with_places() -> None:
    """A folder without a limit may have none."""
    first, second = (Occurrence("names", "found", "tests/a.py", line) for line in (3, 7))
    assert report_excess([first], RULES) == []
    assert report_excess([first, second], RULES) == [
        "tests: 2 retired names, where 1 are allowed (tests/support/retired_words.toml)",
        "  tests/a.py:3: found; write match",
        "  tests/a.py:7: found; write match",
    ]
    assert len(report_excess([Occurrence("names", "found", "eval/a.py", 1)], RULES)) == 2


def test_limits_only_fall() -> None:
    matches = [Occurrence("names", "found", f"{folder}/a.py", line) for folder in ("tests", "eval") for line in (1, 2)]
    assert lower_limits(matches, RULES).limits == {"names": {"tests": 1}, "phrases": {}}
    assert lower_limits(matches[2:], RULES).limits == {"names": {}, "phrases": {}}
