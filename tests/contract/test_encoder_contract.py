"""What every registered encoder keeps to."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np
import openai_server
import pytest
import tiktoken
import tiktoken.registry
from hypothesis import given, settings
from hypothesis import strategies as st
from minilm import model_folder

from examples import examples
from ragindex.accounting import ledger
from ragindex.corpus.chunk_spans import by_tokens
from ragindex.encoders.lsa import Lsa
from ragindex.encoders.vector_cache import CachedEncoder
from ragindex.interfaces import Encoder, EncoderPlugin, TokenEncoder
from ragindex.llm import tokens as llm_tokens
from ragindex.plugins import registry

CORPUS = [
    "Glass\nGlass is made from sand, soda and lime in a furnace that never cools.",
    "Furnaces\nThe furnace of the glassworks burns gas; before that it burned beech wood.",
    "Sand\nThe purest sand comes from the quarry above the river.",
    "Rivers\nThe river carries the sand to the sea, where the tide takes it.",
    "Tides\nThe tide follows the moon; sailors read it from a table.",
    "The moon\nThe moon turns once a month and shows us one face.",
    "Tables\nA table of tides hangs in the office of the harbour master.",
    "Harbours\nThe harbour was dug by hand and is dredged every spring.",
    "Spring\nIn spring the swallows come back to the quarry to breed.",
    "Swallows\nSwallows nest in holes that they dig in walls of sand.",
    "日本語\nガラスは砂から作られる。",
    "Стекло\nСтекло делают из песка.",
]
SCRIPTS = [
    "glass",
    "ガラスと砂",
    "песок",
    "γυαλί",
    "زجاج ورمل",
    "זכוכית",
    "काँच और रेत",
    "கண்ணாடி",
    "แก้วและทราย",
    "유리와 모래",
    "玻璃",
    "🙂🏖",
]
ODD = ["\0", "\x01\x1b\x7f glass", "\ud800 sand", "\u202e\u200b", "?!", "a"]
Opened = Callable[[Path, ExitStack], Encoder]


# ---------------------------------------------------------------- how each is opened


def _lsa(folder: Path, _: ExitStack) -> Encoder:
    Lsa().fit(CORPUS * 2, "english", 0, folder)  # of as many dimensions as CORPUS has texts: every word is in one
    return Lsa().load(folder)


def _sentence_transformers(_: Path, __: ExitStack) -> Encoder:
    return _plugin(f"sentence-transformers:{model_folder()}").open()


def _openai(_: Path, stack: ExitStack) -> Encoder:
    server = stack.enter_context(openai_server.OpenAIServer())
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    for name, value in (("BASE_URL", server.url), ("API_KEY", openai_server.KEY)):
        patch.setitem(os.environ, f"EMBEDDING_{name}", value)
    ranks = {bytes([number]): number for number in range(256)} | {b" sand": 256, b"gl": 257, b"glass": 258}
    encoding = tiktoken.Encoding("made", pat_str=r" ?\w+|\s+|[^\s\w]", mergeable_ranks=ranks, special_tokens={})
    patch.setitem(tiktoken.registry.ENCODINGS, "cl100k_base", encoding)
    llm_tokens._loaded.cache_clear()
    stack.callback(llm_tokens._loaded.cache_clear)
    return _plugin("openai:text-embedding-3-small").open()


def _plugin(written: str) -> EncoderPlugin:
    plugin = registry.encoder(written)
    assert isinstance(plugin.argument, str)
    assert plugin.argument in type(plugin).model_fields  # type: ignore[attr-defined]
    return plugin  # type: ignore[return-value]


OPENED: dict[str, Opened] = {"lsa": _lsa, "openai": _openai, "sentence-transformers": _sentence_transformers}


@pytest.fixture(scope="module", params=registry.plugin_names("encoders"))
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encoder]:
    assert request.param in OPENED, f"say in OPENED how to open the encoder {request.param!r}"
    with ExitStack() as stack:
        yield OPENED[request.param](tmp_path_factory.mktemp("encoder"), stack)


# ---------------------------------------------------------------- what they keep to


def _unit(vectors: np.ndarray) -> None:
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    np.testing.assert_allclose(lengths[lengths > 0], 1.0, atol=1e-6)


def test_length_one(encoder: Encoder) -> None:
    for vectors in (encoder.encode_documents(CORPUS), encoder.encode_queries(CORPUS)):
        assert vectors.shape == (len(CORPUS), encoder.dimensions)
        assert vectors.any(axis=1).all()
        _unit(vectors)


def test_a_passage_is_nearest_to_itself(encoder: Encoder) -> None:
    scores = encoder.encode_queries(CORPUS) @ encoder.encode_documents(CORPUS).T
    assert list(scores.argmax(axis=1)) == list(range(len(CORPUS)))


def test_order_is_kept(encoder: Encoder) -> None:
    there, back = encoder.encode_documents(CORPUS), encoder.encode_documents(CORPUS[::-1])
    np.testing.assert_allclose(there, back[::-1], atol=1e-5)


def test_batches_do_not_matter(encoder: Encoder) -> None:
    texts = [*CORPUS[:2], "glass " * 30, "", "sand"]
    together = encoder.encode_documents(texts)
    alone = np.concatenate([encoder.encode_documents([text]) for text in texts])
    many = encoder.encode_documents(["sand"] * 130 + texts)[-len(texts) :]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, many, atol=1e-5)


def test_words_that_are_not_known_change_nothing(encoder: Encoder) -> None:
    words = encoder.check_words("The furnace of Murano burns quartz, and the furnace sings.")
    if words is None:
        assert encoder.check_words("") is None
        assert not encoder.is_full
        return
    assert words == {"furnace": True, "murano": False, "burns": True, "quartz": False, "sings": False}
    known = " ".join(word for word, is_known in words.items() if is_known)
    vectors = encoder.encode_documents([known, f"{known} murano quartz sings"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert encoder.check_words("") == {}


def test_no_texts(encoder: Encoder) -> None:
    for vectors in (encoder.encode_documents([]), encoder.encode_queries([])):
        assert (vectors.shape, vectors.dtype) == ((0, encoder.dimensions), np.float32)


def test_odd_texts(encoder: Encoder) -> None:
    texts = ["", " \n", *ODD, *SCRIPTS]
    for vectors in (encoder.encode_documents(texts), encoder.encode_queries(texts)):
        assert vectors.shape == (len(texts), encoder.dimensions)
        assert np.isfinite(vectors).all()
        _unit(vectors)
    np.testing.assert_allclose(vectors, encoder.encode_queries(texts), atol=1e-5)


def test_a_text_of_100_000_characters(encoder: Encoder) -> None:
    texts = [("glass and sand " * 6667)[:100_000], "x" * 100_000, "sand"]
    vectors = encoder.encode_documents(texts)
    assert vectors.shape == (3, encoder.dimensions)
    _unit(vectors)
    np.testing.assert_allclose(vectors[2:], encoder.encode_documents(["sand"]), atol=1e-5)


def test_threads(encoder: Encoder) -> None:
    jobs = [CORPUS[i : i + 3] for i in range(10)]
    alone = [encoder.encode_queries(job) for job in jobs]
    with ThreadPoolExecutor(6) as pool:
        for vectors, other in zip(alone, pool.map(encoder.encode_queries, jobs), strict=True):
            np.testing.assert_allclose(vectors, other, atol=1e-5)


def test_id_is_a_name_that_stays(encoder: Encoder) -> None:
    assert encoder.id == encoder.id
    assert encoder.id.isprintable()
    assert not set(encoder.id) & set("/\\: ")


def test_tokens(encoder: Encoder) -> None:
    if not isinstance(encoder, TokenEncoder):
        assert not hasattr(encoder, "encode_tokens")
        return
    texts = [*CORPUS, "", *ODD, *SCRIPTS]
    embeddings = encoder.encode_tokens(texts)
    assert [bool(tokens.spans) for tokens in embeddings[: len(CORPUS) + 1]] == [True] * len(CORPUS) + [False]
    for text, tokens in zip(texts, embeddings, strict=True):
        assert tokens.vectors.shape == (len(tokens.spans), encoder.dimensions)
        assert tokens.vectors.any(axis=1).all()
        _unit(tokens.vectors)
        assert all(0 <= start < end <= len(text) for start, end in tokens.spans)
        assert list(tokens.spans) == sorted(tokens.spans)
        np.testing.assert_array_equal(encoder.encode_tokens([text])[0].vectors, tokens.vectors)
    assert encoder.encode_tokens([]) == []
    vectors, of_questions = encoder.encode_queries_with_tokens(texts)
    np.testing.assert_allclose(vectors, encoder.encode_queries(texts), atol=1e-5)
    assert [question.spans for question in of_questions] == [embedding.spans for embedding in embeddings]
    _unit(np.concatenate([question.vectors for question in of_questions]))
    assert encoder.encode_queries_with_tokens([])[1] == []
    words = {CORPUS[2][start:end].casefold() for start, end in embeddings[2].spans}
    assert {"sand", "quarry", "river"} <= words


def _is_paid(encoder: Encoder) -> bool:
    return encoder.texts_a_request is not None


def test_token_counts(encoder: Encoder, tmp_path: Path) -> None:
    assert CachedEncoder(encoder, tmp_path / "cache").max_tokens == encoder.max_tokens
    expected = {"lsa": None, "openai": 8192, "sentence": 254}  # 256 without [CLS] and [SEP]
    assert encoder.max_tokens == expected[encoder.id.partition("-")[0]]
    text = " sand  and\nsand "
    spelt = [text[start:end].strip() for start, end in encoder.token_spans(text)]
    if not _is_paid(encoder):  # the vocabulary above has " sand", else bytes
        assert spelt == ["sand", "and", "sand"]
    assert len(encoder.token_spans("glass " * 3000)) >= 3000
    assert encoder.token_spans("") == encoder.token_spans(" \n") == [] or _is_paid(encoder)
    for text in (*CORPUS, *SCRIPTS, *ODD):
        spans = encoder.token_spans(text)
        assert spans == sorted(spans)
        assert all(0 <= start < end <= len(text) for start, end in spans)


WORDS = st.sampled_from(
    ["sand", "glass", "unbelievability", "don't", "x" * 130, "ガラスと砂", "🙂🏖", "é\u0301", "\ud800"]
)
TEXT = st.lists(st.tuples(st.one_of(WORDS, st.text(max_size=6)), st.sampled_from([" ", "", "\n\n", ", "])), max_size=25)


@settings(max_examples=examples(60))
@given(drawn=TEXT, size=st.integers(1, 12), share=st.integers(0, 11))
def test_windows_of_tokens(encoder: Encoder, drawn: list[tuple[str, str]], size: int, share: int) -> None:
    """They lie in order, leave out white space only, and fit, unless they cannot be divided."""
    text, overlap = "".join(map("".join, drawn)), min(share, size - 1)
    spans = list(by_tokens(text, encoder.token_spans, size, overlap))
    assert spans == sorted(spans)
    assert len({start for start, _ in spans}) == len({end for _, end in spans}) == len(spans)
    covered = {place for start, end in spans for place in range(start, end)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)
    for start, end in spans:
        window = text[start:end]
        assert window == window.strip()
        assert window
        tokens = encoder.token_spans(window)
        within = {place for span in tokens for place in span} - {0, len(window)}  # else it cannot be divided
        assert len(tokens) <= size or not within
    if not overlap:
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_what_is_paid_is_booked_once(encoder: Encoder) -> None:
    with ledger.record_calls() as tally:
        encoder.encode_documents(CORPUS)
        encoder.encode_queries(CORPUS)
    if not _is_paid(encoder):
        assert tally.entries == ()
        return
    assert {entry.task for entry in tally.entries} == {ledger.EMBEDDING}
    assert tally.spent.input_tokens == 2 * sum(len(text.split()) for text in CORPUS)
