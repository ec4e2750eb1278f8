"""What the parts of schemes have to say to a person who looks at their figures or asks them something."""

from collections.abc import Sequence

from ragindex.errors import ServiceError
from ragindex.interfaces import Scheme
from ragindex.workspace.workspace import Workspace

_SHOWN_REASONS = 3


def format_part_notes(workspace: Workspace, schemes: Sequence[Scheme]) -> list[str]:
    """The notes of all parts, and how many records could not be made and why; each once."""
    said: dict[str, None] = {}
    for scheme in schemes:
        said |= dict.fromkeys(workspace.notes(scheme))
        for name, failed in workspace.failures(scheme).items():
            reasons = "; ".join(list(dict.fromkeys(failed.values()))[:_SHOWN_REASONS])
            sentence = f"{name}: {len(failed)} records could not be made and are tried again the next time: {reasons}"
            said[sentence] = None
    return list(said)


def require_records(workspace: Workspace, schemes: Sequence[Scheme]) -> None:
    """Raises ServiceError where a part could be made for no passage at all: what stands on it would find nothing."""
    passages = workspace.counts().passages
    for name, failed in ((name, failed) for one in schemes for name, failed in workspace.failures(one).items()):
        if len(failed) >= passages > 0:
            reason = next(iter(failed.values()))
            raise ServiceError(f"{name} failed on all {passages:,} passages: {reason} Run the same command again.")
