"""Scales and ticks of plots: pure functions that also handle equal, missing, zero and very large values."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragindex_eval.stats.intervals import Interval

_LARGEST, _SMALLEST = 1e15, 1e-12  # figures beyond these are no measurements, and their differences overflow
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_LOG_TICKS = 6
_ZERO_GAP = 26.0  # units of the drawing between zero and the start of a logarithmic axis


@dataclass(frozen=True, slots=True)
class Axis:
    """Title and type of an axis; `low` and `high` limit the possible values, for example of shares."""

    title: str
    log: bool = False
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """Number with its 95 % interval; None if it was not measured."""

    value: float | None
    ci95: Interval | None = None

    @property
    def known(self) -> bool:
        """Whether the number can be drawn."""
        return self.value is not None and math.isfinite(self.value) and abs(self.value) <= _LARGEST

    @property
    def bounds(self) -> Interval | None:
        """The interval; None if it is missing or cannot be drawn."""
        if self.ci95 is None or not self.known:
            return None
        low, high = self.ci95
        return self.ci95 if max(abs(low), abs(high)) <= _LARGEST and low <= high else None

    @property
    def values(self) -> tuple[float, ...]:
        """The number and the ends of its interval, as far as they can be drawn."""
        return (self.value, *(self.bounds or ())) if self.value is not None and self.known else ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Mapping of values from `low` to `high` to positions from `start` to `end`.

    `zero` is the position of 0 on a logarithmic scale.
    """

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    zero: float | None = None

    def at(self, value: float) -> float:
        """Return the position of a value; values beyond the ends are drawn at the ends."""
        if self.log and value < _SMALLEST:
            return self.start if self.zero is None else self.zero
        low, high, value = (math.log(number) if self.log else number for number in (self.low, self.high, value))
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + share * (self.end - self.start)


def scale(axis: Axis, figures: Iterable[Figure], start: float, end: float, ticks: int = 5) -> Scale:
    """Make a scale for all figures and their intervals, from one round number to another, with about `ticks` ticks."""
    values = [value for figure in figures for value in figure.values]
    return _log_scale(values, start, end) if axis.log else _linear_scale(axis, values, start, end, ticks)


def at_values(values: Sequence[int], start: float, end: float, distance: float) -> Scale:
    """Make a scale with ticks at the values, at least `distance` apart; it is logarithmic if the range is wide."""
    low, high = min(values), max(values)
    if low == high:
        return Scale(low - 1, high + 1, start, end, ((low, str(low)),))
    bare = Scale(low, high, start, end, (), log=low > 0 and high / low > 12)
    labelled: list[tuple[float, str]] = []
    for value in sorted(set(values)):
        if not labelled or bare.at(value) - bare.at(labelled[-1][0]) >= distance:
            labelled.append((value, f"{value:,}"))
    return Scale(low, high, start, end, tuple(labelled), log=bare.log)


# ---------------------------------------------------------------- linear


def _linear_scale(axis: Axis, values: Sequence[float], start: float, end: float, count: int) -> Scale:
    existing = [_limit(axis, value) for value in values]
    low, high = _widen(axis, min(existing, default=0.0), max(existing, default=1.0))
    step = _round_up((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [(number * step, _format_tick(number * step, step)) for number in range(first, last + 1)]
    inside = tuple(tick for tick in ticks if abs(_limit(axis, tick[0]) - tick[0]) <= step * 1e-6)
    return Scale(_limit(axis, ticks[0][0]), _limit(axis, ticks[-1][0]), start, end, inside)


def _limit(axis: Axis, value: float) -> float:
    value = value if axis.low is None else max(value, axis.low)
    return value if axis.high is None else min(value, axis.high)


def _widen(axis: Axis, low: float, high: float) -> Interval:
    """Widen the range if the values (nearly) coincide, within the limits of the axis."""
    size = max(abs(low), abs(high))
    least = 0.05 * size if size >= _SMALLEST else 1.0
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    return _limit(axis, low), _limit(axis, high)


def _round_up(step: float) -> float:
    """Round up to 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in _STEPS if power * factor >= step * (1 - 1e-9))


def _format_tick(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += not math.isclose(step * 10**digits, round(step * 10**digits))
    text = f"{value:,.{min(digits, 12)}f}"
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.removeprefix("-")


# ---------------------------------------------------------------- logarithmic


def _log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Make a logarithmic scale between round numbers, with a separate position for zeros beside it."""
    positive = [value for value in values if value >= _SMALLEST]
    zero = None
    if len(positive) < len(values):
        zero, start = start, start + math.copysign(_ZERO_GAP, end - start)
    low, high = min(positive, default=1.0), max(positive, default=10.0)
    low, high = _round_below(low), _round_above(high)
    if low == high:
        low, high = _round_below(low * 0.99), _round_above(high * 1.01)
    zeros = () if zero is None else ((0.0, "0"),)
    return Scale(low, high, start, end, (*zeros, *_log_ticks(low, high)), log=True, zero=zero)


def _round_numbers(value: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten around a value."""
    power = math.floor(math.log10(value))
    return [float(f"{factor}e{power + offset}") for offset in (-1, 0, 1) for factor in (1, 2, 5)]


def _round_below(value: float) -> float:
    return max(number for number in _round_numbers(value) if number <= value * (1 + 1e-9))


def _round_above(value: float) -> float:
    return min(number for number in _round_numbers(value) if number >= value * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    inside = [tick for tick in fine if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    if len(inside) > _MOST_LOG_TICKS:
        tens = [float(f"1e{power}") for power in powers if low * (1 - 1e-9) <= float(f"1e{power}") <= high * (1 + 1e-9)]
        inside = tens[:: math.ceil(len(tens) / _MOST_LOG_TICKS)]
    return [(tick, f"{tick:,.0f}" if 1 <= tick < 1e6 else f"{tick:g}") for tick in inside]
