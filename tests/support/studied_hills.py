"""Sixteen passages with three two-hop questions as HippoRAG's samples, and an endpoint that answers every task.

The answers are written by hand, as a careful model would give them: names in full, one fact a proposition, a summary
with all that its texts say, and an answer only where the passages that are shown state each of its hops.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PASSAGES = {
    "Grey Anna": "Grey Anna is the highest hill of Norland. It was first climbed by Ulla Brandt.",
    "Ulla Brandt": "Ulla Brandt was a maker of maps. She was born in Nether Quill.",
    "Nether Quill": "Nether Quill is a town on the River Sarn. Its slate bridge was built in 1802.",
    "River Sarn": "The River Sarn rises near Hollow Fen. It carries barges with slate.",
    "Orla": "The Orla is a short river with eleven gorges. It flows into the River Sarn.",
    "Aldous Penn": "Aldous Penn printed cheap books. He lived in Tarsby.",
}
RESOLVED = {
    "Grey Anna": "Grey Anna is the highest hill of Norland. Grey Anna was first climbed by Ulla Brandt.",
    "Ulla Brandt": "Ulla Brandt was a maker of maps. Ulla Brandt was born in Nether Quill.",
    "Nether Quill": "Nether Quill is a town on the River Sarn. The slate bridge of Nether Quill was built in 1802.",
    "River Sarn": "The River Sarn rises near Hollow Fen. The River Sarn carries barges with slate.",
    "Orla": "The Orla is a short river with eleven gorges. The Orla flows into the River Sarn.",
    "Aldous Penn": "Aldous Penn printed cheap books. Aldous Penn lived in Tarsby.",
}
"""The passages with names in place of pronouns."""
TRIPLES = {
    "Grey Anna": [["Grey Anna", "is the highest hill of", "Norland"], ["Grey Anna", "was climbed by", "Ulla Brandt"]],
    "Ulla Brandt": [["Ulla Brandt", "was", "maker of maps"], ["Ulla Brandt", "was born in", "Nether Quill"]],
    "Nether Quill": [
        ["Nether Quill", "is a town on", "River Sarn"],
        ["Nether Quill", "has a slate bridge that was built in", "1802"],
    ],
    "River Sarn": [["River Sarn", "rises near", "Hollow Fen"], ["River Sarn", "carries barges with", "slate"]],
    "Orla": [["Orla", "is a short river with", "eleven gorges"], ["Orla", "flows into", "River Sarn"]],
    "Aldous Penn": [["Aldous Penn", "printed", "cheap books"], ["Aldous Penn", "lived in", "Tarsby"]],
}
ENTITIES = {
    "Grey Anna": ["Grey Anna", "Norland", "Ulla Brandt"],
    "Ulla Brandt": ["Ulla Brandt", "Nether Quill"],
    "Nether Quill": ["Nether Quill", "River Sarn", "1802"],
    "River Sarn": ["River Sarn", "Hollow Fen"],
    "Orla": ["Orla", "River Sarn"],
    "Aldous Penn": ["Aldous Penn", "Tarsby"],
}
for _name, _height in {
    "Barrow Fell": 410,
    "Cold Stone": 388,
    "Dun Rigg": 365,
    "East Cairn": 352,
    "Fallow Top": 341,
    "Gorse Head": 333,
    "High Shaw": 320,
    "Iron Brow": 311,
    "Kestrel Law": 305,
    "Long Edge": 298,
}.items():  # hills that nobody asks about, so that the trees have more than one level
    PASSAGES[_name] = f"{_name} is a hill of Norland. It is {_height} metres high."
    RESOLVED[_name] = f"{_name} is a hill of Norland. {_name} is {_height} metres high."
    TRIPLES[_name] = [[_name, "is a hill of", "Norland"], [_name, "is as high as", f"{_height} metres"]]
    ENTITIES[_name] = [_name, "Norland"]
QUESTIONS = {
    "Where was the first person on Grey Anna born?": ("Nether Quill", ("Grey Anna", "Ulla Brandt")),
    "When was the bridge of the birthplace of Ulla Brandt built?": ("1802", ("Ulla Brandt", "Nether Quill")),
    "Near which fen does the river that the Orla flows into rise?": ("Hollow Fen", ("Orla", "River Sarn")),
}
NAMED = {question: [name for name in ENTITIES if name in question] for question in QUESTIONS}


def write_files(folder: Path) -> None:
    """Write `musique.json` and `musique_corpus.json` as HippoRAG's samples of MuSiQue."""
    corpus = [{"title": title, "text": text} for title, text in PASSAGES.items()]
    questions = [
        {
            "id": f"2hop__{number}",
            "question": question,
            "answer": answer,
            "paragraphs": [
                {"title": title, "paragraph_text": text, "is_supporting": title in gold}
                for title, text in PASSAGES.items()
            ],
        }
        for number, (question, (answer, gold)) in enumerate(QUESTIONS.items())
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "musique_corpus.json").write_text(json.dumps(corpus))
    (folder / "musique.json").write_text(json.dumps(questions))


