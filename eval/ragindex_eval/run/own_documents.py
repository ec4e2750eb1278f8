"""Rankings without the document that is the question itself, as BEIR's evaluation has them (`ignore_identical_ids`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragindex.interfaces import Retriever
from ragindex.types import Query, Retrieval
from ragindex_eval.data.gold import Gold, own_documents
from ragindex_eval.format import many
from ragindex_eval.run.ask import retrieve


def describe_own_documents(gold: Mapping[str, Gold] | None) -> list[str]:
    """Return a note that rankings leave out own documents; [] if no question has one."""
    count = len(own_documents(gold))
    questions = many(count, "question has the id of a document", "questions have the ids of documents")
    left_out = f"which {'its' if count == 1 else 'their'} rankings leave out, as BEIR's evaluation does"
    return [f"{questions}, {left_out} (ignore_identical_ids)"] if count else []


def without_own_documents(retriever: Retriever, gold: Mapping[str, Gold] | None) -> Retriever:
    """Return a retriever that leaves out each question's own document; the same one if no question has any."""
    own = own_documents(gold)
    return _WithoutOwnDocuments(retriever, own) if own else retriever


@dataclass(frozen=True, slots=True)
class _WithoutOwnDocuments:
    """Retriever that finds k hits beside those of the own document, whose id is in `own` by the id of the question."""

    retriever: Retriever
    own: Mapping[str, str]

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Ask for one hit more; where the own document has several, ask again for twice as many until k are left."""
        retrievals, wanted = dict[int, Retrieval](), k + 1
        todo = list(range(len(queries)))
        while todo:
            answers = retrieve(self.retriever, [queries[at] for at in todo], wanted)
            short = list[int]()
            for at, answer in zip(todo, answers, strict=True):
                retrievals[at] = self._leave_out(answer, queries[at], k, wanted)
                if len(retrievals[at].hits) < k and len({hit.id for hit in answer.hits}) == wanted:
                    short.append(at)
            todo, wanted = short, 2 * wanted
        return [retrievals[at] for at in range(len(queries))]

    def _leave_out(self, answer: Retrieval, query: Query, k: int, wanted: int) -> Retrieval:
        """Return the first k hits without the own document; more than were asked for are left for the contract."""
        own = self.own.get(query.id)
        others = [(hit, tuple(id for id in hit.doc_ids if id != own)) for hit in answer.hits]
        hits = [
            hit if len(doc_ids) == len(hit.doc_ids) else replace(hit, doc_ids=doc_ids)
            for hit, doc_ids in others
            if doc_ids or not hit.doc_ids
        ]
        return replace(answer, hits=tuple(hits if len(answer.hits) > wanted else hits[:k]))
