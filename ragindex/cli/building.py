"""What the commands `index` and `update` share: building methods, and the report of what was done."""

from collections.abc import Sequence
from typing import Any

from ragindex._util.text import many
from ragindex.cli.console import command_tally
from ragindex.index.index import Index
from ragindex.index.models import ASKED_FOR, Refit
from ragindex.index.notes import (
    describe_drafts,
    describe_fit,
    describe_full_vocabulary,
    describe_unknown_passages,
    describe_unknown_words,
    format_part_notes,
    list_part_details,
)
from ragindex.index.parts import list_working_methods, uses_encoder
from ragindex.index.sync import BuildResult, finished_parts, parts_to_update
from ragindex.index.updating import IndexUpdate
from ragindex.interfaces import Part, Scheme
from ragindex.plugins import registry
from ragindex.types import PartFigures


def build_methods(
    index: Index, schemes: Sequence[Scheme], refit: bool, retry_failed: bool
) -> tuple[BuildResult, list[str]]:
    """Build methods, and update what is built; with `refit`, fit the encoder first. Also return notes on fits."""
    updated = finished_parts(index, schemes) if schemes else parts_to_update(index)
    before = index.encoder_id
    if not refit:
        result = index.build(*updated, *schemes, retry_failed=retry_failed)
        return result, [] if result.refit is None else [_describe_refit(index, result.refit, updated, before)]
    index.refit()
    method_parts, others = _divide_parts(updated)
    result = index.build(*method_parts, *schemes, retry_failed=retry_failed)
    waiting = [registry.label(part) for part in others if uses_encoder(part)]
    notes = [] if result.refit is None else [_describe_refit(index, result.refit, method_parts, before)]
    if waiting:
        notes.append(f"Not built again, as no method is complete with it: {', '.join(waiting)}.")
    return result, notes


def _divide_parts(parts: Sequence[Part[Any]]) -> tuple[list[Part[Any]], list[Part[Any]]]:
    """Return the parts of methods that are built, and those that no method uses as long as its other parts are missing.

    A method counts as built if a part of the name of each of its parts is. Parts of methods that have no default
    parameters are wanted.
    """
    methods = [{registry.name_of(part) for part in needed} for needed in list_working_methods().values()]
    there = {registry.name_of(part) for part in parts}
    built = {name for needed in methods if needed <= there for name in needed}
    known = {name for needed in methods for name in needed}
    others = [part for part in parts if registry.name_of(part) in known - built]
    return [part for part in parts if part not in others], others


def _describe_refit(index: Index, refit: Refit, parts: Sequence[Part[Any]], before: str | None) -> str:
    """Say what was fitted and built again, and how long it took."""
    fitted = f"{refit.encoder} was fitted again in {refit.seconds:.1f} s"
    if index.encoder_id == before:
        return f"{fitted}, and nothing has changed by it."
    because = "" if refit.reason == ASKED_FOR else f", because {refit.reason}"
    again = [index.figures(part) for part in parts if uses_encoder(part)]
    times = ", ".join(f"{built.name} {built.seconds:.1f} s" for built in again) or "nothing"
    return f"{fitted}{because}, and built again: {times}."


def collect_fit(index: Index, built: Sequence[Part[Any]]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the state of the encoder's fit as JSON and in a sentence, if a part uses the encoder and it is fitted."""
    state = index.fit_state() if any("encoder" in part.uses for part in built) else None
    return (None, []) if state is None else (state.as_json(), [describe_fit(state)])


def collect_figures(index: Index, built: Sequence[Part[Any]]) -> dict[str, PartFigures]:
    """Return time and size of each part by label, and of the encoder's fit if a part uses the encoder."""
    parts = {registry.label(part): part for part in built}
    fit = index.fit_figures() if any("encoder" in part.uses for part in parts.values()) else None
    return {name: index.figures(part) for name, part in parts.items()} | ({fit.name: fit} if fit else {})


def collect_notes(index: Index, built: Sequence[Part[Any]], report: IndexUpdate, fit: str | None) -> list[str]:
    """Return the notes on what was built, and on words of changed documents that the fit `fit` did not know."""
    unknown = describe_unknown_words(index, report.changes, fit)
    full = describe_full_vocabulary(index, built, fit)
    notes = [*format_part_notes(index, built), *list_part_details(index, built)]
    notes += filter(None, (unknown, full, describe_unknown_passages(index)))
    return [*notes, *describe_drafts(command_tally())]


def describe_work(report: IndexUpdate) -> list[str]:
    """Return what was updated, and how long the run took, in sentences."""
    updated = ", ".join(report.methods or report.parts) or "nothing had to be"
    of_parts = f" ({many(len(report.parts), 'part')}: {', '.join(report.parts)})" if report.parts else ""
    return [f"updated: {updated}{of_parts}", f"this run took {report.seconds:.1f} s"]
