"""Notes about the parts of schemes, shown to users with figures and answers."""

from collections.abc import Sequence

from ragindex.counts import many
from ragindex.errors import ServiceError
from ragindex.interfaces import Scheme
from ragindex.workspace.workspace import Workspace

_MAX_REASONS = 3


def format_part_notes(workspace: Workspace, schemes: Sequence[Scheme]) -> list[str]:
    """Return the notes of all parts, and the number of failed records with reasons, without duplicates."""
    said: dict[str, None] = {}
    for scheme in schemes:
        said |= dict.fromkeys(workspace.notes(scheme))
        for name, failed in workspace.failures(scheme).items():
            reasons = "; ".join(list(dict.fromkeys(failed.values()))[:_MAX_REASONS])
            could_not = many(len(failed), "record could not be made and is", "records could not be made and are")
            said[f"{name}: {could_not} tried again the next time: {reasons}"] = None
    return list(said)


def require_records(workspace: Workspace, schemes: Sequence[Scheme]) -> None:
    """Raise ServiceError if a part failed on all passages, because methods that use it would find nothing."""
    passages = workspace.counts().passages
    for name, failed in ((name, failed) for one in schemes for name, failed in workspace.failures(one).items()):
        if len(failed) >= passages > 0:
            reason = next(iter(failed.values()))
            raise ServiceError(f"{name} failed on all {passages:,} passages: {reason} Run the same command again.")
