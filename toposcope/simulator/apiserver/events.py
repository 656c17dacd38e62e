"""Rules for Event objects (pkg/apis/core/validation/events.go): the newer API group asks for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toposcope.simulator.apiserver.errors import required, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from toposcope.simulator.apiserver.errors import Cause

_TEXT_MAX = 128
_NOTE_MAX = 1024
_DEPRECATED = ("firstTimestamp", "lastTimestamp", "count")
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "type",
    "eventTime",
    "action",
    "reportingComponent",
    "reportingInstance",
)


def check(event: Mapping[str, Any], old: Mapping[str, Any] | None, *, newer: bool) -> Iterator[Cause]:
    """Yield what is wrong with an event (in stored form) that replaces `old` through the newer or older group."""
    namespace, about = event["metadata"]["namespace"], event.get("involvedObject", {}).get("namespace", "")
    if event.get("eventTime"):
        if not about and namespace not in ("default", "kube-system"):
            yield wrong("involvedObject.namespace", about, "does not match event.namespace")
        yield from _check_texts(event, newer=newer)
    elif namespace != (about or "default"):
        yield wrong("involvedObject.namespace", about, "does not match event.namespace")
    if newer:
        yield from _check_creation(event) if old is None else _check_update(event, old)


def _check_texts(event: Mapping[str, Any], *, newer: bool) -> Iterator[Cause]:
    names = {"reportingComponent": "reportingController"} if newer else {}
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = event.get(name, "")
        if not value:
            yield required(names.get(name, name))
        elif len(value) > _TEXT_MAX:
            yield wrong(names.get(name, name), "", f"can have at most {_TEXT_MAX} characters")
    if len(event.get("message", "")) > _NOTE_MAX:
        yield wrong("message", "", f"can have at most {_NOTE_MAX} characters")


def _check_creation(event: Mapping[str, Any]) -> Iterator[Cause]:
    yield from _check_series(event)
    if not event.get("eventTime"):
        yield required("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        yield wrong("type", "", f"has invalid value: {event.get('type', '')}")
    for name in _DEPRECATED:
        if event.get(name):
            yield wrong(name, "", "needs to be unset")


def _check_update(event: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    if event.get("series") != old.get("series"):
        yield from _check_series(event)
    for name in (*_FIXED, *_DEPRECATED):
        if event.get(name) != old.get(name):
            yield wrong(name, event.get(name), "field is immutable")


def _check_series(event: Mapping[str, Any]) -> Iterator[Cause]:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:  # noqa: PLR2004 - one event is no series
        yield wrong("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
