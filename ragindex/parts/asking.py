"""Base classes of parts that ask a model. A subclass is its tasks, its columns, and its reading of the answers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic

import pyarrow as pa

from ragindex._util.progress import progress_bar
from ragindex._util.time_limit import require_time
from ragindex.interfaces import BuildContext, Change, Collection, Part, ReadContext, Schema, Uses
from ragindex.interfaces.parts import Opened_co
from ragindex.llm.offline import OfflineRules
from ragindex.llm.tasks import Failure, Output, Task
from ragindex.parts.records import find_record_ids, split_by_size

PassageRow = Mapping[str, Any]
"""A row of `BuildContext.passages`."""


class AskingPart(Part[Opened_co], Generic[Opened_co]):
    """Base class of parts that ask a model.

    Answers that were paid for come from the cache of calls. An input without a usable answer is reported as failed, and
    asked again at the next sync; after two charged answers, it is set aside (see `ragindex.errors.LLMError`).
    """

    uses: ClassVar[Uses] = frozenset({"model", "prompts"})
    made_by_rules: ClassVar[str]
    """What rules made where no model is asked, as "Topics were made"."""

    def ask(
        self, context: BuildContext, task: Task[Output], inputs: Mapping[str, Mapping[str, Any]], progress: str = ""
    ) -> dict[str, Output]:
        """Return the answers by the ids of `inputs`, without those that failed. `progress` labels a progress bar.

        With a label, an answer is a safe point: raises TimeLimitError.
        """
        if not inputs:
            return {}
        if progress:
            with progress_bar(progress, len(inputs)) as advance:

                def count_answers(done: int) -> None:
                    advance(done)
                    require_time()

                answers = context.llm.map(task, inputs.values(), again=True, progress=count_answers)
        else:
            answers = context.llm.map(task, inputs.values(), again=True)
        usable: dict[str, Output] = {}
        for id, answer in zip(inputs, answers, strict=True):
            if isinstance(answer, Failure):
                context.failed(id, answer.reason, set_aside=answer.set_aside)
            else:
                usable[id] = answer
        return usable

    def note_rules(self, context: BuildContext) -> None:
        """Note that rules answered in the place of a model, if they did."""
        if context.llm.id == OfflineRules.id:
            context.note(f"{self.made_by_rules} by rules, not by a language model.")


class PassageAnswers(AskingPart[Collection]):
    """Base class of parts that ask about each passage: one collection, updated batch by batch.

    Passages whose answer failed lose the records they had.
    """

    one_record_each: ClassVar[bool] = False
    """Whether a passage has one record at most, with the passage's own id."""

    @abstractmethod
    def record_schema(self, context: BuildContext) -> Schema:
        """Return the schema of the records."""

    @abstractmethod
    def make_records(self, passages: Sequence[PassageRow], context: BuildContext) -> pa.RecordBatch | None:
        """Ask about the passages, and return their records; None if there are none."""

    def apply(self, change: Change, context: BuildContext) -> None:
        """Replace the records of the batch's passages."""
        collection = context.collection("records", self.record_schema(context))
        passages = context.passages(list(change.upsert)).to_pylist() if change.upsert else []
        answers = self.make_records(passages, context) if passages else None
        touched = [*change.remove, *change.upsert]
        stored = touched if self.one_record_each else find_record_ids(collection, touched)
        collection.delete(sorted(set(stored).difference(() if answers is None else answers.column("id").to_pylist())))
        if answers is not None:
            sizes = (
                map(len, answers.column("metadata").to_pylist())
                if "metadata" in answers.schema.names
                else [0] * len(answers)
            )
            for start, stop in split_by_size(list(sizes)):
                collection.upsert(answers.slice(start, stop - start))

    def finish(self, context: BuildContext) -> None:
        """Note whether rules were used."""
        self.note_rules(context)

    def open(self, context: ReadContext) -> Collection:
        """Return the collection of records."""
        return context.collection("records")
