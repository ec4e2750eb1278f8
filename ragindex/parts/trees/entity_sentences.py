"""Sentences that name the entities of a text: SiReRAG's dual clustering compares texts by them."""

from collections.abc import Sequence

import numpy as np

from ragindex.interfaces import BuildContext, Collection, Floats
from ragindex.parts.support.encode_records import encode_records


def write_sentences(texts: Sequence[Sequence[str]], propositions: Collection) -> list[str]:
    """Return one sentence per text that names the entities of its propositions, "" if there are none.

    `texts` gives each text by the ids of its passages.
    """
    fields = ("passage_ids", "position", "entities")
    rows = [row for batch in propositions.scan(fields) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["passage_ids"], row["position"], row["id"]))
    named: dict[str, dict[str, None]] = {}
    for row in rows:
        for id in row["passage_ids"]:
            named.setdefault(id, {}).update(dict.fromkeys(row["entities"]))
    found = (list(dict.fromkeys(name for id in passages for name in named.get(id, {}))) for passages in texts)
    return [f"This text is about {', '.join(names)}." if names else "" for names in found]


def encode_sentences(texts: Sequence[str], context: BuildContext) -> Floats:
    """Encode the sentences, (len(texts), dimensions); an empty one gets the zero vector, which joins no cluster.

    So does one without a vector, which is reported as failed.
    """
    rows, vectors = encode_records(texts, texts, context)
    found = np.zeros((len(texts), context.encoder.dimensions), np.float32)
    found[rows] = vectors
    found[np.array([not text for text in texts], bool)] = 0
    return found
