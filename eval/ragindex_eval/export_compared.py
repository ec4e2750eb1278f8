"""Export of a compared method with its figures as evidence, if the index still answers as it did when it was asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragindex._util import canonical
from ragindex.errors import MissingPartError, UnknownNameError, UsageError
from ragindex.export.export_retriever import Export, export_retriever
from ragindex.export.retriever_file import MethodEvidence
from ragindex.index.index import Index
from ragindex.interfaces import Scheme
from ragindex.plugins import registry
from ragindex_eval.results.files import load_results
from ragindex_eval.results.model import Comparison, MethodResult
from ragindex_eval.run.answers_file import answers_fingerprint
from ragindex_eval.run.read_answers import make_reader
from ragindex_eval.run.settings import make_settings


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method of a comparison."""

    comparison: Comparison
    result: MethodResult

    @property
    def method(self) -> dict[str, Any]:
        """The specification of the method."""
        return {"name": self.result.name, "params": dict(self.result.params)}

    @property
    def opened_with(self) -> Mapping[str, Any]:
        """How the index was opened: encoder, LLM, store and seed. The LLM is left out if nothing asked it."""
        comparison = self.comparison
        llm = {} if comparison.llm == "none" else {"llm": comparison.llm}
        return {"encoder": comparison.encoder, "store": comparison.store, "seed": comparison.seed, **llm}

    def evidence_for(self, index: Index, scheme: Scheme) -> MethodEvidence:
        """Return the figures as evidence for what the open index answers now.

        Raises UsageError if it would answer differently from when it was compared, and MissingPartError.
        """
        if self._fingerprint(index, scheme) != self.result.fingerprint:
            raise UsageError(
                f"The figures of {self.result.label} are not those of {index.folder} as it is now: documents, "
                "settings or versions have changed since the comparison. Run ragindex compare again, or export the "
                "method without them (ragindex export --index … --method …)."
            )
        return _describe_evidence(self.comparison, self.result)

    def _fingerprint(self, index: Index, scheme: Scheme) -> str:
        """Return the fingerprint that the answers of the comparison's questions would have now."""
        comparison = self.comparison
        answers = answers_fingerprint(index, scheme, comparison.queries, comparison.gold)
        if comparison.reader is None:
            return answers
        facts = comparison.reader
        settings = make_settings(
            {
                "reader_llm": facts.llm,
                "reader_tokens": facts.tokens,
                "reader_passages": facts.passages,
                "reader_input": facts.input,
                "reader_prompt": facts.prompt,
            }
        )
        return canonical.digest([answers, make_reader(index, settings, comparison.gold).id])


def read_compared(folder: Path, label: str | None) -> ComparedMethod:
    """Read a method, by its label or the best one, from the files of a comparison.

    Raises DataError, UnknownNameError, and UsageError if the files hold several comparisons.
    """
    study = load_results(folder)
    if len(study.comparisons) != 1:
        raise UsageError(f"{folder} holds {len(study.comparisons)} comparisons. Evidence comes from a single one.")
    return find_compared(study.comparisons[0], label)


def find_compared(comparison: Comparison, label: str | None) -> ComparedMethod:
    """Return a method by its label, or the best one. Raises UnknownNameError; UsageError if it was not built here."""
    by_label = {method.label: method for method in comparison.methods}
    if label is not None and label not in by_label:
        raise UnknownNameError(f"The comparison has no method {label!r}. Available: {', '.join(by_label)}.")
    return ComparedMethod(comparison, _require_built(comparison.methods[0] if label is None else by_label[label]))


def _require_built(result: MethodResult) -> MethodResult:
    if not result.built:
        raise UsageError(f"The rankings of {result.label} come from elsewhere: there is nothing here to export.")
    return result


def export_compared(compared: ComparedMethod, index: Index | Path, out: Path | str, *, pack: bool) -> Export:
    """Export a compared method from its index. Raises as `export_retriever` and `ComparedMethod.evidence_for` do."""
    _require_built(compared.result)
    if isinstance(index, Index):
        scheme = registry.scheme(compared.method)
        return export_retriever(index, scheme, out, pack=pack, evidence=compared.evidence_for(index, scheme))
    with Index.open(index, **compared.opened_with) as opened:
        try:
            return export_compared(compared, opened, out, pack=pack)
        except MissingPartError as error:
            raise UsageError(f"The index has changed since the comparison. Run it again. ({error})") from error


def _describe_evidence(comparison: Comparison, result: MethodResult) -> MethodEvidence:
    data, latency = comparison.dataset, result.latency.total
    return MethodEvidence(
        dataset=data.name,
        questions=data.questions,
        judged=data.judged,
        questions_digest=data.questions_digest,
        corpus_digest=data.corpus_digest,
        questions_file=data.questions_file,
        k=comparison.ks,
        compared_with=tuple(method.label for method in comparison.methods if method is not result),
        fingerprint=result.fingerprint,
        metrics=dict(result.metrics),
        ci95={name: bounds for name, bounds in result.ci95.items() if name in result.metrics},
        index_seconds=result.index_seconds or 0.0,
        index_bytes=result.index_bytes or 0,
        latency_ms_p50=latency.p50,
        latency_ms_p95=latency.p95,
    )
