import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragindex.errors import UsageError
from ragindex.plugins.specs import Spec, parse_many, parse_spec, render_spec

names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_.\-]{0,8}", fullmatch=True)
numbers = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False))
addresses = st.from_regex(r"https?://[a-z0-9.:/@?=&,()\[\] \"-]{0,12}", fullmatch=True)
paths = st.from_regex(r"[a-z0-9.~\-]{0,3}/[a-z0-9./@#,()\[\] \"-]{0,12}", fullmatch=True)
scalars = st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=8), addresses, paths)
mappings = st.dictionaries(st.one_of(names, st.text(max_size=4)), st.deferred(lambda: values), max_size=3)
specs = st.deferred(lambda: st.builds(Spec, names, st.dictionaries(names, values, max_size=3)))
values = st.deferred(
    lambda: st.one_of(scalars, st.lists(scalars, max_size=3), mappings, specs.filter(lambda spec: spec.params))
)


@given(specs)
def test_what_is_rendered_is_read_back(spec: Spec) -> None:
    assert parse_spec(render_spec(spec)) == spec


@given(st.lists(specs, min_size=1, max_size=4))
def test_lists_of_them_too(many: list[Spec]) -> None:
    assert parse_many(", ".join(map(render_spec, many))) == many


def test_by_hand() -> None:
    assert parse_spec("gear(base=griever(iterations=3), beam_width = 5)") == Spec(
        "gear", {"base": Spec("griever", {"iterations": 3}), "beam_width": 5}
    )
    assert parse_spec("hybrid(bases=[bm25, dense(over=triples)])") == Spec(
        "hybrid", {"bases": ["bm25", Spec("dense", {"over": "triples"})]}
    )
    assert parse_spec('x(a=true, b=null, c="a, b)", d=-1.5e3, e=true-ish)') == Spec(
        "x", {"a": True, "b": None, "c": "a, b)", "d": -1500.0, "e": "true-ish"}
    )
    assert parse_spec("elasticsearch:http://127.0.0.1:9200") == Spec("elasticsearch", argument="http://127.0.0.1:9200")
    assert parse_spec("sentence-transformers:models/a (b)") == Spec("sentence-transformers", argument="models/a (b)")
    assert parse_many("bm25") == [Spec("bm25")]
    assert parse_many("http(url=https://a.example:8443/v1/search, k=5),bm25") == [
        Spec("http", {"url": "https://a.example:8443/v1/search", "k": 5}),
        Spec("bm25"),
    ]
    assert parse_spec("evidence(weights=./out/w-1.json, k=5)") == Spec(
        "evidence", {"weights": "./out/w-1.json", "k": 5}
    )
    assert parse_spec("x(a=out/w.json#0a1b, b=[/tmp/é.json, ../d/e])") == Spec(
        "x", {"a": "out/w.json#0a1b", "b": ["/tmp/é.json", "../d/e"]}
    )
    mapping = {"chat_template_kwargs": {"enable_thinking": False}, "stop": ["a b", 1], "url": "https://a.example/?b=c"}
    assert parse_spec(f"x(extra={json.dumps(mapping)})") == Spec("x", {"extra": mapping})
    written = (
        'x(extra={chat_template_kwargs:{enable_thinking:false},stop: ["a b", 1], url: https://a.example/?b=c}, y={})'
    )
    assert parse_spec(written) == Spec("x", {"extra": mapping, "y": {}})
    assert parse_spec("x(all=[http://a/b?c=d, e])") == Spec("x", {"all": ["http://a/b?c=d", "e"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1, expected a name; found 'the end'"),
        ("bm25(", "expected a parameter's name"),
        ("bm25(k", "expected '=' after 'k'"),
        ("bm25(k=1", "expected ',' or ')'"),
        ("bm25(k=1,k=2)", "each parameter once, but 'k' stands twice"),
        ("x(a={b", "expected ':' after 'b'"),
        ("x(a={b: 1", "expected ',' or '}'"),
        ("x(a={1: 1})", "expected a key's name"),
        ('x(a={b: 1, "b": 2})', "each key once, but 'b' stands twice"),
        ("x(a={", "expected a key's name; found 'the end'"),
        ("x(a=" + "{a:" * 30, "at most 20 levels"),
        ("bm25 dense", "character 6, expected the end; found 'dense'"),
        ("bm25,,dense", "expected the end"),
        ("x(a=" + "[" * 30 + "]" * 30 + ")", "at most 20 levels"),
        ("x(a=" * 30, "at most 20 levels"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_spec(text)
    assert message in str(error.value)
