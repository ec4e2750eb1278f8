"""What is fixed when a workspace is made, and what may be asked of it afterwards."""

from pathlib import Path
from typing import Any

from ragindex import registry
from ragindex.corpus import Cutting
from ragindex.errors import UsageError
from ragindex.manifest import Manifest, Settings
from ragindex.text import languages


def settled(
    folder: Path, held: Manifest | None, language: str | None, cutting: Cutting | str | None, store: Any
) -> Settings:
    """The settings asked for; those that the workspace has, where it is there and nothing else is asked for."""
    if language is not None and language not in languages():
        raise UsageError(f"The language must be one of {', '.join(languages())}. Got {language!r} instead.")
    cut = Cutting() if cutting == "default" else cutting
    described = registry.describe(store)
    if held is None:
        size, overlap = (cut.size, cut.overlap) if isinstance(cut, Cutting) else (None, None)
        return Settings(language=language or "english", size=size, overlap=overlap, store=described)
    same_cut = cutting == "default" or (held.settings.size, held.settings.overlap) == (
        (cut.size, cut.overlap) if isinstance(cut, Cutting) else (None, None)
    )
    asked = {"language": language in (None, held.settings.language), "cutting": same_cut}
    asked["store"] = described["name"] == held.settings.store["name"]
    for name, same in asked.items():
        if not same:
            raise UsageError(
                f"The workspace {folder} was made with {held.settings!r}; its {name} cannot change. "
                "Name another folder with --workspace."
            )
    return held.settings
