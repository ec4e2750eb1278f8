"""The iterations of GRIEVER (Algorithms 1 and 2), with one line of search per sub-query of a question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.interfaces import Floats, QueryEncoder, Retriever, TokenEncoder
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Query, Retrieval, Step, Triple
from ragindex_retrievers.griever.lookups import Lookups, join_filter
from ragindex_retrievers.griever.matching import Ngrams, ngrams, ngrams_as_texts
from ragindex_retrievers.griever.parameters import GrieverParameters
from ragindex_retrievers.griever.paths import Subgraph
from ragindex_retrievers.griever.rewriting import rewrite
from ragindex_retrievers.griever.scoring import ScoredTriple, ScoringInput, describe_matches, score_all
from ragindex_retrievers.griever.search_state import Shortlist, SubquerySearch, extend_subgraphs, rank
from ragindex_retrievers.griever.shortlisting import Shortlister, entities_of, shortlist
from ragindex_retrievers.griever.splitting import split_question

SHOWN_PASSAGES = 20
"""Maximum number of paths and triples in a trace."""
Encoded: TypeAlias = tuple[Floats, Ngrams]
RankedIds: TypeAlias = list[tuple[str, float]]
"""Passages with their scores, best first."""


@dataclass(frozen=True, slots=True)
class GrieverRetriever:
    """Retriever of `ragindex_retrievers.griever.scheme.Griever`."""

    base: Retriever
    follow: Retriever
    shortlister: Shortlister | None
    index: Lookups
    encoder: QueryEncoder
    connectors: Sequence[str]
    settings: GrieverParameters
    source: str

    def retrieve(self, queries: Sequence[Query], k: int) -> list[Retrieval]:
        """Return the best k passages per query.

        All questions and their sub-queries are encoded in one batch; each rewriting takes one more batch per
        question.
        """
        check_queries(queries, k)
        texts = [self._texts(one) for one in queries]
        with share_question_vectors():
            encoded = self._encoded([text for each in zip(queries, texts, strict=True) for text in self._asked(*each)])
            return [self._one(query, each, encoded, k) for query, each in zip(queries, texts, strict=True)]

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
            lines, _ = self._search(query, texts, self._encoded(self._asked(query, texts)), k, Trace())
        return lines

    def _texts(self, query: Query) -> list[str]:
        return split_question(query.text, self.connectors, whole=self.settings.fire_full, most=self.settings.clauses)

    def _asked(self, query: Query, texts: Sequence[str]) -> Sequence[str]:
        """Return the texts to encode first: the sub-queries, and the question if passages are compared with it."""
        return [query.text, *texts] if self.settings.retrieval_weight else texts

    def _one(self, query: Query, texts: Sequence[str], encoded: Mapping[str, Encoded], k: int) -> Retrieval:
        trace = Trace()
        lines, ranked = self._search(query, texts, encoded, k, trace)
        known = {id: hit for line in lines for id, hit in line.found.items()}
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
        graphs = [Subgraph(how.iterations, how.extend_any, how.keep_prefixes) for _ in texts]
        lines = [
            SubquerySearch(text, *encoded[text], query.filter, graph) for text, graph in zip(texts, graphs, strict=True)
        ]
        if how.combine == "subgraph":
            for line in lines[1:]:
                line.subgraph, line.found = lines[0].subgraph, lines[0].found
        return lines

    # ------------------------------------------------------------ one iteration

    def _retrieve(self, lines: Sequence[SubquerySearch], query: Query, k: int, iteration: int, trace: Trace) -> None:
        """Retrieve the next passages of every open line: from the base at first, then with the line's filter."""
        going = [line for line in lines if not line.over]
        retriever = self.base if iteration == 1 else self.follow
        asked = [Query(query.id, line.text, line.wanted) for line in going]
        answers = retriever.retrieve(asked, self.settings.base_k or k) if asked else []
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
            found = shortlist(lines, self.index, self.shortlister, query.filter)
            step["ids"] = tuple(dict.fromkeys(id for one in found for id in one.found))
        with trace.step(iteration, "matched triples", query.text) as step:
            scored = self._scored(lines, found)
            ranked = scored if settings.triple_score == "subquery" else self._scored([first] * len(lines), found)
            every = [(one, line.text) for line, each in zip(lines, scored, strict=True) for one in each]
            best = sorted(every, key=lambda pair: -pair[0].score)[:SHOWN_PASSAGES]
            step["paths"] = tuple((one.stated.triple,) for one, _ in best)
            step["scores"] = tuple(one.score for one, _ in best)
            step["note"] = " | ".join(dict.fromkeys(describe_matches(*pair) for pair in best))
        extend_subgraphs(lines, found, ranked)
        if iteration < settings.iterations:
            self._go_on(lines, found, scored, query, iteration, trace)

    def _scored(self, lines: Sequence[SubquerySearch], found: Sequence[Shortlist]) -> list[list[ScoredTriple]]:
        """Return the triples of each line, scored against its current text."""
        pairs = zip(lines, found, strict=True)
        asked = [ScoringInput(line.question, line.vector, one.kept, one.aliases) for line, one in pairs]
        return score_all(asked, self.index, self.settings.frequency, by_query=self.settings.predicate_score == "query")

    def _go_on(
        self,
        lines: Sequence[SubquerySearch],
        found: Sequence[Shortlist],
        scored: Sequence[Sequence[ScoredTriple]],
        query: Query,
        iteration: int,
        trace: Trace,
    ) -> None:
        """Set the next filter and text of each line; a line without entities to join on is over."""
        settings = self.settings
        named = [self._joins(*each) for each in zip(found, scored, strict=True)]
        if settings.combine == "subgraph":
            named = [tuple(dict.fromkeys(name for each in named for name in each))] * len(named)
        for line, joins in zip(lines, named, strict=True):
            seen = list(line.found) if settings.exclude == "all" else [hit.id for hit in line.latest]
            line.joins, line.over = joins, not joins
            line.wanted = join_filter(joins, seen, query.filter)
        if settings.rewrite:
            with trace.step(iteration, "rewrite", query.text) as step:
                self._rewrite(lines, scored)
                step["note"] = " | ".join(line.text for line in lines)

    def _joins(self, found: Shortlist, scored: Sequence[ScoredTriple]) -> tuple[str, ...]:
        """Return the names that the next passages of a line must share: its join entities and their aliases (V4)."""
        joins = entities_of(found.kept) if self.settings.join == "all" else found.joins
        if self.settings.join_best is not None:
            best = sorted(scored, key=lambda one: -one.score)[: self.settings.join_best]
            near = {one.stated.other(one.inverse) for one in best}
            joins = tuple(name for name in joins if name in near)
        return tuple(dict.fromkeys([*joins, *(alias for each in joins for alias in found.aliases.get(each, ()))]))

    def _rewrite(self, lines: Sequence[SubquerySearch], scored: Sequence[Sequence[ScoredTriple]]) -> None:
        settings = self.settings
        least = (settings.entity_threshold, settings.predicate_threshold)
        most, order = settings.rewrites, settings.rewrite_order
        texts = [rewrite(line.text, each, *least, most, order) for line, each in zip(lines, scored, strict=True)]
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
        return reciprocal_rank_fusion([[id for id, _ in rank([line], added)] for line in lines], self.settings.rrf_k)

    def _explain(self, lines: Sequence[SubquerySearch], query: Query, iteration: int, trace: Trace) -> None:
        with trace.step(iteration, "paths", query.text) as step:
            scores: dict[tuple[Triple, ...], float] = {}
            for triples, score in (path for line in lines for path in line.subgraph.best_paths(SHOWN_PASSAGES)):
                scores[triples] = max(score, scores.get(triples, score))
            best = sorted(scores.items(), key=lambda path: -path[1])[:SHOWN_PASSAGES]
            step["paths"], step["scores"] = tuple(path for path, _ in best), tuple(score for _, score in best)
