"""What publishers would do, by running them with real reads and dry-run writes.

The API server itself checks each write (`dryRun=All`: admission and validation run, nothing is
stored), so a dry run also shows what would be refused. A deletion is not even sent; what follows it
sees the object gone. Differences are shown as unified diffs of the objects' YAML, without what
servers fill in.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from toposcope.api.cluster_topology import Topology
from toposcope.api.levels import Level
from toposcope.controller.publishers.objects import Clock, Publisher
from toposcope.integrations.framework.published import Published
from toposcope.kube.client import ApiClient, Caller, Request, find
from toposcope.kube.errors import ApiError, KubeError

_KEPT: Final = ("name", "labels", "annotations", "ownerReferences", "finalizers")
_LONGEST: Final = 700
"""Characters of a diff in a status: with what stands around it less than the 1024 that the CRD allows."""


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str) -> str:
    """The diff from `before` to `after`, either of which may not be there; empty when nothing would change."""
    lines = difflib.unified_diff(_text(before), _text(after), f"live/{name}", f"wanted/{name}")
    return "".join(lines)


def shortened(diff: str) -> str:
    """As many whole lines of a diff as fit into a status, without the two header lines."""
    lines = diff.splitlines()[2:]
    kept, size = 0, 0
    while kept < len(lines) and size + len(lines[kept]) < _LONGEST:
        size += len(lines[kept]) + 1
        kept += 1
    more = len(lines) - kept
    return "\n".join((*lines[:kept], f"... {more} more lines" if more else "")).rstrip()


def _text(document: Mapping[str, Any] | None) -> list[str]:
    if document is None:
        return []
    import yaml  # noqa: PLC0415 - a controller without dry runs does not load it

    shown = dict(document)
    if "metadata" in document:  # a whole object, with a status that others write
        shown.pop("status", None)
        shown["metadata"] = {
            key: value for key, value in document["metadata"].items() if key in _KEPT
        }
    text: str = yaml.safe_dump(shown, default_flow_style=False, sort_keys=True, width=1000)
    return text.splitlines(keepends=True)


DRY_RUN: Final = "DryRun"
"""The value in `spec.publish`, and the reason in the outcome."""
_A_FEW: Final = 2
"""Objects that stand for one resource: Grove's binding and KAI's Topology."""
_NOT_FOUND: Final = 404
_FRESH: Final = 60.0
"""Seconds for which the server's answer to the same dry run is kept."""
_MAX_KEPT: Final = 64


class DryRun:
    """Runs the publishers that `make` returns for a client: new ones each time, so that none waits for anything."""

    def __init__(
        self, client: Caller, make: Callable[[Caller], Sequence[Publisher]], monotonic: Clock
    ) -> None:
        self._trials = _Trials(client, monotonic)
        self._make = make

    def publish(self, name: str, topology: Topology, levels: Sequence[Level]) -> Published:
        """What publishing would do. Raises KubeError when the server does not answer."""
        trial, publisher = self._prepare(name)
        return _report(trial, publisher.publish(topology, levels))

    def retract(self, name: str, topology: Topology) -> Published | None:
        """What `Never` would delete; None when there is nothing of ours.

        Raises KubeError as above.
        """
        trial, publisher = self._prepare(name)
        outcome = publisher.retract(topology)
        if outcome is not None:
            return _report(trial, outcome)
        gone = next((step for step in trial.steps if step.before is not None), None)
        if gone is None or gone.before is None:
            return None
        api_version, kind = str(gone.before["apiVersion"]), str(gone.before["kind"])
        return _report(trial, Published(api_version, kind, topology.name))

    def _prepare(self, name: str) -> "tuple[_Trial, Publisher]":
        trial = _Trial(self._trials)
        publisher = next(made for made in self._make(trial) if made.name == name)
        publisher.served()  # determines the version of Kueue's
        return trial, publisher


@dataclass(frozen=True, slots=True)
class _Step:
    path: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class _Trials:
    """Sends dry runs, and keeps the answers for a while: a difference may persist for days."""

    def __init__(self, client: Caller, monotonic: Clock) -> None:
        self.client = client
        self._monotonic = monotonic
        self._known: dict[tuple[object, ...], tuple[float, Any]] = {}

    def send(self, request: Request, version: str) -> Any:
        """The server's answer to a dry run of `request` on an object of that resourceVersion.

        Raises KubeError.
        """
        tried = (request.method, request.path, request.body, version)
        due, answer = self._known.get(tried, (0.0, None))
        if answer is None or self._monotonic() >= due:
            trial = request._replace(query={**request.query, "dryRun": "All"})
            try:
                answer = self.client.call(trial)
            except ApiError as error:
                answer = error
            if len(self._known) >= _MAX_KEPT:
                self._known.clear()
            self._known[tried] = self._monotonic() + _FRESH, answer
        if isinstance(answer, ApiError):
            raise answer
        return answer


