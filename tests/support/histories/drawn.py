"""Histories drawn from a seed, played, and cut down to what is needed where one fails."""

import random
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from histories import materials
from histories.faults import HOWS
from histories.fresh import Fresh, make_folder
from histories.left import BrokenError
from histories.paid import CALLS_DRAWN
from histories.played import History, Setting, Step
from ragindex.index.parts import topological_order
from ragindex.plugins import registry

SHORTEST, LONGEST = 8, 13
_WORDS = ("Emma", "Tom", "", "")


@dataclass(frozen=True)
class Outcome:
    """`broken` is empty where all held."""

    steps: tuple[Step, ...]
    met: frozenset[str]
    kind: str = ""
    broken: str = ""


# ---------------------------------------------------------------- drawing


def setting(rng: random.Random, memory_gib: float, store: str = "", most: int = 3) -> Setting:
    """Methods of several kinds, and how hard they are pressed."""
    kinds = rng.sample(sorted(materials.KINDS), rng.randint(2, most))
    return Setting(
        methods=tuple(rng.choice(materials.KINDS[kind]) for kind in kinds),
        chunking=rng.choice(("passages", "passages", "overlapping", "whole")),
        batch=rng.choice((2, 3, 6)),
        fragments=rng.choice((3, 64)),
        memory_gib=memory_gib,
        store=store,
    )


def steps(rng: random.Random, chosen: Setting) -> list[Step]:
    """At least SHORTEST: rounds of a change, whatever else, and a sync, which may die; then what it was at may move."""
    drawn: list[Step] = [("put", {"documents": _documents(rng, 2, 4)})]
    length = rng.randint(SHORTEST, LONGEST) - 1
    while len(drawn) < length:
        drawn += _round(rng, chosen)
    return [*drawn[:length], ("sync", {"methods": list(chosen.methods)})]


def _round(rng: random.Random, chosen: Setting) -> list[Step]:
    drawn: list[Step] = []
    if rng.random() < 0.8:
        drawn.append(_draw_step(rng, chosen, _CHANGES))
    if rng.random() < 0.45:
        drawn.append(_draw_step(rng, chosen, _OTHERS))
    drawn.append(_draw_step(rng, chosen, {"sync": 1}))
    if "death" in drawn[-1][1] and rng.random() < 0.8:
        drawn.append(_moved(rng, drawn[0]))
        again = {"methods": list(chosen.methods)}
        chance = rng.random()
        if chance < 0.5:
            drawn.append(("sync", again))
        elif chance < 0.75:  # the one that should finish it dies too
            drawn.append(("sync", again | _killing(rng, chosen)))
    if rng.random() < 0.25:
        drawn.append(_draw_step(rng, chosen, {"read": 1}))
    return drawn


def _draw_step(rng: random.Random, chosen: Setting, weights: Mapping[str, float]) -> Step:
    (name,) = rng.choices(list(weights), list(weights.values()))
    return name, _DRAWN[name](rng, chosen)


def _moved(rng: random.Random, change: Step) -> Step:
    """What an unfinished sync was making is gone, or is something else."""
    names = sorted(change[1].get("documents", ())) or list(materials.NAMES)
    some = rng.sample(names, rng.randint(1, len(names)))
    kind = rng.random()
    if kind < 0.45:
        return "remove", {"names": some}
    if kind < 0.7:
        return "put", {"documents": {name: _sentences(rng) for name in some}}
    if kind < 0.8:
        return "replace", {"documents": _documents(rng, 1, 4)}
    return "budget", {"memory_gib": rng.choice((0.0, 1.0))}


def _documents(rng: random.Random, least: int, most: int) -> dict[str, list[int]]:
    return {name: _sentences(rng) for name in rng.sample(materials.NAMES, rng.randint(least, most))}


def _sentences(rng: random.Random) -> list[int]:
    """One text of a few, so that documents come back to what they were; some are the beginning of others."""
    start, length = rng.randrange(3) * 4, rng.choice((1, 2, 4))
    return [(start + 5 * number) % len(materials.SENTENCES) for number in range(length)]


def _death(rng: random.Random) -> list[Any]:
    return [round(150 ** rng.random()), rng.choice(HOWS)]


def _deadly(rng: random.Random, share: float) -> dict[str, Any]:
    return {"death": _death(rng)} if rng.random() < share else {}


def _killing(rng: random.Random, chosen: Setting) -> dict[str, Any]:
    """At any write, or where a part's data and its record may differ."""
    if rng.random() < 0.6:
        return _deadly(rng, 0.6)
    parts = topological_order(part for method in chosen.methods for part in materials.METHODS[method].parts())
    name = registry.name_of(rng.choice(parts))
    return {"death": [rng.choice((f"upsert {name}.records", f"append journal {name}")), rng.choice(HOWS)]}


def _draw_methods(rng: random.Random, chosen: Setting) -> list[str] | None:
    methods = rng.choice((None, chosen.methods, chosen.methods, rng.sample(chosen.methods, 1)))
    return None if methods is None else list(methods)


