"""GRIEVER (Melo et al.; readings V1 to V11 in docs/dev/evidence/griever.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.errors import UsageError
from ragindex.interfaces import Collection, Floats, OpenIndex, Part, QueryEncoder, Retriever, Scheme, TokenEncoder
from ragindex.parts.text.passages import OVER_PASSAGES, Passages, PassagesField
from ragindex.parts.triples.triples import Triples
from ragindex.parts.vectors.base_field import FlatField, over
from ragindex.parts.vectors.vectors import Vectors
from ragindex.plugins import registry
from ragindex.plugins.registry import PartField, label, of_class
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.stages import record_ranking
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Query, Retrieval, Step, Triple
from ragindex_retrievers.griever.lookups import Lookups, join_filter
from ragindex_retrievers.griever.matching import (
    CONNECTORS,
    Ngrams,
    Pooling,
    RewriteOrder,
    ScoredTriple,
    ScoringInput,
    describe_matches,
    ngrams,
    ngrams_as_texts,
    rewrite,
    score_all,
    split_question,
)
from ragindex_retrievers.griever.parts.judged_same_as import JudgedSameAs
from ragindex_retrievers.griever.parts.name_vectors import NameVectors
from ragindex_retrievers.griever.parts.partial_triples import PartialTriples
from ragindex_retrievers.griever.parts.same_as import SameAs
from ragindex_retrievers.griever.parts.triple_passages import TriplePassages
from ragindex_retrievers.griever.search import (
    Shortlist,
    Shortlister,
    Subgraph,
    SubquerySearch,
    entities_of,
    extend_subgraphs,
    rank,
    shortlist,
)

TriplesField: TypeAlias = Annotated[PartField, of_class(Triples)]


class Griever(Scheme):
    """Passages ranked by paths of triples that match the question, in a few searches and without an LLM.

    `base` finds the first passages, `follow` those of later `iterations`: unseen passages that share an entity with
    the triples found. Both are flat schemes; they search passages whatever their `over` is. Each sub-query of a
    question (`split` at `connectors`, plus the whole question with `fire_full`; at most 8) is searched on its
    own and asks for k passages per iteration; `combine` merges their results (V3). With `combine=subgraph` they share
    one sub-graph, the passages found and the join entities. `join` and `join_best` set the filter of later
    iterations (V4). `shortlist`, `t_max` and `partial_scope` choose triples (V1, V6). `ngrams` (from the question's
    token vectors, or encoded as texts), `pool`, `max_ngram`, `triple_score` and `predicate_score` match names;
    `frequency` discounts common partial triples (V7, V8). `keep_prefixes` builds paths (V9).
    `retrieval_weight` adds `retrieval_score`, the score of the passage itself (V10). `rewrite` with its threshold
    puts the entities found into the question (V11). `same_as` sets how aliases are found: `llm` has an LLM judge
    those of `evidence` and `embedding` while the index is built, `none` uses no aliases (V2).
    """

    version: ClassVar[int] = 3
    triples: TriplesField = Field(default=Triples(), description="Triples that paths are made of.")
    base: FlatField = Field(
        default_factory=lambda: registry.scheme("composed"), description="Flat scheme that finds the first passages."
    )
    over: PassagesField = OVER_PASSAGES
    base_k: int | None = Field(default=None, ge=1, description="Passages asked for in each iteration. null: k.")
    follow: FlatField = Field(
        default_factory=lambda: registry.scheme("hybrid"),
        description="Flat scheme that finds the passages of later iterations.",
    )
    same_as: Literal["evidence", "embedding", "llm", "none"] = Field(
        default="evidence",
        description="How aliases were found: by evidence, by embedding, by an LLM that judges both, or not at "
        "all (V2).",
    )
    split: bool = Field(default=True, description="Split a question into sub-queries (V3).")
    connectors: tuple[str, ...] | None = Field(
        default=None, description="Words that a question is split at. null: those of the corpus's language."
    )
    fire_full: bool = Field(default=True, description="Search with the whole question besides its sub-queries (V3).")
    combine: Literal["union", "rrf", "subgraph"] = Field(
        default="union",
        description="How the results of sub-queries are combined: each passage with its best score, reciprocal rank "
        "fusion, or one sub-graph that all extend (V3).",
    )
    iterations: int = Field(default=2, ge=1, description="Iterations of search (Algorithm 1).")
    join: Literal["shortlist", "all"] = Field(
        default="shortlist",
        description="Entities that a later iteration must share: those of the shortlist, or of all its triples (V4).",
    )
    join_best: int | None = Field(
        default=None, ge=1, description="Join on entities of this many best triples only. null: of all (V4)."
    )
    shortlist: Literal["partial", "full", "none"] = Field(
        default="partial", description="Search triples by partial triples, by full triples, or not at all (V6)."
    )
    partial_scope: Literal["corpus", "passage"] = Field(
        default="corpus", description="Partial triples over the corpus, or per passage (V1)."
    )
    t_max: int = Field(
        default=30,
        ge=1,
        description="Partial triples (with shortlist=full: triples) that choose a shortlist, at most (t_max, V6).",
    )
    ngrams: Literal["tokens", "texts"] = Field(
        default="tokens", description="N-grams of a question: pooled token vectors, or encoded texts."
    )
    pool: Pooling = Field(default="mean", description="How token vectors of an n-gram are pooled.")
    max_ngram: int = Field(default=6, ge=1, description="Longest n-gram, in tokens or words.")
    triple_score: Literal["subquery", "question"] = Field(
        default="subquery",
        description="What triples are scored against: the sub-query that found them, or the question (V3).",
    )
    predicate_score: Literal["matcher", "query"] = Field(
        default="matcher", description="Predicates are scored by the matcher, or by the whole query (V8)."
    )
    frequency: Literal["passages", "triples", "objects"] = Field(
        default="passages", description="What discounts common partial triples: passages, triples or objects (V8)."
    )
    keep_prefixes: bool = Field(default=True, description="Keep a path beside its extensions (V9).")
    retrieval_weight: float = Field(
        default=1.0, ge=0, description="Weight of the retrieval score in a passage's score. 0: paths alone (V10)."
    )
    retrieval_score: Literal["question", "query"] = Field(
        default="question",
        description="Retrieval score of a passage: its cosine with the question, or with the query that found it where "
        "that is greater (V10).",
    )
    rewrite: bool = Field(
        default=True, description="Replace parts of the question by the entities that were found (V11)."
    )
    rewrite_order: RewriteOrder = Field(
        default="triple",
        description="What is replaced first: the mention of the best triple, or the best matched entity (V11).",
    )
    rewrites: int = Field(default=1, ge=1, description="Mentions replaced in a question per iteration at most (V11).")
    entity_threshold: float = Field(default=0.7, description="Score from which an entity is put into the question.")

    @model_validator(mode="after")
    def _check_question(self) -> Self:
        if self.triple_score == "question" and not self.fire_full:
            raise ValueError("triple_score=question scores against the whole question, so it needs fire_full=true")
        return self

    def depends_on_k(self, k: int) -> bool:
        """Return True if each iteration asks for k passages."""
        return self.base_k is None

    def _parts(self) -> tuple[Part[Any], ...]:
        """Return passages with triples, partial triples, name vectors and aliases, and the parts that are searched."""
        aliases = () if self.same_as == "none" else (self._aliases(),)
        searched = [*over(self.base, Passages()).parts(), *over(self.follow, self._passages()).parts()]
        if self.shortlist != "none":
            searched += [self._shortlisted(), Vectors(of=self._shortlisted())]
        names, vectors = NameVectors(over=self.triples), Vectors(of=Passages())
        return (self._passages(), self._partials(), names, *aliases, *searched, vectors)

    def _open(self, index: OpenIndex) -> Retriever:
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
        shortlister = None
        if self.shortlist != "none":
            text, vectors = index.open_part(self._shortlisted()), index.open_part(Vectors(of=self._shortlisted()))
            shortlister = Shortlister(self.shortlist, text, vectors, self.t_max)
        own = CONNECTORS if index.language == "english" else ()
        connectors = own if self.connectors is None else self.connectors
        return GrieverRetriever(
            over(self.base, Passages()).open(index),
            over(self.follow, self._passages()).open(index),
            shortlister,
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
        same_as = SameAs(of=NameVectors(over=self.triples), by=by)
        return JudgedSameAs(of=same_as) if self.same_as == "llm" else same_as

    def _shortlisted(self) -> Part[Any]:
        return self._partials() if self.shortlist == "partial" else self.triples


# ---------------------------------------------------------------- the open retriever


_MOST_SUBQUERIES = 8
SHOWN_PASSAGES = 20
"""Maximum number of paths and triples in a trace."""
Encoded: TypeAlias = tuple[Floats, Ngrams]
RankedIds: TypeAlias = list[tuple[str, float]]
"""Passages with their scores, best first."""


@dataclass(frozen=True, slots=True)
class GrieverRetriever:
    """Retriever of `ragindex_retrievers.griever.method.Griever`."""

    base: Retriever
    follow: Retriever
    shortlister: Shortlister | None
    index: Lookups
    encoder: QueryEncoder
    connectors: Sequence[str]
    settings: Griever
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k passages per query.

        All questions and their sub-queries are encoded in one batch; each rewriting takes one more batch per
        question.
        """
        check_queries(queries, k)
        texts = [self._texts(query) for query in queries]
        with share_question_vectors():
            encoded = self._encoded(
                [text for each in zip(queries, texts, strict=True) for text in self._first_texts(*each)]
            )
            return [self._retrieve_one(query, each, encoded, k) for query, each in zip(queries, texts, strict=True)]

    def _encoded(self, texts: Sequence[str]) -> Mapping[str, Encoded]:
        distinct, longest = list(dict.fromkeys(texts)), self.settings.max_ngram
        if not distinct:
            return {}
        if self.settings.ngrams == "texts":
            vectors = self.encoder.encode_queries(distinct)
            grams = ngrams_as_texts(distinct, self.encoder.encode_passing, longest)
        else:
            assert isinstance(self.encoder, TokenEncoder)  # noqa: S101  # Griever.open rejects other encoders
            vectors, tokens = self.encoder.encode_queries_with_tokens(distinct)
            grams = [ngrams(*each, longest, self.settings.pool) for each in zip(distinct, tokens, strict=True)]
        return dict(zip(distinct, zip(vectors, grams, strict=True), strict=True))

    def searched(self, query: Query, k: int) -> list[SubquerySearch]:
        """Return the lines of one question at the end of its search, for inspection."""
        texts = self._texts(query)
        with share_question_vectors():
            lines, _ = self._search(query, texts, self._encoded(self._first_texts(query, texts)), k, Trace())
        return lines

    def _texts(self, query: Query) -> list[str]:
        return split_question(query.text, self.connectors, with_question=self.settings.fire_full, most=_MOST_SUBQUERIES)

    def _first_texts(self, query: Query, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts to encode first: the sub-queries, and the question if passages are compared with it."""
        return [query.text, *texts] if self.settings.retrieval_weight else texts

    def _retrieve_one(self, query: Query, texts: Sequence[str], encoded: Mapping[str, Encoded], k: int) -> Retrieval:
        trace = Trace()
        lines, ranked = self._search(query, texts, encoded, k, trace)
        record_ranking("paths", (id for id, _ in ranked), k)
        known = {id: hit for line in lines for id, hit in line.hits.items()}
        best = tuple(replace(known[id], score=score, source=self.source) for id, score in ranked[:k])
        return Retrieval(best, tuple(trace.steps))

    def _search(
        self, query: Query, texts: Sequence[str], encoded: Mapping[str, Encoded], k: int, trace: Trace
    ) -> tuple[list[SubquerySearch], RankedIds]:
        ranked, cosines = RankedIds(), dict[str, float]()  # retrieval scores of the passages found
        with trace.step(1, "clauses", query.text) as step:
            lines = self._lines(texts, encoded, query)
            step["note"] = " | ".join(texts)
        for iteration in range(1, self.settings.iterations + 1):
            self._retrieve(lines, query, k, iteration, trace)
            going = [line for line in lines if not line.over]
            if not going:
                break
            self._add_cosines(going, query, encoded, cosines)
            self._grow(going, lines[0], query, iteration, trace)
            ranked = self._ranked(lines, cosines)
            trace.steps.append(Step(iteration, IF_STOPPED, query.text, tuple(id for id, _ in ranked[:KEPT_IDS])))
        self._explain(lines, query, iteration, trace)
        return lines, ranked

    def _lines(self, texts: Sequence[str], encoded: Mapping[str, Encoded], query: Query) -> list[SubquerySearch]:
        how = self.settings
        graphs = [Subgraph(how.iterations, how.keep_prefixes) for _ in texts]
        lines = [
            SubquerySearch(text, *encoded[text], query.filter, graph) for text, graph in zip(texts, graphs, strict=True)
        ]
        if how.combine == "subgraph":
            for line in lines[1:]:
                line.subgraph, line.hits = lines[0].subgraph, lines[0].hits
        return lines

    # ------------------------------------------------------------ one iteration

    def _retrieve(self, lines: Sequence[SubquerySearch], query: Query, k: int, iteration: int, trace: Trace) -> None:
        """Retrieve the next passages of every open line: from the base at first, then with the line's filter."""
        going = [line for line in lines if not line.over]
        retriever = self.base if iteration == 1 else self.follow
        queries = [Query(query.id, line.text, line.next_filter) for line in going]
        answers = retriever.retrieve(queries, self.settings.base_k or k) if queries else []
        for line, answer in zip(going, answers, strict=True):
            trace.of_base(answer.trace, iteration)
            line.add(answer.hits)

    def _grow(
        self, lines: Sequence[SubquerySearch], first: SubquerySearch, query: Query, iteration: int, trace: Trace
    ) -> None:
        """Shortlist and score the triples of the latest passages, and extend the paths.

        Also sets the filters and texts of the next iteration.
        """
        settings = self.settings
        with trace.step(iteration, "shortlist", query.text) as step:
            shortlists = shortlist(lines, self.index, self.shortlister, query.filter)
            step["ids"] = tuple(dict.fromkeys(id for candidate in shortlists for id in candidate.record_ids))
        with trace.step(iteration, "matched triples", query.text) as step:
            scored = self._scored(lines, shortlists)
            ranked = scored if settings.triple_score == "subquery" else self._scored([first] * len(lines), shortlists)
            every = [(candidate, line.text) for line, each in zip(lines, scored, strict=True) for candidate in each]
            best = sorted(every, key=lambda pair: -pair[0].score)[:SHOWN_PASSAGES]
            step["paths"] = tuple((candidate.stated.triple,) for candidate, _ in best)
            step["scores"] = tuple(candidate.score for candidate, _ in best)
            step["note"] = " | ".join(dict.fromkeys(describe_matches(*pair) for pair in best))
        extend_subgraphs(lines, shortlists, ranked)
        if iteration < settings.iterations:
            self._go_on(lines, shortlists, scored, query, iteration, trace)

    def _scored(self, lines: Sequence[SubquerySearch], shortlists: Sequence[Shortlist]) -> list[list[ScoredTriple]]:
        """Return the triples of each line, scored against its current text."""
        pairs = zip(lines, shortlists, strict=True)
        inputs = [ScoringInput(line.question, line.vector, choice.triples, choice.aliases) for line, choice in pairs]
        return score_all(inputs, self.index, self.settings.frequency, by_query=self.settings.predicate_score == "query")

    def _go_on(
        self,
        lines: Sequence[SubquerySearch],
        shortlists: Sequence[Shortlist],
        scored: Sequence[Sequence[ScoredTriple]],
        query: Query,
        iteration: int,
        trace: Trace,
    ) -> None:
        """Set the next filter and text of each line; a line without entities to join on is over."""
        settings = self.settings
        join_names = [self._joins(*each) for each in zip(shortlists, scored, strict=True)]
        if settings.combine == "subgraph":
            join_names = [tuple(dict.fromkeys(name for each in join_names for name in each))] * len(join_names)
        for line, joins in zip(lines, join_names, strict=True):
            line.joins, line.over = joins, not joins
            line.next_filter = join_filter(joins, list(line.hits), query.filter)
        if settings.rewrite:
            with trace.step(iteration, "rewrite", query.text) as step:
                self._rewrite(lines, scored)
                step["note"] = " | ".join(line.text for line in lines)

    def _joins(self, shortlisted: Shortlist, scored: Sequence[ScoredTriple]) -> tuple[str, ...]:
        """Return the names that the next passages of a line must share: its join entities and their aliases (V4)."""
        joins = entities_of(shortlisted.triples) if self.settings.join == "all" else shortlisted.joins
        if self.settings.join_best is not None:
            best = sorted(scored, key=lambda triple: -triple.score)[: self.settings.join_best]
            near = {triple.stated.other(triple.inverse) for triple in best}
            joins = tuple(name for name in joins if name in near)
        return tuple(dict.fromkeys([*joins, *(alias for each in joins for alias in shortlisted.aliases.get(each, ()))]))

    def _rewrite(self, lines: Sequence[SubquerySearch], scored: Sequence[Sequence[ScoredTriple]]) -> None:
        settings = self.settings
        how = settings.entity_threshold, settings.rewrites, settings.rewrite_order
        texts = [rewrite(line.text, each, *how) for line, each in zip(lines, scored, strict=True)]
        changed = [(line, text) for line, text in zip(lines, texts, strict=True) if text != line.text and not line.over]
        encoded = self._encoded([text for _, text in changed])
        for line, text in changed:
            line.text, (line.vector, line.question) = text, encoded[text]

    # ------------------------------------------------------------ the end

    def _add_cosines(
        self, lines: Sequence[SubquerySearch], query: Query, encoded: Mapping[str, Encoded], cosines: dict[str, float]
    ) -> None:
        """Add the retrieval scores of the latest passages, if `retrieval_weight` uses them.

        With `retrieval_score=query`, call it before the lines are rewritten: their vectors are still those that
        the passages were found by.
        """
        if not self.settings.retrieval_weight:
            return
        latest = dict.fromkeys(hit.id for line in lines for hit in line.latest)
        new = [id for id in latest if id not in cosines]
        cosines |= dict.fromkeys(new, 0.0) | self.index.cosines(encoded[query.text][0], new)
        if self.settings.retrieval_score == "query":
            for line in lines:
                for id, cosine in self.index.cosines(line.vector, [hit.id for hit in line.latest]).items():
                    cosines[id] = max(cosine, cosines[id])

    def _ranked(self, lines: Sequence[SubquerySearch], cosines: Mapping[str, float]) -> RankedIds:
        """Return the ranking over all lines: by each passage's best score, or as a fusion of one ranking per line."""
        added = {id: self.settings.retrieval_weight * cosine for id, cosine in cosines.items()}
        if self.settings.combine != "rrf":
            return rank(lines, added)
        return reciprocal_rank_fusion([[id for id, _ in rank([line], added)] for line in lines])

    def _explain(self, lines: Sequence[SubquerySearch], query: Query, iteration: int, trace: Trace) -> None:
        with trace.step(iteration, "paths", query.text) as step:
            scores: dict[tuple[Triple, ...], float] = {}
            for triples, score in (path for line in lines for path in line.subgraph.best_paths(SHOWN_PASSAGES)):
                scores[triples] = max(score, scores.get(triples, score))
            best = sorted(scores.items(), key=lambda path: -path[1])[:SHOWN_PASSAGES]
            step["paths"], step["scores"] = tuple(path for path, _ in best), tuple(score for _, score in best)
