"""Metric families, and Prometheus' text format.

All that an agent needs of a client library, without its 5 MB. Families and samples have the
attributes of `prometheus_client`'s, so that its registry and its parser take them.
"""

from collections.abc import Iterable, Iterator, Mapping
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
    series = []
    for values, value in samples:
        labelled = dict(zip(labels, values, strict=True))
        series.append(Sample(full, labelled, value))
    return Family(name, text, kind, labels, tuple(series))


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
        count = 0
        for bound, count in buckets:
            bounded = {**named, "le": _number(bound)}
            bucket = Sample(f"{name}_bucket", bounded, count)
            samples.append(bucket)
        samples.append(Sample(f"{name}_count", named, count))
        samples.append(Sample(f"{name}_sum", named, total))
    return Family(name, text, "histogram", labels, tuple(samples))


def exposition(families: Iterable[Family]) -> bytes:
    """The answer to a scrape, as `CONTENT_TYPE` says."""
    lines: list[str] = []
    for each in families:
        lines += _lines(each)
    return "".join(lines).encode()


def _lines(each: Family) -> Iterator[str]:
    name = each.name + _SUFFIX.get(each.type, "")
    kind = "gauge" if each.type == "info" else each.type
    yield f"# HELP {name} {_escaped(each.documentation)}\n"
    yield f"# TYPE {name} {kind}\n"
    for sample in each.samples:
        labels = _labels(sample.labels)
        number = _number(sample.value)
        yield f"{sample.name}{labels} {number}\n"


def _labels(labels: Mapping[str, str]) -> str:
    """The labels of a series in braces; empty if it has none."""
    if not labels:
        return ""
    pairs = []
    for label, value in sorted(labels.items()):
        quoted = _quoted(value)
        pairs.append(f'{label}="{quoted}"')
    return "{" + ",".join(pairs) + "}"


def _number(value: float) -> str:
    return _INFINITE.get(value) or repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
