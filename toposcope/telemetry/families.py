"""Metric families, and Prometheus' text format.

All that an agent needs of a client library, without its 5 MB. Families and samples have the
attributes of `prometheus_client`'s, so that its registry and its parser take them.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SUFFIX: Final = {"counter": "_total", "info": "_info"}
_INFINITE: Final = {inf: "+Inf", -inf: "-Inf"}

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values, and the number."""


class Sample(NamedTuple):
    """One series; `name` has the suffix of its type."""

    name: str
    labels: Mapping[str, str]
    value: float
    timestamp: None = None
    exemplar: None = None


class Family(NamedTuple):
    """A metric with its samples.

    `name` is without the suffix of its `type`, `labelnames` those of every sample.
    """

    name: str
    documentation: str
    type: str
    labelnames: tuple[str, ...]
    samples: tuple[Sample, ...]


def family(kind: str, name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    """A gauge, counter or info; `labels` are the labels' names."""
    full = name + _SUFFIX.get(kind, "")
    made = (
        Sample(full, dict(zip(labels, values, strict=True)), value) for values, value in samples
    )
    return Family(name, text, kind, labels, tuple(made))


Buckets = Iterable[tuple[float, int]]
"""A histogram's bounds, each with the count up to it; the last bound is infinite."""


def histogram(
    name: str,
    text: str,
    labels: tuple[str, ...],
    series: Iterable[tuple[tuple[str, ...], Buckets, float]],
) -> Family:
    """A histogram: for each of its label values the buckets and the sum."""
    samples: list[Sample] = []
    for values, buckets, total in series:
        named = dict(zip(labels, values, strict=True))
        counts = [
            Sample(f"{name}_bucket", {**named, "le": _number(bound)}, count)
            for bound, count in buckets
        ]
        samples += (
            *counts,
            Sample(f"{name}_count", named, counts[-1].value),
            Sample(f"{name}_sum", named, total),
        )
    return Family(name, text, "histogram", labels, tuple(samples))


def exposition(families: Iterable[Family]) -> bytes:
    """The answer to a scrape, as `CONTENT_TYPE` says."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(each: Family) -> Iterable[str]:
    name = each.name + _SUFFIX.get(each.type, "")
    yield f"# HELP {name} {_escaped(each.documentation)}\n"
    yield f"# TYPE {name} {'gauge' if each.type == 'info' else each.type}\n"
    for sample in each.samples:
        labels = ",".join(
            f'{label}="{_quoted(value)}"' for label, value in sorted(sample.labels.items())
        )
        yield (
            f"{sample.name}{{{labels}}} {_number(sample.value)}\n"
            if labels
            else (f"{sample.name} {_number(sample.value)}\n")
        )


def _number(value: float) -> str:
    return _INFINITE.get(value) or repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
