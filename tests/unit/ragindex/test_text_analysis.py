"""The analysis of text: what becomes a token, what is the same token, and which language a corpus is in."""

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st
from known_items import FOUND_FIRST
from project import ROOT

from examples import examples
from ragindex import text_analysis
from ragindex.errors import UsageError
from ragindex.text_analysis import analyse, analyse_many, language_warning, languages, token_spans

# One text in each of many languages, written for this test.
CORPORA = {
    "english": "The museum stands on a small hill above the river, and it was built by a family that had made its "
    "money in salt. In the winter of 1911 a fire destroyed most of the roof, but the collection was in the cellar.",
    "german": "Das Museum steht auf einem kleinen Hügel über dem Fluss und wurde von einer Familie gebaut, die mit "
    "Salz reich geworden war. Im Winter 1911 zerstörte ein Brand den größten Teil des Daches, aber nicht die Sammlung.",
    "french": "Le musée se trouve sur une petite colline au-dessus de la rivière; il a été construit par une famille "
    "qui s'était enrichie dans le sel. Pendant l'hiver 1911, un incendie a détruit la plus grande partie du toit.",
    "spanish": "El museo está en una pequeña colina sobre el río y fue construido por una familia que se había "
    "hecho rica con la sal. En el invierno de 1911 un incendio destruyó la mayor parte del tejado.",
    "portuguese": "O museu fica numa pequena colina sobre o rio e foi construído por uma família que tinha "
    "enriquecido com o sal. No inverno de 1911 um incêndio destruiu a maior parte do telhado, mas não a coleção.",
    "dutch": "Het museum staat op een kleine heuvel boven de rivier en werd gebouwd door een familie die met zout rijk "
    "was geworden. In de winter van 1911 verwoestte een brand het grootste deel van het dak.",
    "polish": "Muzeum stoi na małym wzgórzu nad rzeką i zostało zbudowane przez rodzinę, która wzbogaciła się na soli. "
    "Zimą 1911 roku pożar zniszczył większą część dachu, ale zbiory zostały wcześniej "
    "przeniesione do piwnicy i nigdy już nie wróciły.",
    "russian": "Музей стоит на небольшом холме над рекой, и построила его семья, которая разбогатела на соли. Зимой "
    "1911 года пожар уничтожил большую часть крыши, но собрание за неделю до этого перенесли в подвал.",
    "ukrainian": "Музей стоїть на невеликому пагорбі над річкою, і його збудувала родина, яка розбагатіла на солі. "
    "Взимку 1911 року пожежа знищила більшу частину даху, але збірку за тиждень до того перенесли до підвалу, "
    "і вона там лишилася.",
    "greek": "Το μουσείο βρίσκεται σε έναν μικρό λόφο πάνω από το ποτάμι και χτίστηκε από μια οικογένεια που είχε "
    "πλουτίσει με το αλάτι. Τον χειμώνα του 1911 μια πυρκαγιά κατέστρεψε το μεγαλύτερο μέρος της στέγης.",
    "arabic": "يقع المتحف على تل صغير فوق النهر وقد بنته عائلة أصبحت غنية من تجارة الملح. في شتاء عام 1911 دمر حريق "
    "معظم السقف ولكن المجموعة كانت قد نقلت إلى القبو قبل أسبوع من ذلك.",
    "japanese": "博物館は川を見下ろす小さな丘の上に立っており、塩で財を成した一族によって建てられた。一九一一年の冬、"
    "火事で屋根の大半が失われたが、収蔵品はその一週間前に地下室へ移されていた。",
    "chinese": "博物馆坐落在河边的一座小山上，是由一个靠盐业致富的家族建造的。一九一一年冬天，一场大火烧毁了"
    "大部分屋顶，但藏品在一周前已经被搬到了地下室，所以没有受到任何损失，后来又搬了回来。",
}

anything = st.text(st.characters(codec=None), max_size=200) | st.text(
    st.sampled_from("aZß9_ \n\0'’\u00adÉéİIıσςй½ﬁ٣東京タワーｱﾞกำनीकि한국ﷺ🙂\ud800"), max_size=60
)


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("Running runners ran", ["run", "runner", "ran"]),
        ("The president's residence", ["presid", "resid"]),
        ("Beyoncé, Beyonce; BEYONCÉ", ["beyonc"] * 3),
        ("Łódź and Søren Æsir", ["lodz", "soren", "aesir"]),
        ("snake_case __init__ _emphasis_ ___", ["snake_cas", "init", "emphasi"]),
        ("10 ½ m² ﬁre ＡＢＣ", ["10", "1", "2", "m2", "fire", "abc"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("❤️ love ☎️ 1️⃣", ["love", "1"]),
        ("١٢٣ ۴۵۶ १२३ x४", ["123", "456", "123", "x4"]),
        ("\0a\x07b\x1bc\ud800d 🙂", ["b", "c", "d"]),
        ("", []),
        ("... !?", []),
    ],
)
def test_english(given_text: str, expected: list[str]) -> None:
    assert analyse(given_text) == expected


