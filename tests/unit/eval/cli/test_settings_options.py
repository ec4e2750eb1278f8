"""Options of commands made from the settings, and those of `ragindex.compare`."""

from pathlib import Path
from typing import Any, get_args

from ragindex.cli.option_groups import Group
from ragindex.compare_options import CompareOptions
from ragindex_eval.api import _COMMAND_ONLY
from ragindex_eval.choose.recommendation import RecommendRules, make_rules
from ragindex_eval.cli.settings_options import COMMON, options_group, settings_group
from ragindex_eval.run.settings import GROUPS, CompareSettings, given_values, make_settings


def types(group: Group) -> dict[str, Any]:
    return {parameter.name: get_args(parameter.annotation)[0] for parameter in group.parameters}


def test_options_have_the_types_of_the_settings() -> None:
    group = settings_group("questions", "limit", "max_file_mb", "read", "include", "rows", "encoder", "k", "methods")
    assert types(group) == {
        "questions": Path | None,
        "methods": str | None,
        "encoder": str | None,
        "limit": int | None,
        "max_file_mb": float | None,
        "include": list[str] | None,
        "rows": str | None,
        "k": str | None,
        "read": bool | None,
    }
    assert types(options_group(RecommendRules, "Rules", make_rules))["block"] == int | None


def test_common_options_come_first_and_have_no_group() -> None:
    fields = CompareSettings.model_fields.items()
    described = [name for name, field in fields if field.description and name != "data"]
    group = settings_group(*described)
    titles = [get_args(parameter.annotation)[1].rich_help_panel for parameter in group.parameters]
    assert [parameter.name for parameter in group.parameters][: len(COMMON)] == list(COMMON)
    assert titles[: len(COMMON)] == [None] * len(COMMON)
    assert list(dict.fromkeys(titles[len(COMMON) :])) == list(GROUPS)


def test_values_that_are_not_given_are_not_set() -> None:
    group = settings_group("questions", "k", "include", "seed")
    values = {"questions": Path("q.csv"), "k": "1,3", "include": [], "seed": None}
    settings = group.make(values)
    assert settings.model_fields_set == {"questions", "k"}
    assert (settings.questions, settings.k) == (Path("q.csv"), (1, 3))


def test_given_values_are_in_the_order_of_the_fields() -> None:
    values = {"seed": 1, "skip_bad": True, "strict": True, "limit": 5, "k": (1,), "include": ["*.md"]}
    assert list(given_values(make_settings(values))) == [n for n in CompareSettings.model_fields if n in values]


def test_every_setting_is_declared_in_one_group() -> None:
    fields = [name for model in GROUPS.values() for name in model.__annotations__]
    assert sorted(fields) == sorted(CompareSettings.model_fields)
    assert len(fields) == len(set(fields))


def test_options_in_python_are_the_settings() -> None:
    own = {"data", "methods", "questions"}  # parameters of the function
    assert set(CompareOptions.__annotations__) == set(CompareSettings.model_fields) - own - set(_COMMAND_ONLY)
