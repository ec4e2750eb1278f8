"""Results of an earlier study in a folder, of which a new one would lose something: they are moved beside the new ones.

What is lost are questions, methods or documents that the new study lacks. Where it has all of them, it replaces them.
"""

import json
from itertools import count
from pathlib import Path

from ragindex._util.text import many
from ragindex.errors import StoreError
from ragindex_eval.format import join_names
from ragindex_eval.results.files import list_written
from ragindex_eval.results.model import Comparison, Study


def keep_earlier(folder: Path, study: Study) -> str | None:
    """Move the results in a folder into one beside it, if `study` lacks some of them; return a sentence on it.

    The new folder has the same name with the next free number. Other files stay. Raises StoreError.
    """
    files = list_written(folder)
    places = [path.parent for path in files if path.name == "comparison.json"]
    lost = next((lost for place in places if (lost := _describe_lost(place, study)) is not None), None)
    if lost is None:
        return None
    folder = folder if folder.name else folder.resolve()
    target = next(place for n in count(1) if not (place := folder.with_name(f"{folder.name}.{n}")).exists())
    try:
        for path in files:
            moved = target / path.absolute().relative_to(folder.absolute())
            moved.parent.mkdir(parents=True, exist_ok=True)
            path.rename(moved)
    except OSError as error:
        raise StoreError(f"{folder} could not be moved to {target}: {error.strerror or error}.") from error
    several = f"{many(len(places), 'comparison')}, one of " if len(places) > 1 else ""
    return f"{folder} held results of {several}{lost}, which are now in {target}"


def _describe_lost(place: Path, study: Study) -> str | None:
    """Return how much a saved comparison had, if no comparison of a study has all of it; None if one has."""
    try:
        saved = json.loads((place / "comparison.json").read_text(encoding="utf-8"))
        lines = (place / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        questions = {json.loads(line)["question"] for line in lines}
        labels, documents = {method["label"] for method in saved["methods"]}, saved["dataset"]["documents"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # damaged, or of another version
        return None
    if any(_has_all(comparison, questions, labels, documents) for comparison in study.comparisons):
        return None
    sizes = [many(len(questions), "question"), many(len(labels), "method")]
    return join_names(sizes if documents is None else [*sizes, many(documents, "document")])


def _has_all(comparison: Comparison, questions: set[str], labels: set[str], documents: int | None) -> bool:
    compared = {method.label for method in (*comparison.methods, *comparison.failed)}
    texts = {query.text for query in comparison.queries}
    return questions <= texts and labels <= compared and (documents or 0) <= (comparison.dataset.documents or 0)
