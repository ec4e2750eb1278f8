"""Pseudo-random numbers and permutations that depend on a key alone, equal on every machine and Python version."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

_SPARE = 1 << 32  # ratio of states to outcomes at least, so that no outcome is noticeably likelier
_MASK = (1 << 64) - 1
_ROUNDS = 4


class Draws:
    """Pseudo-random numbers of a `key`: blake2b in counter mode, consumed digit by digit."""

    __slots__ = ("_bound", "_count", "_key", "_pool")

    def __init__(self, *key: object) -> None:
        self._key = repr(key).encode()  # keys are numbers and words, whose repr is the same everywhere
        self._count = self._pool = 0
        self._bound = 1

    def below(self, n: int) -> int:
        """Return an integer in [0, n)."""
        if self._bound < n * _SPARE:
            block = blake2b(self._key, salt=self._count.to_bytes(16, "little"))
            self._pool, self._bound = int.from_bytes(block.digest(), "little"), 1 << 512
            self._count += 1
        self._pool, value = divmod(self._pool, n)
        self._bound //= n
        return value

    def chance(self, percent: int) -> bool:
        """Return True with a probability of `percent` in 100."""
        return self.below(100) < percent

    def pick(self, values: Sequence[T]) -> T:
        """Return one of `values`."""
        return values[self.below(len(values))]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Return `values` in random order."""
        rest = list(values)
        return [rest.pop(self.below(len(rest))) for _ in values]


@dataclass(frozen=True, slots=True)
class Permutation:
    """Bijection of [0, n) with its inverse, in constant memory: a Feistel network over pairs (i // side, i % side).

    A result outside [0, n) is permuted again (cycle walking, Black and Rogaway 2002).
    """

    n: int
    side: int
    keys: tuple[int, ...]

    def __call__(self, i: int) -> int:
        """Return the image of `i`. Raises IndexError if `i` is not in [0, n), where this is no bijection."""
        if not 0 <= i < self.n:
            raise IndexError(f"{i} is not in [0, {self.n})")
        while True:
            left, right = divmod(i, self.side)
            for number in range(0, _ROUNDS, 2):
                left = (left + _mix(right, self.keys[number])) % self.side
                right = (right + _mix(left, self.keys[number + 1])) % self.side
            i = left * self.side + right
            if i < self.n:
                return i

    def inverse(self, i: int) -> int:
        """Return the number whose image is `i`."""
        while True:
            left, right = divmod(i, self.side)
            for number in range(_ROUNDS - 2, -1, -2):
                right = (right - _mix(left, self.keys[number + 1])) % self.side
                left = (left - _mix(right, self.keys[number])) % self.side
            i = left * self.side + right
            if i < self.n:
                return i


def permutation(n: int, *key: object) -> Permutation:
    """Return the permutation of [0, n) that belongs to `key`."""
    draws = Draws(*key)
    return Permutation(n, math.isqrt(n - 1) + 1 if n > 1 else 1, tuple(draws.below(1 << 64) for _ in range(_ROUNDS)))


def _mix(value: int, key: int) -> int:
    """Return a hash of the value and key: the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    value = (value ^ key) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