_CHANGES = {"put": 5.0, "remove": 2.0, "replace": 1.5, "rechunk": 1.0}
_OTHERS = {
    **{"encode": 1.2, "budget": 1.5, "reopen": 1.0, "fail": 1.2, "take": 0.6, "later": 0.8},
    **{"pay": 1.0, "hand_on": 0.6, "lose": 0.4},
}
_DRAWN: dict[str, Callable[[random.Random, Setting], dict[str, Any]]] = {
    "put": lambda rng, chosen: {"documents": _documents(rng, 1, 3), **_short(rng)},
    "remove": lambda rng, chosen: {"names": rng.sample(materials.NAMES, rng.randint(1, 3)), **_short(rng)},
    "replace": lambda rng, chosen: {"documents": _documents(rng, 0, 5), **_short(rng)},
    "rechunk": lambda rng, chosen: {"chunking": rng.choice(("passages", "overlapping")), **_short(rng)},
    "sync": lambda rng, chosen: {"methods": _draw_methods(rng, chosen), **_killing(rng, chosen)},
    "encode": lambda rng, chosen: {"encoder": rng.choice(("hashed", "hashed", "other", "lsa"))},
    "budget": lambda rng, chosen: {"memory_gib": rng.choice((0.0, 1.0))},
    "reopen": lambda rng, chosen: {},
    "read": lambda rng, chosen: {"method": rng.choice(chosen.methods), "late": rng.random() < 0.3},
    "fail": lambda rng, chosen: {"word": rng.choice(_WORDS)},
    "take": lambda rng, chosen: _deadly(rng, 0.3),
    "later": lambda rng, chosen: {},
    "pay": lambda rng, chosen: {"call": rng.choice(CALLS_DRAWN), **_short(rng)},
    "hand_on": lambda rng, chosen: _short(rng),
    "lose": lambda rng, chosen: _short(rng),
}


def _short(rng: random.Random) -> dict[str, Any]:
    """Few writes are made where documents alone change."""
    return {"death": [rng.randint(1, 4), rng.choice(HOWS)]} if rng.random() < 0.15 else {}


# ---------------------------------------------------------------- playing


def play(
    chosen: Setting,
    drawn: Sequence[Step],
    fresh: Fresh,
    *,
    kind: type[History] = History,
) -> Outcome:
    """In a workspace of its own, which is then gone."""
    place = make_folder("ragindex-history-")
    history = kind(place / "space", chosen, fresh)
    try:
        for name, given in drawn:
            history.play(name, given)
    except BrokenError as error:
        return _outcome(history, error.kind, str(error))
    except Exception as error:  # noqa: BLE001  # whatever a workspace raises here, it must not
        return _outcome(history, type(error).__name__, "".join(traceback.format_exception(error)[-6:]))
    finally:
        history.close()
        shutil.rmtree(place, ignore_errors=True)
    return _outcome(history, "", "")


def _outcome(history: History, kind: str, broken: str) -> Outcome:
    return Outcome(tuple(history.steps), frozenset(history.met), kind, broken)


def shrunk(chosen: Setting, failed: Outcome, fresh: Fresh, tries: int = 150) -> tuple[Setting, Outcome]:
    """The same failure with fewer steps, methods, documents, and a death that comes sooner."""
    left = tries
    again = True
    while again and left > 0:
        again = False
        for other, fewer in _smaller(chosen, failed.steps):
            left -= 1
            if left < 0:
                break
            outcome = play(other, fewer, fresh)
            if outcome.kind == failed.kind:
                chosen, failed, again = other, outcome, True
                break
    return chosen, failed


def _smaller(chosen: Setting, played: Sequence[Step]) -> "list[tuple[Setting, list[Step]]]":
    every = list(played)
    candidates: list[tuple[Setting, list[Step]]] = []
    for method in chosen.methods if len(chosen.methods) > 1 else ():
        fewer = replace(chosen, methods=tuple(other for other in chosen.methods if other != method))
        candidates.append((fewer, [_without(step, method) for step in every if step[1].get("method") != method]))
    for size in (4, 2, 1):
        candidates += [(chosen, every[:at] + every[at + size :]) for at in range(len(every) - size, -1, -1)]
    for at, (name, given) in enumerate(every):
        candidates += [(chosen, [*every[:at], (name, less), *every[at + 1 :]]) for less in _less(given)]
    return candidates


def _without(step: Step, method: str) -> Step:
    name, given = step
    if not given.get("methods"):
        return step
    return name, {**given, "methods": [other for other in given["methods"] if other != method]}


def _less(given: dict[str, Any]) -> "list[dict[str, Any]]":
    candidates = []
    if "documents" in given:
        documents = given["documents"]
        candidates += [
            {**given, "documents": {other: documents[other] for other in documents if other != name}}
            for name in documents
        ]
        candidates += [
            {**given, "documents": {**documents, name: text[:1]}} for name, text in documents.items() if len(text) > 1
        ]
    if len(given.get("names", ())) > 1:
        candidates += [
            {**given, "names": [other for other in given["names"] if other != name]} for name in given["names"]
        ]
    if "death" in given:
        at, how = given["death"]
        candidates.append({key: value for key, value in given.items() if key != "death"})
        sooner = sorted({1, at // 2, at - 1}) if isinstance(at, int) else []
        candidates += [{**given, "death": [other, how]} for other in sooner if 0 < other < at]
    return candidates
