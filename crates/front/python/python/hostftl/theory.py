"""Closed forms, with which simulated drives must agree.

``alpha`` is the ratio of physical to mapped pages in circulation, without open segments and
reserve, and is greater than 1. ``pages`` is the number of pages per segment. Results are write
amplification: pages programmed per page written by the host. Arguments may be arrays; the result
has the shape to which they broadcast.

A skewed workload is a list of classes, pairs ``(rate, fraction)``: the share of all writes, and the
share of the mapped pages that receive them. Rates and fractions each add up to 1, and each class is
uniform.

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
    """Applies a form of numbers to arrays. Returns a number if all arguments are numbers."""
    if all(np.ndim(arg) == 0 for arg in args):
        return form(*args)
    return np.vectorize(form, otypes=[np.float64])(*args)


def fifo(alpha: Any) -> Any:
    """Returns the write amplification of FIFO (or least recently written) victims under uniform
    writes."""
    return _each(forms.fifo, alpha)


def greedy(alpha: Any, pages: Any) -> Any:
    """Returns the write amplification of greedy victims under uniform writes."""
    return _each(lambda alpha, pages: forms.greedy(alpha, int(pages)), alpha, pages)


def random(alpha: Any) -> Any:
    """Returns the write amplification of random victims under uniform writes."""
    return _each(forms.random, alpha)


def d_choices(alpha: Any, choices: Any, pages: Any) -> Any:
    """Returns the write amplification under uniform writes if the victim is the emptiest of
    ``choices`` random segments."""
    form = lambda alpha, choices, pages: forms.d_choices(alpha, int(choices), int(pages))  # noqa: E731
    return _each(form, alpha, choices, pages)


def mixed_fifo(alpha: Any, classes: Classes) -> Any:
    """Returns the write amplification of FIFO victims if all classes share one open segment."""
    return _each(lambda alpha: forms.mixed_fifo(alpha, list(classes)), alpha)


def mixed_greedy(alpha: Any, pages: Any, classes: Classes) -> Any:
    """Returns the write amplification of greedy victims if all classes and garbage collection share
    one open segment."""
    form = lambda alpha, pages: forms.mixed_greedy(alpha, int(pages), list(classes))  # noqa: E731
    return _each(form, alpha, pages)


def separated(alpha: float, classes: Classes) -> tuple[float, np.ndarray]:
    """Returns the minimum write amplification of separate FIFO pools, and the alpha of each class
    at that minimum, an array of shape (classes,)."""
    waf, alphas = forms.separated(alpha, list(classes))
    return waf, np.array(alphas)


def mean_value(demands: Sequence[float], requests: int) -> tuple[float, np.ndarray]:
    """Exact mean value analysis of a closed network: ``requests`` circulate among stations with
    mean times ``demands``, an array of shape (stations,). Returns the requests completed per unit
    of time, and the time per visit at each station, of shape (stations,)."""
    rate, times = forms.mean_value(list(demands), requests)
    return rate, np.array(times)
