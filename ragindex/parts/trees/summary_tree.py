"""Trees of summaries over the records of any part: clusters of similar texts are summarised, level by level."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from pydantic import Field

from ragindex._util.canonical import digest, encodable
from ragindex.interfaces import BuildContext, Collection, Floats, Part, ReadContext, Schema, SearchKind, Uses
from ragindex.llm.answer_question import build_context
from ragindex.llm.tasks import Task
from ragindex.parts.asking import AskingPart
from ragindex.parts.records import TEXTS, encode_records, replace_records
from ragindex.parts.text.passages import Passages
from ragindex.parts.text.propositions import Propositions
from ragindex.parts.trees import tree_nodes
from ragindex.parts.trees.soft_clusters import Clustering, Components, Reduction, Start, soft_clusters
from ragindex.parts.trees.tasks import (
    ABSTRACTNESS,
    SUMMARY,
    Summary,
    count_shown_tokens,
    cut_texts,
    drop_repeated_lines,
)
from ragindex.parts.trees.tree_nodes import Node
from ragindex.plugins.registry import PartField, name_of, of_class, plugin_fingerprint

SUMMARY_KIND = "summary"
_BATCH = 2_000  # nodes written per batch
_WORDS_A_TOKEN = 0.75


# ---------------------------------------------------------------- the part


NodeGroup: TypeAlias = tuple[Node, ...]
"""Nodes with equal texts: they are clustered and summarised as one."""


class SummaryTree(AskingPart[Collection]):
    """A tree with the records of `over` as leaves, and summaries of clusters of nodes on the levels above (RAPTOR).

    The tree has `levels` levels of nodes, leaves included; it ends earlier if a level has at most `stop_at`
    different texts. `soft_clusters` makes the clusters, with `threshold`, `dimensions`, `reduction` (umap
    needs the extra `umap`), `start`, `components` and `partition`; clusters of more than `cluster_tokens` tokens
    (estimated) are clustered again. A node that shares no cluster with another text is not summarised, and joins the
    next level unchanged. `summary_tokens`, if given, limits the length of a summary. `dual` clusters the leaves a
    second time, by the entities that these propositions name in them (SiReRAG's ablation E). `hierarchical`
    moves leaves of high abstractness to the second level, beside the summaries of the others. A leaf that
    already has a level, such as a node of another tree, is clustered on that level.
    """

    version: ClassVar[int] = 4
    searched_by: ClassVar[frozenset[SearchKind]] = frozenset({"text", "vectors"})
    uses: ClassVar[Uses] = frozenset({"encoder", "model", "prompts", "seed"})
    made_by_rules: ClassVar[str] = "Summaries were made"
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
    start: Start = Field(
        default="ward", description="Where mixtures begin: at a hierarchy, or at random, as in RAPTOR's own recipe."
    )
    components: Components = Field(
        default="all", description="Numbers of components tried: all up to 12, or the few that 0.1 tried."
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
        """Return the part of the leaves, and the propositions if `dual` is given."""
        return (self.over,) if self.dual is None else (self.over, self.dual)

    def tasks(self) -> tuple[Task[Any], ...]:
        """Return the task for clusters, and with `hierarchical` the task that judges leaves."""
        return (SUMMARY, ABSTRACTNESS) if self.hierarchical else (SUMMARY,)

    @property
    def tree(self) -> str:
        """Return the name that marks the records of this tree: that of the part `over`."""
        return name_of(self.over)

    def finish(self, context: BuildContext) -> None:
        """Cluster and summarise level by level; summaries of texts that were summarised before come from the LLM cache.

        A summary that fails is reported and has no node; the next sync asks for it again.
        """
        leaves = tree_nodes.leaves(context.inputs[0], context, "summary_tree")
        leaves = self._raise_leaves(leaves, context) if self.hierarchical else leaves
        rounds, pool = list[Round](), tuple[Node, ...]()
        for level in range(1, self.levels):
            pool = _sort_nodes([*pool, *(leaf for leaf in leaves if leaf.level == level - 1)])
            rounds.append(self._round(pool, level, context))
            pool = rounds[-1].above
            if not rounds[-1].nodes and all(leaf.level < level for leaf in leaves):
                break
        nodes = [*leaves, *(node for each in rounds for node in each.nodes)]
        dimensions = context.encoder.dimensions
        records = context.collection("records", node_schema(context.language, dimensions))
        replace_records(records, _build_records(nodes, self.tree, dimensions))
        sizes = [len(level.nodes) for level in rounds if level.nodes]
        above = f"{', '.join(f'{count:,}' for count in sizes)} on the levels above" if sizes else "no level above"
        context.note(f"{len(leaves):,} leaves; {above}.", detail=True)
        for sentence in _write_notes(rounds, self.partition):
            context.note(sentence)
        if len(nodes) > len(leaves):
            self.note_rules(context)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of all nodes.

        It has the fields of hits, `level`, `children` (in the order of the source) and `tree`.
        """
        return context.collection("records")

    def _raise_leaves(self, leaves: Sequence[Node], context: BuildContext) -> list[Node]:
        """Return the leaves in order, with those of high abstractness on level 1. One that failed stays."""
        inputs = {node.id: {"text": node.full_text} for node in leaves}
        answers = self.ask(context, ABSTRACTNESS, inputs, "summary_tree: abstractness")
        high = {id for id, answer in answers.items() if answer.abstractness == "high"}
        return [replace(node, level=1) if node.id in high else node for node in leaves]

    def _round(self, pool: Sequence[Node], level: int, context: BuildContext) -> "Round":
        """Build one level: its nodes, and the nodes that the next level is made from."""
        groups = _group_nodes(pool)
        if len(groups) <= self.stop_at:
            return Round((), tuple(pool))
        clusters = self._clusters(groups, level, context)
        summaries = self._summarise(clusters, level, context)
        answered = [(cluster, summaries[id].summary) for cluster in clusters if (id := self._id(cluster)) in summaries]
        texts = [self._shortened(encodable(text)) for _, text in answered]
        rows, vectors = encode_records(texts, [self._id(cluster) for cluster, _ in answered], context)
        nodes = [
            self._node(answered[row][0], texts[row], vector, level) for row, vector in zip(rows, vectors, strict=True)
        ]
        clustered = {id for cluster in clusters for id in _list_ids(cluster)}
        alone = [node for node in pool if node.id not in clustered]
        return Round(
            tuple(nodes),
            _sort_nodes([*nodes, *alone]),
            failed=len(clusters) - len(nodes),
            alone=len(alone),
            cut=sum(_count_cluster_tokens(cluster) > self.cluster_tokens for cluster in clusters),
            shortened=sum(text != encodable(summary) for text, (_, summary) in zip(texts, answered, strict=True)),
            divided=len(groups) > self.partition,
        )

    def _clusters(self, groups: Sequence[NodeGroup], level: int, context: BuildContext) -> list["Cluster"]:
        """Return the clusters of at least two different texts, in the order of their first texts."""
        how = Clustering(
            threshold=self.threshold,
            dimensions=self.dimensions,
            reduction=self.reduction,
            start=self.start,
            components=self.components,
            partition=self.partition,
            seed=context.seed,
        )
        weights = [_count_cluster_tokens((group,)) for group in groups]
        compared = [np.stack([group[0].vector for group in groups])]
        if self.dual is not None and level == 1:
            passages = [group[0].passage_ids for group in groups]
            entity_sentences = write_sentences(passages, context.inputs[1])
            compared.append(encode_sentences(entity_sentences, context))
        row_groups = {
            rows for vectors in compared for rows in soft_clusters(vectors, weights, self.cluster_tokens, how)
        }
        return [tuple(groups[row] for row in rows) for rows in sorted(row_groups) if len(rows) > 1]

    def _summarise(self, clusters: Sequence["Cluster"], level: int, context: BuildContext) -> dict[str, Summary]:
        """Return the summaries by the ids of the clusters."""
        words = None if self.summary_tokens is None else int(self.summary_tokens * _WORDS_A_TOKEN)
        inputs = {}
        for cluster in clusters:
            texts = cut_texts([group[0].full_text for group in cluster], self.cluster_tokens)
            shortened_texts = drop_repeated_lines(texts)
            inputs[self._id(cluster)] = {
                "texts": texts,
                "shown": shortened_texts,
                "words": words,
                "language": context.language,
            }
        return self.ask(context, SUMMARY, inputs, f"summary_tree: level {level}")

    def _shortened(self, text: str) -> str:
        if self.summary_tokens is None:
            return text
        return "".join(build_context((), [text], self.summary_tokens).notes) or text

    def _id(self, cluster: "Cluster") -> str:
        return digest([plugin_fingerprint(self), sorted(_list_ids(cluster))])

    def _node(self, cluster: "Cluster", text: str, vector: Floats, level: int) -> Node:
        members = sorted((node for group in cluster for node in group), key=lambda node: node.order)
        passages, documents, metadata = tree_nodes.merged(members)
        children = tuple(node.id for node in members)
        return Node(self._id(cluster), SUMMARY_KIND, "", text, passages, documents, metadata, vector, level, children)


# ---------------------------------------------------------------- rounds


Cluster: TypeAlias = tuple[NodeGroup, ...]


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one level: its `nodes`, and the nodes `above` that the next level is made from.

    `failed` counts clusters without a summary, `alone` nodes in no cluster, `cut` clusters that were shown to
    the LLM in part, and `shortened` summaries that were too long; `divided` is True if clusters were made
    within cells.
    """

    nodes: tuple[Node, ...]
    above: tuple[Node, ...]
    failed: int = 0
    alone: int = 0
    cut: int = 0
    shortened: int = 0
    divided: bool = False


def _sort_nodes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.order))


def _group_nodes(pool: Sequence[Node]) -> list[NodeGroup]:
    """Group nodes with equal texts, in order; nodes without text are left out."""
    groups: dict[str, list[Node]] = {}
    for node in pool:
        if node.full_text.strip():
            groups.setdefault(node.full_text, []).append(node)
    return [tuple(nodes) for nodes in groups.values()]


def _list_ids(cluster: Cluster) -> list[str]:
    return [node.id for group in cluster for node in group]


def _count_cluster_tokens(cluster: Cluster) -> int:
    return sum(count_shown_tokens(group[0].full_text) for group in cluster)


# ---------------------------------------------------------------- sentences that name the entities of a text


def write_sentences(texts: Sequence[Sequence[str]], propositions: Collection) -> list[str]:
    """Return one sentence per text that names the entities of its propositions, "" if there are none.

    `texts` gives each text by the ids of its passages.
    """
    fields = ("passage_ids", "position", "entities")
    rows = [row for batch in propositions.scan(fields) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["passage_ids"], row["position"], row["id"]))
    names_of: dict[str, dict[str, None]] = {}
    for row in rows:
        for id in row["passage_ids"]:
            names_of.setdefault(id, {}).update(dict.fromkeys(row["entities"]))
    name_lists = (list(dict.fromkeys(name for id in passages for name in names_of.get(id, {}))) for passages in texts)
    return [f"This text is about {', '.join(names)}." if names else "" for names in name_lists]


def encode_sentences(texts: Sequence[str], context: BuildContext) -> Floats:
    """Encode the sentences, (len(texts), dimensions); an empty one gets the zero vector, which joins no cluster.

    So does one without a vector, which is reported as failed.
    """
    rows, vectors = encode_records(texts, texts, context)
    encoded = np.zeros((len(texts), context.encoder.dimensions), np.float32)
    encoded[rows] = vectors
    encoded[np.array([not text for text in texts], bool)] = 0
    return encoded


# ---------------------------------------------------------------- records


def node_schema(language: str, dimensions: int) -> Schema:
    """Return the schema of collections of tree nodes."""
    return tree_nodes.schema(language, dimensions, stored=("tree",), keywords=("children",), numbers=("level",))


def _build_records(nodes: Sequence[Node], tree: str, dimensions: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(nodes), _BATCH):
        some = nodes[start : start + _BATCH]
        columns = {
            **tree_nodes.columns(some, dimensions),
            "level": pa.array([node.level for node in some], pa.float64()),
            "children": pa.array([node.children for node in some], TEXTS),
            "tree": pa.array([node.tree or tree for node in some], pa.string()),
        }
        yield pa.record_batch(columns)


def _write_notes(rounds: Sequence[Round], partition: int) -> Iterator[str]:
    counted = {
        "summaries failed: their clusters have no node.": sum(level.failed for level in rounds),
        "clusters were too long: the model saw the beginnings of their longest texts.": sum(
            level.cut for level in rounds
        ),
        "summaries were longer than asked for and were cut.": sum(level.shortened for level in rounds),
    }
    yield from (f"{count:,} {what}" for what, count in counted.items() if count)
    if any(level.divided for level in rounds):
        yield f"Levels of more than {partition:,} texts were clustered within cells of at most so many."
