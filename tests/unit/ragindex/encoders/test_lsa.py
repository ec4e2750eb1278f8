"""Latent semantic analysis: held equal to scikit-learn, deterministic, and at ease with degenerate corpora."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from ragindex import text_analysis
from ragindex.encoders import lsa
from ragindex.encoders.lsa import Lsa, LsaEncoder
from ragindex.errors import StoreError, UsageError
from ragindex.interfaces import TokenEncoder
from ragindex.plugins import registry

CORPUS = [
    "Ferries\nThe ferry leaves the harbour at dawn and crosses the strait in an hour.",
    "Harbours\nA harbour shelters ships, and its lighthouse guides the ferry at night.",
    "Lighthouses\nThe lighthouse on the cape was built of granite; its lamp burns oil.",
    "Bakeries\nThe bakery opens before dawn, and the baker kneads dough for rye bread.",
    "Bread\nRye bread needs sourdough, water, salt and a hot oven.",
    "Ovens\nThe oven of the bakery is heated with beech wood.",
    "Forests\nBeech and oak grow in the forest above the village.",
    "Villages\nThe village has a church, a school and a bakery.",
    "Schools\nThe school teaches navigation to children who will work on ships.",
    "Navigation\nNavigation by stars, by compass and by the lamps of lighthouses.",
]


def _fitted(folder: Path, texts: list[str] = CORPUS, dimensions: int = 1024, seed: int = 0) -> LsaEncoder:
    folder.mkdir()
    plugin = Lsa(dimensions=dimensions)
    plugin.fit(texts, "english", seed, folder)
    return plugin.load(folder)


def _tokens(texts: list[str]) -> list[str]:
    return text_analysis.analyse_many(texts, "none")


# ---------------------------------------------------------------- held equal to scikit-learn


def test_ids_do_not_take_the_places_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsa, "_VOCABULARY", 4)
    texts = ["0a1f kelp harbour", "7c9e otter harbour", "1b2d 3e4f zebra"]
    assert lsa._vocabulary(texts, frozenset()) == {"harbour": 0, "kelp": 1, "otter": 2, "zebra": 3}


def test_vectors_are_scikit_learns(tmp_path: Path) -> None:
    encoder = _fitted(tmp_path / "fit")
    peer = TfidfVectorizer(sublinear_tf=True, stop_words="english", tokenizer=str.split, token_pattern=None)
    weights = peer.fit_transform(_tokens(CORPUS))
    svd = TruncatedSVD(5, algorithm="arpack").fit(weights)
    questions = ["Who guides ferries to the harbour?", "rye bread from the bakery"]
    both = CORPUS + questions
    expected = normalize(svd.transform(peer.transform(_tokens(both))) / svd.singular_values_)
    vectors = encoder.encode_documents(both)
    assert vectors.shape == (12, 5)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-4)  # axes may point the other way


# ---------------------------------------------------------------- the fit


def test_same_texts_same_bytes(tmp_path: Path) -> None:
    """And another id where the texts or the dimensions are others."""
    first, second = _fitted(tmp_path / "a"), _fitted(tmp_path / "b", CORPUS[::-1])
    assert first.id == second.id
    assert first.id.startswith("lsa-")
    assert len({first.id, _fitted(tmp_path / "c", CORPUS[1:]).id, _fitted(tmp_path / "d", dimensions=2).id}) == 3
    assert {file.suffix for file in (tmp_path / "a").iterdir()} == {".json", ".npy"}  # no pickle
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name
    np.testing.assert_array_equal(first.encode_documents(CORPUS), second.encode_documents(CORPUS))


def test_language_is_part_of_the_fit(tmp_path: Path) -> None:
    texts = ["Die Häuser am Hafen", "Ein Haus im Wald", "Der Wald am Hafen", "Hafen und Häuser"]
    for language, is_word in (("german", False), ("english", True)):  # "die" is an article, or what mortals do
        (tmp_path / language).mkdir()
        Lsa().fit(texts, language, 0, tmp_path / language)
        vectors = Lsa().load(tmp_path / language).encode_documents(["Hafen", "die"])
        assert vectors.any(axis=1).tolist() == [True, is_word]


@pytest.mark.parametrize(("passages", "dimensions", "expected"), [(10, 1024, 5), (10, 3, 3), (9, 1024, 5), (3, 8, 2)])
def test_dimensions(tmp_path: Path, passages: int, dimensions: int, expected: int) -> None:
    """Half the passages, and more while a singular value is 1 or more: of nine passages five are, of three two."""
    assert _fitted(tmp_path / "fit", CORPUS[:passages], dimensions).dimensions == expected


FEW_WORDS = [f"word{n}" for n in range(30)]


def test_a_text_of_words_that_no_direction_reaches_has_a_vector(tmp_path: Path) -> None:
    """The rounding errors of both words are greater together than the length of an error."""
    texts = [
        *("word0 word7", "word0 word0 word3 word4 word9", "word1 word0 word3 word3", "word6 word12", "word11 word0"),
        *("word13 word0", "word10", "word0 word14", "word1 word2", "word3 word0 word4", "word7 word8"),
        "word1 word0 word0 word0 word1 word5",
    ]
    vectors = _fitted(tmp_path / "fit", texts, 1).encode_documents(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@given(
    st.lists(st.lists(st.sampled_from(FEW_WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=40),
    st.sampled_from([1, 2, 5, 1024]),
    st.data(),
)
def test_every_text_with_a_known_word_has_a_vector(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], dimensions: int, data: st.DataObject
) -> None:
    """Also where passages share no words, and directions that are as strong as those that are kept are left out."""
    encoder = _fitted(tmp_path_factory.mktemp("lsa") / "fit", texts, dimensions)
    words = sorted({word for text in texts for word in text.split()})
    unseen = " ".join(data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=4)))
    vectors = encoder.encode_documents([*texts, *words, unseen])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert all(tokens.spans for tokens in encoder.encode_tokens(words))
    assert not encoder.encode_documents(["unknown"]).any()


def test_a_word_that_no_direction_reaches_has_a_vector(tmp_path: Path) -> None:
    """The texts of word5 are reached by its neighbour, and it alone by none of the directions."""
    texts = ["word0"] * 5 + [
        "word1 word2",
        "word4 word5",
        "word1 word3 word6",
        "word2 word4 word7",
        "word0 word3 word8 word8",
    ]
    encoder = _fitted(tmp_path / "fit", texts, 1)
    assert np.linalg.norm(encoder.encode_documents(["word5"]), axis=1) == pytest.approx(1)
    assert encoder.encode_tokens(["word5"])[0].spans == ((0, 5),)


@pytest.mark.parametrize(("passages", "most", "directions"), [(4, 1024, 6), (6, 1024, 6), (8, 1024, 12), (8, 8, 8)])
def test_directions_of_equal_values_are_kept_together(passages: int, most: int, directions: int) -> None:
    """Six pairs of passages have six equal singular values above 1 and six below: rounding would choose among them."""
    texts = [f"shared{n} {other}{n}" for n in range(6) for other in ("first", "second")]
    vocabulary = lsa._vocabulary(texts, frozenset())
    counts = lsa._counts(texts, vocabulary)
    weights = lsa._tf_idf(counts, lsa._idf(counts))
    np.testing.assert_allclose(np.linalg.svd(weights.toarray(), compute_uv=False), [1.1935155] * 6 + [0.7586307] * 6)
    assert lsa._projection(weights, passages, most, 0).shape == (18, directions)


def test_written_with_an_argument() -> None:
    assert registry.encoder("lsa:256") == Lsa(dimensions=256)
    with pytest.raises(UsageError, match="greater than or equal to 1"):
        registry.encoder("lsa:0")


def test_large_corpora_are_sampled_and_words_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsa, "_FITTED_PASSAGES", 6)
    monkeypatch.setattr(lsa, "_VOCABULARY", 4)
    same = [_fitted(tmp_path / name, seed=7) for name in "ab"]
    assert same[0].id == same[1].id
    assert same[0].dimensions == 3
    vocabulary = json.loads((tmp_path / "a" / "vocabulary.json").read_text())
    assert len(vocabulary) == 4
    assert len({_fitted(tmp_path / f"seed{seed}", seed=seed).id for seed in range(4)}) > 1


# ---------------------------------------------------------------- degenerate corpora


@pytest.mark.parametrize(
    ("texts", "dimensions"),
    [
        (["harbour"], 1),
        (["the harbour at dawn"] * 50, 1),
        (["harbour dawn", "oven rye"] * 20, 2),
        ([""], 1),
        (["?!", "\0", "..."], 1),
        ([], 1),
    ],
)
def test_degenerate(tmp_path: Path, texts: list[str], dimensions: int) -> None:
    encoder = _fitted(tmp_path / "fit", texts)
    assert encoder.dimensions == dimensions
    vectors = encoder.encode_documents([*texts, "unheard of", ""])
    lengths = np.linalg.norm(vectors, axis=1)
    known = [any(character.isalpha() for character in given_text) for given_text in texts]
    np.testing.assert_allclose(lengths, [*map(float, known), 0.0, 0.0], atol=1e-6)
    for vector, is_known in zip(encoder.encode_tokens(texts), known, strict=True):
        assert bool(vector.spans) == is_known


# ---------------------------------------------------------------- tokens


def test_a_words_vector_is_that_of_the_word_alone(tmp_path: Path) -> None:
    encoder = _fitted(tmp_path / "fit")
    assert isinstance(encoder, TokenEncoder)
    assert encoder.texts_a_request is None  # costs nothing
    [embeddings] = encoder.encode_tokens(["The HARBOUR, xyzzy and an oven"])
    assert embeddings.spans == ((4, 11), (26, 30))
    np.testing.assert_allclose(embeddings.vectors, encoder.encode_queries(["harbour", "oven"]), atol=1e-6)


# ---------------------------------------------------------------- bad luck


@pytest.mark.parametrize("name", ["fit.json", "vocabulary.json", "idf.npy", "projection.npy"])
def test_a_spoilt_fit(tmp_path: Path, name: str) -> None:
    _fitted(tmp_path / "fit")
    file = tmp_path / "fit" / name
    original = file.read_bytes()
    for content in (original[: len(original) // 2], b"", None):
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(StoreError, match="cannot be read .* Delete that folder and run: ragindex index"):
            Lsa().load(tmp_path / "fit")


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", ["idf.npy", "projection.npy"])
@pytest.mark.parametrize("shape", [(10**14,), (2**63,), (3, 2**60)])
def test_fit_asks_for_no_more_memory_than_its_files(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    _fitted(tmp_path / "fit")
    with (tmp_path / "fit" / name).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        file.write(bytes(100))
    with pytest.raises(StoreError, match="cannot be read"):
        Lsa().load(tmp_path / "fit")


def test_files_that_do_not_fit_together(tmp_path: Path) -> None:
    _fitted(tmp_path / "a")
    _fitted(tmp_path / "b", CORPUS[:6])
    (tmp_path / "b" / "projection.npy").replace(tmp_path / "a" / "projection.npy")
    with pytest.raises(StoreError, match="a projection of"):
        Lsa().load(tmp_path / "a")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        Lsa().fit(CORPUS, "english", 0, tmp_path / "missing")