def test_a_text_of_stop_words_keeps_them() -> None:
    assert analyse("To be, or not to be?") == ["to", "be", "or", "not", "to", "be"]
    assert analyse("It") == ["it"]
    assert analyse("It rains") == ["rain"]


@pytest.mark.parametrize(
    ("language", "first", "other"),
    [
        ("german", "Häuser", "Haus"),
        ("german", "STRASSE", "Straße"),
        ("portuguese", "educação", "educações"),
        ("spanish", "canción", "canciones"),
        ("russian", "новый", "нового"),
        ("russian", "ёлка", "елка"),
        ("czech", "dobrý", "dobrého"),
        ("turkish", "ISPARTA", "ısparta"),
        ("turkish", "İstanbul", "istanbul"),
        ("greek", "άνθρωπος", "ΑΝΘΡΩΠΟΥΣ"),
        ("none", "Σίσυφος", "ΣΙΣΥΦΟΣ"),
        ("persian", "كتاب علي", "کتاب علی"),
        ("persian", "على", "علی"),
        ("arabic", "کتاب علی", "كتاب علي"),
        ("japanese", "葛\U000e0100飾区", "葛飾区"),
    ],
)
def test_same_token(language: str, first: str, other: str) -> None:
    assert analyse(first, language) == analyse(other, language) != []


def test_indic_vowel_signs_stay() -> None:
    assert analyse("नीला नील கீழ்", "none") == ["नीला", "नील", "கீழ்"]


def test_scripts_without_spaces_give_pairs() -> None:
    assert analyse("東京タワー 2020年 日", "none") == [
        *("東", "東京", "京", "京タ", "タワ", "ワー"),
        *("2020", "年", "日"),
    ]
    assert analyse("ﾀﾜｰ", "none") == ["タワ", "ワー"]
    assert analyse("ภาษา", "none") == ["ภา", "าษ", "ษา"]


def test_korean_words_match_whatever_particle_follows() -> None:
    assert analyse("서울은 물", "korean") == ["서울", "울은", "물"]
    assert "서울" in analyse("서울에서", "korean")
    assert analyse(unicodedata.normalize("NFD", "서울은"), "korean") == ["서울", "울은"]


def test_none_keeps_words_as_they_are() -> None:
    assert analyse("The Runners are running", "none") == ["the", "runners", "are", "running"]


def test_long_tokens_are_cut() -> None:
    assert analyse("x" * 100_000, "none") == ["x" * text_analysis.MAX_TOKEN_LENGTH]
    assert analyse("é" * 100_000) == ["e" * text_analysis.MAX_TOKEN_LENGTH]


def test_package_lists_are_repaired() -> None:
    assert analyse("altmış kitap", "turkish") == ["kitap"]
    assert analyse("אבל ספר", "hebrew") == ["ספר"]
    assert analyse("a slovo", "slovak") == ["slovo"]


@pytest.mark.parametrize("language", ["english", "german", "russian", "arabic"])
def test_stems_are_the_stemmers(language: str) -> None:
    plain = [word for word in unicodedata.normalize("NFC", CORPORA[language]).lower().split() if word.isalpha()]
    plain = [word for word in plain if word.isascii() or language != "english"]
    stems = [
        text_analysis._fold_marks(stem) for stem in Stemmer.Stemmer(language).stemWords([w.casefold() for w in plain])
    ]
    unstopped = [text_analysis._analyser(language).unstopped[word] for word in plain]
    assert unstopped == stems


@given(anything, st.sampled_from(["english", "none", "german", "turkish", "japanese", "hindi", "arabic"]))
@settings(max_examples=examples(150))
def test_properties(given_text: str, language: str) -> None:
    tokens = analyse(given_text, language)
    assert analyse_many([given_text, given_text], language) == [" ".join(tokens)] * 2
    assert all(token and token.split() == [token] and len(token) <= text_analysis.MAX_TOKEN_LENGTH for token in tokens)
    " ".join(tokens).encode()
    spans = token_spans(given_text, language)
    assert [token for token, _, _ in spans] == tokens
    assert all(0 <= start < end <= len(given_text) for _, start, end in spans)
    for token, start, end in spans:  # what a span covers gives the token again
        assert token in text_analysis._analyser(language).unstopped[given_text[start:end]].split()