class _Trial:
    """The client of one dry run."""

    def __init__(self, trials: _Trials) -> None:
        self._trials = trials
        self._after: dict[str, Mapping[str, Any] | None] = {}
        self.steps: list[_Step] = []

    def call(self, request: Request) -> Any:
        """Answer a read as if the writes before it had been made; dry-run a write, and record it.

        Raises KubeError.
        """
        path = request.path
        if request.method == "GET":
            if path not in self._after:
                return self._trials.client.call(request)
            if self._after[path] is None:
                raise ApiError(_NOT_FOUND, "NotFound", f"{path} would be gone")
            return self._after[path]
        if "dryRun" in request.query:
            return self._trials.send(request, "")
        before = find(self, path)
        after = None if request.method == "DELETE" else self._tried(request, before)
        self._after[path] = after
        self.steps.append(_Step(path, before, after))
        return after

    def _tried(self, request: Request, before: Mapping[str, Any] | None) -> Any:
        # deleted a moment ago, and tried under another name before that
        if request.path in self._after:
            return msgspec.json.decode(request.body or b"")
        return self._trials.send(
            request, "" if before is None else str(before["metadata"].get("resourceVersion"))
        )


def _report(trial: _Trial, outcome: Published) -> Published:
    """What a publisher returned, as a forecast with a diff."""
    if not outcome.in_sync:
        verb = "would wait" if outcome.reason == "Waiting" else "would not be written"
        return replace(
            outcome, reason=DRY_RUN, message=f"{verb}: {outcome.message}"[:1024], again_in=None
        )
    if not trial.steps:
        return outcome
    verbs, diffs = [], []
    before = after = None
    for path in dict.fromkeys(step.path for step in trial.steps):
        steps = [step for step in trial.steps if step.path == path]
        before, after = steps[0].before, steps[-1].after
        verbs.append(_verb(before, after, replaced=len(steps) > 1))
        diffs.append(unified(before, after, path.removeprefix("/apis/")))
    # For a new object, the handle says everything but the spec.
    inner = unified(_spec(before), _spec(after), "") or diffs[-1]
    several = (
        f" {len(verbs)} objects, the last of them"
        if len({step.path for step in trial.steps}) > _A_FEW
        else ""
    )
    message = f"would {verbs[-1]}{several}:\n{shortened(inner)}"
    return replace(outcome, reason=DRY_RUN, message=message, again_in=None, diff="".join(diffs))


def _spec(document: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if document is None else {"spec": document.get("spec")}


def _verb(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, replaced: bool
) -> str:
    if after is None:
        return "delete"
    if before is None:
        return "create"
    return "delete and create again" if replaced else "change"


class ReadOnlyClient(ApiClient):
    """Sends reads, and writes that the server only checks (`dryRun=All`)."""

    def _about_to_send(self, request: Request) -> None:
        """Raise KubeError for what would change something."""
        if request.method != "GET" and request.query.get("dryRun") != "All":
            raise KubeError(f"--dry-run: {request.method} {request.path} is not sent")


class DryRunClient:
    """Shows what each write would change, once, in the place of making it.

    A deletion is not even sent.
    """

    def __init__(self, client: Caller, show: Callable[[str], None]) -> None:
        self._client = client
        self._show = show
        self._shown: set[tuple[str, str, bytes | None]] = set()

    def call(self, request: Request) -> Any:
        """Answer a read; have the server check a write (`dryRun=All`). Raises KubeError."""
        if request.method == "GET":
            return self._client.call(request)
        gone = request.method == "DELETE"
        after = (
            None
            if gone
            else self._client.call(request._replace(query={**request.query, "dryRun": "All"}))
        )
        known = (request.method, request.path, request.body)
        if known not in self._shown:
            self._shown.add(known)
            before = None if request.method == "POST" else find(self._client, request.path)
            name = request.path.removeprefix("/apis/")
            self._show(
                unified(
                    before,
                    after,
                    name if before else f"{name}/{after['metadata']['name']}" if after else name,
                )
            )
        return after
