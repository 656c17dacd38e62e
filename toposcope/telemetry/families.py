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
    """A metric with its samples."""

    name: str
    """Without the suffix of its type."""
    documentation: str
    type: str
    labelnames: tuple[str, ...]
    """Those of every sample."""
    samples: tuple[Sample, ...]


def family(kind: str, name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Family:
    """A gauge, counter or info; `labels` are the labels' names."""
    suffix = _SUFFIX.get(kind, "")
    series = []
    for values, value in samples:
        labelled = dict(zip(labels, values, strict=True))
        sample = Sample(f"{name}{suffix}", labelled, value)
        series.append(sample)
    return Family(
        name=name,
        documentation=text,
        type=kind,
        labelnames=labels,
        samples=tuple(series),
    )


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
        whole_count = Sample(f"{name}_count", named, count)
        samples.append(whole_count)
        whole_sum = Sample(f"{name}_sum", named, total)
        samples.append(whole_sum)
    return Family(
        name=name,
        documentation=text,
        type="histogram",
        labelnames=labels,
        samples=tuple(samples),
    )


def exposition(families: Iterable[Family]) -> bytes:
    """The answer to a scrape, as `CONTENT_TYPE` says."""
    lines: list[str] = []
    for each in families:
        lines += _lines(each)
    return "".join(lines).encode()


def _lines(each: Family) -> Iterator[str]:
    suffix = _SUFFIX.get(each.type, "")
    name = f"{each.name}{suffix}"
    documentation = _escaped(each.documentation)
    kind = each.type
    if kind == "info":
        kind = "gauge"
    yield f"# HELP {name} {documentation}\n"
    yield f"# TYPE {name} {kind}\n"

    for sample in each.samples:
        labels = _labels(sample.labels)
        series = f"{sample.name}{labels}"
        number = _number(sample.value)
        yield f"{series} {number}\n"


def _labels(labels: Mapping[str, str]) -> str:
    """The labels of a series in braces; empty if it has none."""
    if not labels:
        return ""
    pairs = []
    for label in sorted(labels):
        value = _quoted(labels[label])
        pairs.append(f'{label}="{value}"')
    listed = ",".join(pairs)
    return f"{{{listed}}}"


def _number(value: float) -> str:
    if value in _INFINITE:
        return _INFINITE[value]
    return repr(float(value))


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\\")
    return text.replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