@given(anything)
@settings(max_examples=examples(100))
def test_none_is_idempotent(given_text: str) -> None:
    spaced = [token for token in analyse(given_text, "none") if text_analysis._HAS_UNSPACED.search(token) is None]
    assert analyse(" ".join(spaced), "none") == spaced


def test_spans() -> None:
    assert token_spans("The Beyoncés’ songs") == [("beyonc", 4, 12), ("song", 14, 19)]
    assert token_spans("A 東京都!", "none") == [
        ("a", 0, 1),
        *(("東", 2, 3), ("東京", 2, 4), ("京", 3, 4), ("京都", 3, 5), ("都", 4, 5)),
    ]
    assert token_spans("to be") == [("to", 0, 2), ("be", 3, 5)]


def test_threads_get_what_one_thread_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_analysis, "_CACHED_WORDS", 50)  # the cache is emptied all the time
    texts = [f"{word}ing{i} {word}s{i} {word}ation" for i in range(300) for word in ("relat", "connect", "Motiv")]
    alone = analyse_many(texts)
    text_analysis._analyser.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda part: analyse_many(part), [texts] * 8)) == [alone] * 8
    assert len(text_analysis._analyser("english")) <= 50


def test_unknown_language() -> None:
    with pytest.raises(UsageError, match=r"'germn'\. Did you mean german"):
        analyse("text", "germn")
    with pytest.raises(UsageError, match=r"Available: arabic, .*none"):
        analyse_many([], "xx")


def test_languages() -> None:
    assert {"english", "german", "japanese", "none", *CORPORA} <= set(languages())
    assert not {"porter", "dutch_porter"} & set(languages())
    assert list(languages()) == sorted(languages())


@pytest.mark.parametrize("language", languages())
def test_every_language_analyses_every_script(language: str) -> None:
    for corpus in CORPORA.values():
        assert len(analyse(corpus, language)) > 10


# ---------------------------------------------------------------- which language a corpus is in


@pytest.mark.parametrize("language", CORPORA)
def test_language_warning(language: str) -> None:
    assert language_warning([CORPORA[language]], language) is None
    assert language_warning([CORPORA[language]], "none") is None
    for configured in {"english", "german", "russian"} - {language}:
        expected = f"The corpus looks like {language}; pass --language {language}"
        assert language_warning([CORPORA[language]], configured) == expected


@pytest.mark.parametrize(
    "texts",
    [
        [],
        [""],
        ["x"],
        ["1234 5678"] * 100,
        ["Los Angeles", "Jean de La Fontaine", "Ludwig van Beethoven", "Rio de Janeiro", "El Greco"] * 20,
        [CORPORA["english"]] * 9 + [CORPORA["german"]],
    ],
)
def test_no_warning_where_unsure(texts: list[str]) -> None:
    assert language_warning(texts, "english") is None


def test_a_language_without_a_list_is_unsure_in_its_own_script() -> None:
    assert language_warning([CORPORA["english"]], "estonian") is None
    assert (
        language_warning([CORPORA["russian"]], "estonian") == "The corpus looks like russian; pass --language russian"
    )


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("ประภาคารบนเกาะสร้างโดยแอนนา หลังพายุท่าเรือปิดและเรือรออยู่กลางทะเล", "thai"),
        ("ສະພານຂ້າມແມ່ນ້ຳພັງລົງໃນໄລຍະນ້ຳຖ້ວມ ຫໍສະໝຸດໃຫ້ນັກເດີນທາງຢືມປຶ້ມ", "lao"),
        ("បណ្ណាល័យឲ្យអ្នកធ្វើដំណើរខ្ចីសៀវភៅនិងផែនទី ស្ពានឆ្លងទន្លេបានបាក់", "khmer"),
        ("စာကြည့်တိုက်က ခရီးသွားများကို စာအုပ်နှင့် မြေပုံများ ငှားပေးသည်", "burmese"),
    ],
)
def test_a_language_without_analysis_is_named(text: str, language: str) -> None:
    warning = f"The corpus looks like {language}, which has no stop words here; pass --language none"
    assert language_warning([text] * 3, "english") == warning
    assert language_warning([text] * 3, "none") is None


def test_the_page_has_these_figures() -> None:
    page = (ROOT / "docs" / "dev" / "evidence" / "languages.md").read_text(encoding="utf-8")
    for language, counts in FOUND_FIRST.items():
        assert f"| {language} | {' | '.join(map(str, counts))} |" in page
