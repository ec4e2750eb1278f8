"""A tree of summaries over the records of any part: clusters of similar texts, a summary of each, and so on upwards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, StringConstraints

from ragindex.canonical import digest, encodable
from ragindex.interfaces import BuildContext, Collection, Floats, Part, ReadContext, Schema, Uses
from ragindex.llm import rules
from ragindex.llm.answer_question import build_context
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure, Task
from ragindex.llm.tokens import count_text_tokens
from ragindex.parts.support import replace_all
from ragindex.parts.support.records import TEXTS
from ragindex.parts.text.passages import Passages
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees import abstractness, entity_sentences, tree_nodes
from ragindex.parts.trees.soft_clusters import Clustering, Reduction, soft_clusters
from ragindex.parts.trees.tree_nodes import Node
from ragindex.plugins.registry import PartField, name_of, of_class, plugin_fingerprint
from ragindex.progress import progress_bar

SUMMARY_KIND = "summary"
_BATCH = 2_000  # nodes written at once
_RULE_WORDS = 100
_WORDS_A_TOKEN = 0.75


# ---------------------------------------------------------------- the task


class Summary(BaseModel):
    """What texts say, together."""

    summary: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _by_rule(inputs: Mapping[str, Any]) -> Summary:
    """The sentences that say most; where there are none, the first words."""
    words = inputs["words"] or _RULE_WORDS
    text = rules.summarise(inputs["texts"], words, inputs["language"])
    return Summary(summary=text or " ".join(" ".join(inputs["texts"]).split()[:words]))


SUMMARY: Task[Summary] = Task(
    name="summary",
    version=1,
    prompt=Path(__file__).parent / "prompts" / "summary.jinja",
    output=Summary,
    rule=_by_rule,
    max_tokens=2048,
    read=lambda text: Summary(summary=text),
)


# ---------------------------------------------------------------- the part


NodeGroup: TypeAlias = tuple[Node, ...]
"""Nodes of one text: they are clustered and summarised as one."""


class SummaryTree(Part[Collection]):
    """The records of `over` as leaves, and summaries of their clusters, of the clusters of those, and so on (RAPTOR).

    There are `levels` of nodes in all, leaves included; fewer where no more than `stop_at` different texts are left.
    Clusters are made as `soft_clusters` says, by `threshold`, `dimensions`, `reduction` (umap needs the extra `umap`)
    and `partition`; those of more than `cluster_tokens` tokens (estimated) are clustered again. A node that shares no
    cluster with another text is not summarised: it goes on to the next level as it is. A summary has at most
    `summary_tokens` tokens, where that is given. `dual`: leaves are clustered once more, by the entities that these
    propositions name in them (SiReRAG's ablation E). `hierarchical`: leaves of high abstractness are not on the first
    level but on the second, beside the summaries of the others. A leaf that has a level of its own, as the nodes of
    trees have, is clustered on that level.
    """

    version: ClassVar[int] = 2
    uses: ClassVar[Uses] = frozenset({"encoder", "model", "prompts", "seed"})
    has_vectors: ClassVar[bool] = True
    over: PartField = Field(default=Passages(), description="Part whose records are the leaves.")
    levels: int = Field(default=4, ge=1, description="Levels of nodes, leaves included.")
    stop_at: int = Field(default=11, ge=1, description="Stop when a level has no more than this many different texts.")
    cluster_tokens: int = Field(
        default=3_500, ge=100, description="Tokens of a cluster (estimated); larger ones are clustered again."
    )
    summary_tokens: int | None = Field(
        default=None, ge=10, description="Upper limit of the tokens of a summary. null: none."
    )
    threshold: float = Field(
        default=0.1, ge=0, lt=1, description="Membership probability from which a text belongs to a cluster."
    )
    dimensions: int = Field(default=10, ge=1, description="Dimensions that vectors are reduced to before clustering.")
    reduction: Reduction = Field(
        default="pca", description="How vectors are reduced: pca, or umap (needs the extra umap)."
    )
    partition: int = Field(
        default=25_000,
        ge=100,
        description="Records that are clustered in one mixture at most; more are partitioned first.",
    )
    dual: Annotated[PartField, of_class(Propositions)] | None = Field(
        default=None,
        description="Propositions whose entities cluster the leaves a second time (ablation E). null: none.",
    )
    hierarchical: bool = Field(
        default=False, description="Place leaves of high abstractness on the second level, beside summaries."
    )

    def inputs(self) -> tuple[Part[Any], ...]:
        """The part that the leaves come from; the propositions, where they count."""
        return (self.over,) if self.dual is None else (self.over, self.dual)

    def tasks(self) -> tuple[Task[Any], ...]:
        """One, for each cluster; and one for each leaf where these are told apart."""
        return (SUMMARY, abstractness.ABSTRACTNESS) if self.hierarchical else (SUMMARY,)

    @property
    def tree(self) -> str:
        """What its records are marked with: the name of the part that it stands on."""
        return name_of(self.over)

    def finish(self, context: BuildContext) -> None:
        """Cluster and summarise level by level; a summary of texts that were summarised before comes from the cache.

        One that fails is counted and has no node; the next sync asks again.
        """
        leaves = tree_nodes.leaves(context.inputs[0], context.encoder, "summary_tree")
        leaves = abstractness.raise_leaves(leaves, context) if self.hierarchical else leaves
        rounds, pool = list[Round](), tuple[Node, ...]()
        for level in range(1, self.levels):
            pool = _in_order([*pool, *(leaf for leaf in leaves if leaf.level == level - 1)])
            rounds.append(self._round(pool, level, context))
            pool = rounds[-1].above
            if not rounds[-1].made:
                break
        nodes = [*leaves, *(node for one in rounds for node in one.made)]
        dimensions = context.encoder.dimensions
        records = context.collection("records", node_schema(context.language, dimensions))
        replace_all.replace_records(records, _records(nodes, self.tree, dimensions))
        for sentence in _notes(len(leaves), rounds, self.partition):
            context.note(sentence)
        if len(nodes) > len(leaves) and context.llm.id == OfflineRules.id:
            context.note("Summaries were made by rules, not by a language model.")

    def open(self, context: ReadContext) -> Collection:
        """All nodes: fields as of hits, `level`, `children` (in the order of the source), `tree`."""
        return context.collection("records")

    def _round(self, pool: Sequence[Node], level: int, context: BuildContext) -> "Round":
        """One level more: its nodes, and what the next is made from."""
        groups = _groups(pool)
        if len(groups) <= self.stop_at:
            return Round((), tuple(pool))
        clusters = self._clusters(groups, level, context)
        answers = self._asked(clusters, level, context)
        told = [(one, answer.summary) for one, answer in zip(clusters, answers, strict=True) if answer is not None]
        texts = [self._shortened(encodable(text)) for _, text in told]
        vectors = tree_nodes.encode_texts(texts, context.encoder)
        made = [
            self._node(cluster, text, vector, level)
            for (cluster, _), text, vector in zip(told, texts, vectors, strict=True)
        ]
        clustered = {id for cluster in clusters for id in _ids(cluster)}
        alone = [node for node in pool if node.id not in clustered]
        return Round(
            tuple(made),
            _in_order([*made, *alone]),
            failed=len(clusters) - len(made),
            alone=len(alone),
            cut=sum(_tokens(cluster) > self.cluster_tokens for cluster in clusters),
            shortened=sum(text != encodable(said) for text, (_, said) in zip(texts, told, strict=True)),
            divided=len(groups) > self.partition,
        )

    def _clusters(self, groups: Sequence[NodeGroup], level: int, context: BuildContext) -> list["Cluster"]:
        """Those of two texts and more, in the order of their first texts."""
        how = Clustering(self.threshold, self.dimensions, self.reduction, self.partition, context.seed)
        weights = [_tokens((group,)) for group in groups]
        compared = [np.stack([group[0].vector for group in groups])]
        if self.dual is not None and level == 1:
            passages = [group[0].passage_ids for group in groups]
            named = entity_sentences.write_sentences(passages, context.inputs[1])
            compared.append(entity_sentences.encode_sentences(named, context.encoder))
        found = {rows for vectors in compared for rows in soft_clusters(vectors, weights, self.cluster_tokens, how)}
        return [tuple(groups[row] for row in rows) for rows in sorted(found) if len(rows) > 1]

    def _asked(self, clusters: Sequence["Cluster"], level: int, context: BuildContext) -> list[Summary | None]:
        """The summary of each cluster; failures are told to the context."""
        words = None if self.summary_tokens is None else int(self.summary_tokens * _WORDS_A_TOKEN)
        inputs = [
            {"texts": _fitting(cluster, self.cluster_tokens), "words": words, "language": context.language}
            for cluster in clusters
        ]
        with progress_bar(f"summary_tree: level {level}", len(inputs)) as advance:
            answers = context.llm.map(SUMMARY, inputs, again=True, progress=advance)
        for cluster, answer in zip(clusters, answers, strict=True):
            if isinstance(answer, Failure):
                context.failed(self._id(cluster), answer.reason)
        return [None if isinstance(answer, Failure) else answer for answer in answers]

    def _shortened(self, text: str) -> str:
        if self.summary_tokens is None:
            return text
        return "".join(build_context((), [text], self.summary_tokens).notes) or text

    def _id(self, cluster: "Cluster") -> str:
        return digest([plugin_fingerprint(self), sorted(_ids(cluster))])

    def _node(self, cluster: "Cluster", text: str, vector: Floats, level: int) -> Node:
        members = sorted((node for group in cluster for node in group), key=lambda node: node.order)
        passages, documents, metadata = tree_nodes.merged(members)
        children = tuple(node.id for node in members)
        return Node(self._id(cluster), SUMMARY_KIND, "", text, passages, documents, metadata, vector, level, children)


# ---------------------------------------------------------------- rounds


Cluster: TypeAlias = tuple[NodeGroup, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """What became of one level: the nodes `made` and those that the next is made from.

    `failed` clusters have no summary, `alone` are nodes without one, `cut` clusters were shown in part, `shortened`
    summaries were too long; `divided`: clusters were made within cells.
    """

    made: tuple[Node, ...]
    above: tuple[Node, ...]
    failed: int = 0
    alone: int = 0
    cut: int = 0
    shortened: int = 0
    divided: bool = False


def _in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.order))


def _groups(pool: Sequence[Node]) -> list[NodeGroup]:
    """Nodes of the same text together, in order; without those that have no text."""
    found: dict[str, list[Node]] = {}
    for node in pool:
        if node.whole.strip():
            found.setdefault(node.whole, []).append(node)
    return [tuple(nodes) for nodes in found.values()]


def _ids(cluster: Cluster) -> list[str]:
    return [node.id for group in cluster for node in group]


def _size(text: str) -> int:
    """Tokens (estimated) of a text and of what sets it apart from the next, as `reading.context` counts them."""
    return count_text_tokens(f"{text}\n\n", "").tokens


def _tokens(cluster: Cluster) -> int:
    return sum(_size(group[0].whole) for group in cluster)


def _fitting(cluster: Cluster, limit: int) -> list[str]:
    """The texts of a cluster; where they take more than `limit` tokens, the longest are cut to the same length."""
    texts = [group[0].whole for group in cluster]
    left = limit
    for place, size in enumerate(sorted(map(_size, texts))):
        share = left // (len(texts) - place)
        if size > share:
            return [text if _size(text) <= share else "".join(build_context((), [text], share).notes) for text in texts]
        left -= size
    return texts


# ---------------------------------------------------------------- records


def node_schema(language: str, dimensions: int) -> Schema:
    """Of collections that hold nodes of trees."""
    return tree_nodes.schema(language, dimensions, stored=("tree",), keywords=("children",), numbers=("level",))


def _records(nodes: Sequence[Node], tree: str, dimensions: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(nodes), _BATCH):
        some = nodes[start : start + _BATCH]
        columns = {
            **tree_nodes.columns(some, dimensions),
            "level": pa.array([node.level for node in some], pa.float64()),
            "children": pa.array([node.children for node in some], TEXTS),
            "tree": pa.array([node.tree or tree for node in some], pa.string()),
        }
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _notes(leaves: int, rounds: Sequence[Round], partition: int) -> Iterator[str]:
    made = [len(one.made) for one in rounds if one.made]
    above = f"{', '.join(f'{count:,}' for count in made)} on the levels above" if made else "no level above"
    yield f"{leaves:,} leaves; {above}."
    counted = {
        "summaries failed: their clusters have no node.": sum(one.failed for one in rounds),
        "clusters were too long: the model saw the beginnings of their longest texts.": sum(one.cut for one in rounds),
        "summaries were longer than asked for and were cut.": sum(one.shortened for one in rounds),
    }
    yield from (f"{count:,} {what}" for what, count in counted.items() if count)
    if any(one.divided for one in rounds):
        yield f"Levels of more than {partition:,} texts were clustered within cells of at most so many."
