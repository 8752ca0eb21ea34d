"""Means of a few samples and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Sample = TypeVar("Sample")

_T95 = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
)
"""97.5 % quantiles of Student's t for 1, 2, … degrees of freedom."""


@dataclass(frozen=True)
class Estimate:
    """A value and half the width of its 95 % confidence interval, if there is one."""

    value: float
    half_width: float | None


@dataclass(frozen=True)
class Factor:
    """A ratio above nothing and the two ends of its interval, if there is one."""

    value: float
    low: float | None
    high: float | None


def student(degrees: int) -> float:
    """The 97.5 % quantile of Student's t; beyond 30 degrees, that of 30, which is too wide rather
    than too narrow."""
    return _T95[min(degrees, len(_T95)) - 1]


def mean(samples: Sequence[float]) -> Estimate:
    """The mean of independent samples."""
    return jackknife(list(samples), lambda rest: math.fsum(rest) / len(rest))


def jackknife(
    samples: Sequence[Sample], statistic: Callable[[Sequence[Sample]], float]
) -> Estimate:
    """A statistic of independent samples; its error from what it is without each of them.

    For a mean this is Student's interval; for a ratio of means it is the usual one.
    """
    value = statistic(samples)
    count = len(samples)
    if count < 2:
        return Estimate(value, None)
    without = [statistic([*samples[:i], *samples[i + 1 :]]) for i in range(count)]
    centre = math.fsum(without) / count
    variance = (count - 1) / count * math.fsum((part - centre) ** 2 for part in without)
    return Estimate(value, student(count - 1) * math.sqrt(variance))


def jackknife_factor(
    samples: Sequence[Sample],
    statistic: Callable[[Sequence[Sample]], float],
    *,
    of_repetition: bool = False,
) -> Factor:
    """As `jackknife`, of a ratio: its error is a factor, up as far as down, so that the interval
    of a ratio of noisy times does not reach below nothing.

    The interval has the true ratio in 95 of 100 cases; `of_repetition`: what as many other samples
    would give, which vary as well, so that it is wider by the root of two, of logarithms.
    """
    value = statistic(samples)
    if len(samples) < 2:
        return Factor(value, None, None)
    without = (statistic([*samples[:i], *samples[i + 1 :]]) for i in range(len(samples)))
    if min(value, *without) <= 0:
        return Factor(value, None, None)
    found = jackknife(samples, lambda rest: math.log(statistic(rest)))
    by = math.exp((found.half_width or 0.0) * (math.sqrt(2) if of_repetition else 1.0))
    return Factor(value, value / by, value * by)
