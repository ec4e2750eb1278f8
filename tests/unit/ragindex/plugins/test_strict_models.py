"""A boolean is no number and a number is no boolean: in every field of every plugin, and in every file of settings."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import Field, ValidationError

from ragindex.errors import DataError, UsageError
from ragindex.llm import prices
from ragindex.plugins import registry
from ragindex.plugins.specs import Spec, render_spec
from ragindex.plugins.strict_models import Strict
from ragindex_eval.run.settings import read_settings

GROUPS: tuple[registry.PluginGroup, ...] = ("schemes", "parts", "encoders", "stores", "llms")


def fields() -> list[tuple[registry.PluginGroup, str, str, Any]]:
    """Every field whose default is a number or a boolean, or None where its type names numbers; with a wrong value."""
    cases = []
    for group in GROUPS:
        for name in registry.plugin_names(group):
            for field, info in registry.load_plugin(group, name).model_fields.items():
                default, written = info.get_default(call_default_factory=True), str(info.annotation)
                if isinstance(default, bool):
                    cases.append((group, name, field, 1))
                elif isinstance(default, int | float) or (default is None and re.search(r"\b(int|float)\b", written)):
                    cases.append((group, name, field, True))
                elif isinstance(default, tuple) and default and isinstance(default[0], int | float):
                    cases.append((group, name, field, [True]))
    return cases


FIELDS = fields()


def test_there_are_fields_of_every_kind() -> None:
    assert len(FIELDS) > 100
    assert {"True", "1"} <= {str(value) for *_, value in FIELDS}
    assert {group for group, *_ in FIELDS} >= {"schemes", "parts", "encoders", "stores"}


def message_of(group: registry.PluginGroup, written: Any) -> str:
    """Return how a plugin is refused; nothing if it is taken."""
    try:
        registry.create(group, written)
    except UsageError as error:
        return str(error)
    return ""


def test_every_field_of_every_plugin() -> None:
    taken = []
    for group, name, field, value in FIELDS:
        params = {field: value}
        wanted = "true or false" if value == 1 and value is not True else "a number, not true or false"
        message = f"The '{field}' parameter of {name} must be {wanted}. Got {value!r} instead."
        from_yaml = yaml.safe_load(yaml.safe_dump({"name": name, "params": params}))
        for written in (render_spec(Spec(name, params)), from_yaml, json.loads(json.dumps(from_yaml))):
            if message not in message_of(group, written):
                taken.append(written)
        try:
            registry.load_plugin(group, name)(**params)
        except ValidationError:
            continue
        taken.append((name, params))
    assert taken == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("k: true", "a number"),
        ("k: [5, true]", "a number"),
        ("limit: true", "a number"),
        ("seed: false", "a number"),
        ("seeds: [0, true]", "a number"),
        ("budget: true", "a number"),
        ("reader-tokens: true", "a number"),
        ("strict: 1", "true or false"),
        ("read: 0", "true or false"),
        ("corpora: [{data: x, limit: true}]", "a number"),
    ],
)
def test_the_file_of_a_comparison(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"methods: bm25\n{line}\n")
    with pytest.raises(UsageError, match=message):
        read_settings(tmp_path / "c.yaml")


def test_the_file_of_prices(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("models:\n  x: {input: true, output: 1.0}\n")
    with pytest.raises(DataError, match="a number, not true or false"):
        prices.load_prices(tmp_path / "p.yaml")


class Nested(Strict):
    """Numbers and booleans at every depth."""

    number: Annotated[int, Field(ge=0)] = 0
    either: bool | int = 0
    chosen: Literal[1, 2] = 1
    switch: Literal[True, "auto"] = True
    pairs: tuple[tuple[int, bool], ...] = ()
    by_name: dict[str, list[float]] = Field(default={})
    some: str | int | list[int] | None = None
    anything: Any = None


@pytest.mark.parametrize(
    "value",
    [
        {"number": True},
        {"chosen": True},
        {"switch": 1},
        {"pairs": [[True, True]]},
        {"pairs": [[1, 1]]},
        {"by_name": {"a": [0.5, False]}},
        {"some": True},
        {"some": [True]},
    ],
)
def test_at_every_depth(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as error:
        Nested(**value)
    assert error.value.errors()[0]["loc"] == tuple(value)


@pytest.mark.parametrize(
    "value",
    [
        {"number": 1, "either": True, "chosen": 2, "switch": True, "some": "x"},
        {"either": 1, "switch": "auto", "pairs": [[1, True]], "by_name": {"a": [1, 0.5]}, "some": [5]},
        {"anything": True},
        {"anything": [1, True]},
        {"number": "5"},  # as `lsa:256` gives it
        {"some": None},
    ],
)
def test_what_is_taken(value: dict[str, Any]) -> None:
    Nested(**value)


@pytest.mark.parametrize("value", [{"number": "true"}, {"number": [True]}, {"number": {"a": True}}, {"pairs": True}])
def test_what_is_of_another_kind_is_pydantics_to_refuse(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Nested(**value)