def task_of(body: Mapping[str, Any]) -> str:
    """The task of a request, by the name of the schema of its answer."""
    return str(body["response_format"]["json_schema"]["name"])


def answer(body: Mapping[str, Any]) -> str:
    """What the endpoint writes."""
    asked = str(body["messages"][-1]["content"])
    return json.dumps(_ANSWERS[task_of(body)](asked))


def _find_title(asked: str) -> str:
    """The passage that a prompt is about: the one that begins its last paragraph, in its own words or resolved."""
    begins = {text[:30]: title for texts in (PASSAGES, RESOLVED) for title, text in texts.items()}
    return begins[asked.rstrip().split("\n")[-1][:30]]


def _extract(asked: str) -> dict[str, Any]:
    title = _find_title(asked)
    return {"entities": ENTITIES[title], "triples": TRIPLES[title]}


def _propositions(asked: str) -> dict[str, Any]:
    title = _find_title(asked)
    sentences = [f"{sentence}." for sentence in RESOLVED[title].removesuffix(".").split(". ")]
    pairs = zip(sentences, TRIPLES[title], strict=True)
    return {"propositions": [{"text": sentence, "triplets": [triple]} for sentence, triple in pairs]}


def _entities(asked: str) -> dict[str, Any]:
    named = ENTITIES[_find_title(asked)]
    return {"entities": [{"name": name, "type": "name", "aliases": []} for name in named]}


def _summarise(asked: str) -> dict[str, Any]:
    """All that the texts say, each sentence once."""
    lines = [line for line in asked.split("\n") if line and not line.startswith("Text ")]
    sentences = [sentence.strip(". ") for line in lines for sentence in line.split(". ")]
    return {"summary": ". ".join(dict.fromkeys(filter(None, sentences))) + "."}


def _read(asked: str) -> dict[str, Any]:
    """The answer, if what is shown states every hop; else that it is not found."""
    question = next(question for question in QUESTIONS if question in asked)
    text, gold = QUESTIONS[question]
    shown = asked.replace(question, "")
    stated = all(any(fact in shown for fact in _facts(title)) for title in gold)
    return {"answer": text if stated else "unknown", "passages": [1] if stated else [], "found": stated}


def _facts(title: str) -> list[str]:
    """Ways in which the second sentence of a passage may be written."""
    return [texts[title].removesuffix(".").split(". ")[1] for texts in (PASSAGES, RESOLVED)]


_ANSWERS = {
    "extract": _extract,
    "rewrite": lambda asked: {"paragraph": RESOLVED[_find_title(asked)]},
    "entities": _entities,
    "propositions": _propositions,
    "summary": _summarise,
    "question_entities": lambda asked: {"entities": NAMED[asked.strip()]},
    "answer": _read,
}
