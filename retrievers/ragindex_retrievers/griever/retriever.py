"""The iterations of GRIEVER (Algorithms 1 and 2), with one line of search per sub-query of a question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ragindex.encoders.vector_cache import share_question_vectors
from ragindex.interfaces import Floats, QueryEncoder, Retriever, TokenEncoder
from ragindex.llm.rules import is_number
from ragindex.parts.support.arrays import Doubles
from ragindex.retrieval.fusion import reciprocal_rank_fusion
from ragindex.retrieval.hits import check_queries
from ragindex.retrieval.trace import IF_STOPPED, KEPT_IDS, Trace
from ragindex.types import Query, Retrieval, Step, Triple
from ragindex_retrievers.griever.lookups import Lookups, join_filter
from ragindex_retrievers.griever.matching import Ngrams, ngrams, ngrams_as_texts
from ragindex_retrievers.griever.parameters import GrieverParameters
from ragindex_retrievers.griever.paths import Subgraph, cosine_with, running_average
from ragindex_retrievers.griever.rewriting import rewrite
from ragindex_retrievers.griever.scoring import ScoredTriple, ScoringInput, describe_matches, score_all
from ragindex_retrievers.griever.search_state import Shortlist, SubquerySearch, rank
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
        """Return the texts to encode first: the sub-queries, and the question if something is compared with it."""
        compared = self.settings.path_score == "cosine" or self.settings.retrieval_weight
        return [query.text, *texts] if compared else texts

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
            lines = [self._line(text, encoded, query) for text in texts]
            step["note"] = " | ".join(texts)
        for iteration in range(1, self.settings.iterations + 1):
            self._retrieve(lines, query, k, iteration, trace)
            going = [line for line in lines if not line.over]
            if not going:
                break
            self._add_cosines(going, query, encoded, cosines)
            self._grow(going, query, iteration, trace)
            ranked = self._ranked(lines, cosines)
            trace.steps.append(Step(iteration, IF_STOPPED, query.text, tuple(id for id, _ in ranked[:KEPT_IDS])))
        self._explain(lines, query, iteration, trace)
        return lines, ranked

    def _line(self, text: str, encoded: Mapping[str, Encoded], query: Query) -> SubquerySearch:
        measure = cosine_with(encoded[query.text][0]) if self.settings.path_score == "cosine" else running_average
        how = self.settings
        subgraph = Subgraph(how.iterations, measure, how.extend_any, how.extend_within, how.keep_prefixes)
        return SubquerySearch(text, *encoded[text], query.filter, subgraph)

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

    def _grow(self, lines: Sequence[SubquerySearch], query: Query, iteration: int, trace: Trace) -> None:
        """Shortlist and score the triples of the latest passages, and extend the paths.

        Also sets the filters and texts of the next iteration.
        """
        settings = self.settings
        with trace.step(iteration, "shortlist", query.text) as step:
            found = shortlist(lines, self.index, self.shortlister, query.filter)
            step["ids"] = tuple(dict.fromkeys(id for one in found for id in one.found))
        with trace.step(iteration, "matched triples", query.text) as step:
            scored = self._scored(lines, found)
            every = [(one, line.text) for line, each in zip(lines, scored, strict=True) for one in each]
            best = sorted(every, key=lambda pair: -pair[0].score)[:SHOWN_PASSAGES]
            step["paths"] = tuple((one.stated.triple,) for one, _ in best)
            step["scores"] = tuple(one.score for one, _ in best)
            step["note"] = " | ".join(dict.fromkeys(describe_matches(*pair) for pair in best))
        for line, chosen, triples in zip(lines, found, scored, strict=True):
            line.subgraph.extend(triples, chosen.aliases, self._worth(triples))
        if iteration < settings.iterations:
            self._go_on(lines, found, scored, query, iteration, trace)

    def _worth(self, triples: Sequence[ScoredTriple]) -> Doubles:
        """Return the rows that a path adds up, one per triple: its score, or its stored vector."""
        if self.settings.path_score == "mean":
            return np.array([one.score for one in triples], np.float64).reshape(-1, 1)
        return self.index.vectors_of([one.stated for one in triples]).astype(np.float64)

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
        for line, one in zip(lines, found, strict=True):
            joins = entities_of(one.kept) if settings.join == "all" else one.joins
            every = [*joins, *(alias for each in joins for alias in one.aliases.get(each, ()))]
            named = [name for name in dict.fromkeys(every) if settings.numbers or not is_number(name)]
            seen = list(line.found) if settings.exclude == "all" else [hit.id for hit in line.latest]
            line.joins, line.over = tuple(named), not named
            line.wanted = join_filter(named, seen, query.filter)
        if settings.rewrite:
            with trace.step(iteration, "rewrite", query.text) as step:
                self._rewrite(lines, scored)
                step["note"] = " | ".join(line.text for line in lines)

    def _rewrite(self, lines: Sequence[SubquerySearch], scored: Sequence[Sequence[ScoredTriple]]) -> None:
        settings = self.settings
        least = (settings.entity_threshold, settings.predicate_threshold)
        texts = [rewrite(line.text, each, *least, settings.rewrites) for line, each in zip(lines, scored, strict=True)]
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
        """Return the ranking of all lines: as one sub-graph, or as a fusion of one ranking per line.

        If paths are scored by cosines, a passage without triples counts as a path of its own.
        """
        by, weight = self.settings.passage_score, self.settings.retrieval_weight
        added = {id: weight * cosine for id, cosine in cosines.items()}
        otherwise = cosines if self.settings.path_score == "cosine" else dict.fromkeys(cosines, 0.0)
        if self.settings.combine == "union":
            return rank(lines, by, added, otherwise)
        each = [[id for id, _ in rank([line], by, added, otherwise)] for line in lines]
        return reciprocal_rank_fusion(each, self.settings.rrf_k)

    def _explain(self, lines: Sequence[SubquerySearch], query: Query, iteration: int, trace: Trace) -> None:
        with trace.step(iteration, "paths", query.text) as step:
            scores: dict[tuple[Triple, ...], float] = {}
            for triples, score in (path for line in lines for path in line.subgraph.best_paths(SHOWN_PASSAGES)):
                scores[triples] = max(score, scores.get(triples, score))
            best = sorted(scores.items(), key=lambda path: -path[1])[:SHOWN_PASSAGES]
            step["paths"], step["scores"] = tuple(path for path, _ in best), tuple(score for _, score in best)
