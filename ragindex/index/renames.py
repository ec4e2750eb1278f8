"""Documents that have got another id: found by their content, and remembered, so that the old ids lead to the new ones.

A document of a source was renamed if the source has lost its id and has a new one with the same text, or with nine
tenths of its lines. The file `renames.json` of an index keeps which id became which.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath

from ragindex._util import durable_files
from ragindex._util.canonical import digest
from ragindex.types import Document

_SAME_LINES = 0.9
_COMMON_LINE = 20
"""A line that more of the new documents have, such as a rule, makes none of them a candidate."""
_FILE = "renames.json"


def find_renames(removed: Iterable[Document], new: Sequence[Document]) -> dict[str, str]:
    """Return the new ids of the documents among `removed` that are renamed, by their old ids. Each is used once."""
    free, renames = defaultdict[str, list[str]](list), dict[str, str]()
    for document in new:
        free[digest(document.text)].append(document.id)
    left = sorted(removed, key=lambda document: document.id)
    for same_name in (True, False):
        for document in left:
            ids = free[digest(document.text)]
            fitting = [id for id in ids if not same_name or _get_name(id) == _get_name(document.id)]
            if fitting:
                renames[document.id] = min(fitting)
                ids.remove(renames[document.id])
        left = [document for document in left if document.id not in renames]
    used = set(renames.values())
    return renames | _match_lines(left, [document for document in new if document.id not in used])


def _get_name(id: str) -> str:
    return PurePosixPath(id).name


def _match_lines(removed: Sequence[Document], new: Sequence[Document]) -> dict[str, str]:
    """Pair documents that share nine tenths of the lines of the longer one, those that share the most first."""
    lines = {document.id: _count_lines(document) for document in new}
    holders = defaultdict[str, list[str]](list)
    for id, counts in lines.items():
        for line in counts:
            holders[line].append(id)
    pairs = list[tuple[float, str, str]]()
    for document in removed:
        own = _count_lines(document)
        holding = (holders[line] for line in own.keys() & holders.keys())
        candidates = {id for ids in holding if len(ids) <= _COMMON_LINE for id in ids}
        shares = {id: (own & lines[id]).total() / max(own.total(), lines[id].total()) for id in candidates}
        pairs += [(-share, document.id, id) for id, share in shares.items() if share >= _SAME_LINES]
    renames = dict[str, str]()
    for _, old, id in sorted(pairs):
        if old not in renames and id not in renames.values():
            renames[old] = id
    return renames


def _count_lines(document: Document) -> Counter[str]:
    return Counter(stripped for line in document.text.splitlines() if (stripped := line.strip()))


def read_renames(folder: Path) -> dict[str, str]:
    """Return the newest id of each id that documents of the index in `folder` had; none if the file is damaged."""
    try:
        value = durable_files.load_hashed_json((folder / _FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return {} if value is None else dict(value["renames"])


def record_renames(folder: Path, renames: Mapping[str, str], ids: Set[str]) -> None:
    """Remember which ids became which, and forget those old ids that are among `ids`, which other documents have now.

    Raises OSError.
    """
    known = read_renames(folder)
    current = {**{old: renames.get(id, id) for old, id in known.items()}, **renames}
    current = {old: id for old, id in current.items() if old not in ids and old != id}
    if current != known:
        durable_files.write_file(folder / _FILE, durable_files.dump_hashed_json({"renames": current}))
