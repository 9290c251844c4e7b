"""Closed forms that a simulated drive must agree with.

``alpha`` is the ratio of physical to mapped pages in circulation, without frontiers and reserve,
and is more than 1; ``pages`` is how many a segment has. Results are write amplification: pages
programmed for each page that the host writes. Arguments may be arrays; the result has the shape that
they broadcast to.

A skewed workload is a list of classes, pairs ``(rate, fraction)``: the share of all writes, and the
share of the mapped pages that they go to; each kind sums up to 1, and each class is uniform within.

Sources: Desnoyers (SYSTOR 2012) for FIFO, greedy and skew; Xiang & Kurkoski (arXiv 1110.4245); Van
Houdt (SIGMETRICS 2013) for d-choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._native import forms

Classes = Sequence[tuple[float, float]]


def _each(form: Callable[..., float], *args: Any) -> Any:
    """A form of numbers over arrays; a number where all arguments are numbers."""
    if all(np.ndim(arg) == 0 for arg in args):
        return form(*args)
    return np.vectorize(form, otypes=[np.float64])(*args)


def fifo(alpha: Any) -> Any:
    """FIFO (or least recently written) victims, uniform writes."""
    return _each(forms.fifo, alpha)


def greedy(alpha: Any, pages: Any) -> Any:
    """Greedy victims, uniform writes."""
    return _each(lambda alpha, pages: forms.greedy(alpha, int(pages)), alpha, pages)


def random(alpha: Any) -> Any:
    """Random victims, uniform writes."""
    return _each(forms.random, alpha)


def d_choices(alpha: Any, choices: Any, pages: Any) -> Any:
    """The emptiest of ``choices`` segments that are drawn at random, uniform writes."""
    form = lambda alpha, choices, pages: forms.d_choices(alpha, int(choices), int(pages))  # noqa: E731
    return _each(form, alpha, choices, pages)


def mixed_fifo(alpha: Any, classes: Classes) -> Any:
    """FIFO victims, all classes through one frontier."""
    return _each(lambda alpha: forms.mixed_fifo(alpha, list(classes)), alpha)


def mixed_greedy(alpha: Any, pages: Any, classes: Classes) -> Any:
    """Greedy victims, all classes and collection through one frontier."""
    form = lambda alpha, pages: forms.mixed_greedy(alpha, int(pages), list(classes))  # noqa: E731
    return _each(form, alpha, pages)


def separated(alpha: float, classes: Classes) -> tuple[float, np.ndarray]:
    """The least that separated pools reach with FIFO victims, and the alpha that each class then has:
    an array of shape (classes,)."""
    waf, alphas = forms.separated(alpha, list(classes))
    return waf, np.array(alphas)


def mean_value(demands: Sequence[float], requests: int) -> tuple[float, np.ndarray]:
    """Exact mean value analysis of a closed network: ``requests`` circulate among stations of mean
    times ``demands``, an array of shape (stations,). Gives the requests completed for each unit of
    time, and the time that one spends at each station, of shape (stations,)."""
    rate, times = forms.mean_value(list(demands), requests)
    return rate, np.array(times)
