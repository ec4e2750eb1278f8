"""Scales and ticks of plots: pure functions of numbers, safe for equal values, none at all, zero and the very large."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragindex_eval.results.model import Interval

_LARGEST, _SMALLEST = 1e15, 1e-12  # beyond these a figure is no measurement, and differences overflow
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_LOG_TICKS = 6
_ZERO_GAP = 26.0  # units of the drawing between the place of zero and a logarithmic axis


@dataclass(frozen=True, slots=True)
class Axis:
    """What an axis shows. Values outside `low` and `high`, where given, do not exist (shares, counts)."""

    title: str
    log: bool = False
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and its 95 % interval; None where it was not measured."""

    value: float | None
    ci95: Interval | None = None

    @property
    def known(self) -> bool:
        """Whether it can be drawn."""
        return self.value is not None and math.isfinite(self.value) and abs(self.value) <= _LARGEST

    @property
    def bounds(self) -> Interval | None:
        """The interval, where it can be drawn."""
        if self.ci95 is None or not self.known:
            return None
        low, high = self.ci95
        return self.ci95 if max(abs(low), abs(high)) <= _LARGEST and low <= high else None

    @property
    def values(self) -> tuple[float, ...]:
        """The number and the ends of the interval, as far as there are any."""
        return (self.value, *(self.bounds or ())) if self.value is not None and self.known else ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` are drawn from `start` to `end`. On a logarithmic one, `zero` is the place of 0."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False
    zero: float | None = None

    def at(self, value: float) -> float:
        """The place of a value; what lies beyond the ends is drawn at them."""
        if self.log and value < _SMALLEST:
            return self.start if self.zero is None else self.zero
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + share * (self.end - self.start)


def scale(axis: Axis, figures: Iterable[Figure], start: float, end: float, ticks: int = 5) -> Scale:
    """The scale that holds all figures with their intervals, its ends at round numbers, with about `ticks` of these."""
    values = [value for figure in figures for value in figure.values]
    return _logarithmic(values, start, end) if axis.log else _linear(axis, values, start, end, ticks)


def at_values(values: Sequence[int], start: float, end: float, room: float) -> Scale:
    """A scale whose ticks are the values themselves, as many as stand `room` apart; logarithmic over a wide range."""
    low, high = min(values), max(values)
    if low == high:
        return Scale(low - 1, high + 1, start, end, ((low, str(low)),))
    bare = Scale(low, high, start, end, (), log=low > 0 and high / low > 12)
    kept: list[tuple[float, str]] = []
    for value in sorted(set(values)):
        if not kept or bare.at(value) - bare.at(kept[-1][0]) >= room:
            kept.append((value, f"{value:,}"))
    return Scale(low, high, start, end, tuple(kept), log=bare.log)


# ---------------------------------------------------------------- linear


def _linear(axis: Axis, values: Sequence[float], start: float, end: float, count: int) -> Scale:
    existing = [_limited(axis, value) for value in values]
    low, high = _widened(axis, min(existing, default=0.0), max(existing, default=1.0))
    step = _nice((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [(number * step, _written(number * step, step)) for number in range(first, last + 1)]
    inside = tuple(tick for tick in ticks if abs(_limited(axis, tick[0]) - tick[0]) <= step * 1e-6)
    return Scale(_limited(axis, ticks[0][0]), _limited(axis, ticks[-1][0]), start, end, inside)


def _limited(axis: Axis, value: float) -> float:
    value = value if axis.low is None else max(value, axis.low)
    return value if axis.high is None else min(value, axis.high)


def _widened(axis: Axis, low: float, high: float) -> Interval:
    """Room around the values where they (nearly) coincide, as far as the axis goes."""
    size = max(abs(low), abs(high))
    least = 0.05 * size if size >= _SMALLEST else 1.0
    if high - low < least:
        middle = (low + high) / 2
        low, high = middle - least / 2, middle + least / 2
    return _limited(axis, low), _limited(axis, high)


def _nice(step: float) -> float:
    """The round number (1, 2, 2.5 or 5 times a power of ten) that is nearest from above."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in _STEPS if power * factor >= step * (1 - 1e-9))


def _written(value: float, step: float) -> str:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    digits += not math.isclose(step * 10**digits, round(step * 10**digits))
    text = f"{value:,.{min(digits, 12)}f}"
    return text.replace("-", "−") if any(digit in text for digit in "123456789") else text.removeprefix("-")


# ---------------------------------------------------------------- logarithmic


def _logarithmic(values: Sequence[float], start: float, end: float) -> Scale:
    """From a round number below to one above; zeros stand apart, beside the axis."""
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


def _rounds(value: float) -> list[float]:
    """1, 2 and 5 times the powers of ten around a value."""
    power = math.floor(math.log10(value))
    return [float(f"{factor}e{power + offset}") for offset in (-1, 0, 1) for factor in (1, 2, 5)]


def _round_below(value: float) -> float:
    return max(one for one in _rounds(value) if one <= value * (1 + 1e-9))


def _round_above(value: float) -> float:
    return min(one for one in _rounds(value) if one >= value * (1 - 1e-9))


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    inside = [tick for tick in fine if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
    if len(inside) > _MOST_LOG_TICKS:
        tens = [float(f"1e{power}") for power in powers if low * (1 - 1e-9) <= float(f"1e{power}") <= high * (1 + 1e-9)]
        inside = tens[:: math.ceil(len(tens) / _MOST_LOG_TICKS)]
    return [(tick, f"{tick:,.0f}" if 1 <= tick < 1e6 else f"{tick:g}") for tick in inside]
