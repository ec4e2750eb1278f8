"""The GRIEVER schemes (Melo et al.; readings V1 to V11 in docs/methods/griever.md)."""

from typing import Any, ClassVar, Literal

from ragindex.errors import UsageError
from ragindex.interfaces import Collection, OpenIndex, Part, Retriever, TokenEncoder
from ragindex.parts.text.passages import Passages
from ragindex.parts.vectors.base_field import over
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins.registry import label
from ragindex_retrievers.griever.lookups import Lookups
from ragindex_retrievers.griever.parameters import GrieverParameters
from ragindex_retrievers.griever.parts.judged_same_as import JudgedSameAs
from ragindex_retrievers.griever.parts.name_vectors import NameVectors
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples
from ragindex_retrievers.griever.parts.same_as import SameAs
from ragindex_retrievers.griever.parts.triple_passages import TriplePassages
from ragindex_retrievers.griever.retriever import GrieverRetriever
from ragindex_retrievers.griever.shortlisting import Shortlister
from ragindex_retrievers.griever.splitting import CONNECTORS


class Griever(GrieverParameters):
    """Passages ranked by paths of triples that match the question, in a few searches and without an LLM.

    `base` finds the first passages, `follow` those of later `iterations`: unseen passages that share an entity with
    the triples found. Both are flat schemes; they search passages whatever their `over` is. Each sub-query of a
    question (`split` at `connectors`, at most `clauses`, plus the whole question with `fire_full`) is searched on its
    own and asks for k passages per iteration; `combine` merges their results (V3). With `combine=subgraph` they share
    one sub-graph, the passages found and the join entities. `exclude`, `join` and `join_best` set the filter of later
    iterations (V4). `shortlist`, `t_max` and `partial_scope` choose triples (V1, V6). `ngrams` (from the question's
    token vectors, or encoded as texts), `pool`, `max_ngram`, `triple_score` and `predicate_score` match names;
    `frequency` discounts common partial triples (V7, V8). `extend_any` and `keep_prefixes` build paths (V9).
    `retrieval_weight` adds `retrieval_score`, the score of the passage itself (V10). `rewrite` with its thresholds
    puts the entities found into the question (V11). `same_as` sets how aliases are found: `llm` has an LLM judge
    those of `evidence` and `embedding` while the index is built, `none` uses no aliases (V2).
    """

    version: ClassVar[int] = 3

    def depends_on_k(self, k: int) -> bool:
        """Return True if each iteration asks for k passages."""
        return self.base_k is None

    def parts(self) -> tuple[Part[Any], ...]:
        """Return passages with triples, partial triples, name vectors and aliases, and the parts that are searched."""
        aliases = () if self.same_as == "none" else (self._aliases(),)
        searched = [*over(self.base, Passages()).parts(), *over(self.follow, self._passages()).parts()]
        if self.shortlist != "none":
            searched += [self._shortlisted(), Vectors(of=self._shortlisted())]
        names, vectors = NameVectors(over=self.triples), Vectors(of=Passages())
        return (self._passages(), self._partials(), names, *aliases, *searched, vectors)

    def open(self, index: OpenIndex) -> Retriever:
        """Open the retriever. Raises UsageError if `ngrams=tokens` and the encoder gives no token vectors."""
        if self.ngrams == "tokens" and not isinstance(index.encoder, TokenEncoder):
            raise UsageError(
                f"{label(self)} matches names by vectors of tokens, as lsa and sentence-transformers:NAME give them; "
                f"{index.encoder.id} gives none. Use: griever(ngrams=texts)"
            )
        lookups = Lookups(
            index.open_part(self._passages()),
            index.open_part(self._partials()),
            index.open_part(NameVectors(over=self.triples)),
            None if self.same_as == "none" else index.open_part(self._aliases()),
            index.open_part(Vectors(of=Passages())),
            self.triples,
            self.partial_scope == "passage",
        )
        connectors = self.connectors if self.connectors is not None else _get_connectors(index.language)
        return GrieverRetriever(
            over(self.base, Passages()).open(index),
            over(self.follow, self._passages()).open(index),
            self._shortlister(index),
            lookups,
            index.encoder,
            connectors if self.split else (),
            self,
            label(self),
        )

    def _passages(self) -> TriplePassages:
        return TriplePassages(over=self.triples)

    def _partials(self) -> PartialTriples:
        return PartialTriples(over=self.triples, scope=self.partial_scope)

    def _aliases(self) -> Part[Collection]:
        by: Literal["evidence", "embedding"] = "embedding" if self.same_as == "embedding" else "evidence"
        found = SameAs(of=NameVectors(over=self.triples), by=by)
        return JudgedSameAs(of=found) if self.same_as == "llm" else found

    def _shortlisted(self) -> Part[Any]:
        return self._partials() if self.shortlist == "partial" else self.triples

    def _shortlister(self, index: OpenIndex) -> Shortlister | None:
        if self.shortlist == "none":
            return None
        text, vectors = index.open_part(self._shortlisted()), index.open_part(Vectors(of=self._shortlisted()))
        return Shortlister(self.shortlist, text, vectors, self.t_max, self.rrf_k)


def _get_connectors(language: str) -> tuple[str, ...]:
    return CONNECTORS if language == "english" else ()
