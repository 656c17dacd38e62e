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
from toposcope.integrations.framework.published import Published
from toposcope.integrations.framework.publishing.publisher import Publisher
from toposcope.kube.client import ApiClient, Caller, Request, find
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.runtime import Runtime

DRY_RUN: Final = "DryRun"
"""The value in `spec.publish`, and the reason in the outcome."""
_KEPT_METADATA: Final = ("name", "labels", "annotations", "ownerReferences", "finalizers")
_MOST_DIFF_CHARACTERS: Final = 700
"""Of a diff in a status: with what stands around it less than the 1024 that the CRD allows."""
_MOST_MESSAGE_CHARACTERS: Final = 1024
_MOST_PATHS: Final = 2
"""Objects that stand for one resource: its own, and one that makes way for it."""
_NOT_FOUND: Final = 404
_FRESH_SECONDS: Final = 60.0
"""For how long the server's answer to the same dry run is kept."""
_MOST_ANSWERS: Final = 64

Document = Mapping[str, Any]


def unified(before: Document | None, after: Document | None, name: str) -> str:
    """The diff from `before` to `after`, either of which may not be there.

    Empty when nothing would change.
    """
    lines = difflib.unified_diff(
        _text(before),
        _text(after),
        fromfile=f"live/{name}",
        tofile=f"wanted/{name}",
    )
    return "".join(lines)


def shortened(diff: str) -> str:
    """As many whole lines of a diff as fit into a status, without the two header lines."""
    lines = diff.splitlines()[2:]
    kept: list[str] = []
    size = 0
    for line in lines:
        if size + len(line) >= _MOST_DIFF_CHARACTERS:
            break
        kept.append(line)
        size += len(line) + 1
    more = len(lines) - len(kept)
    if more:
        kept.append(f"... {more} more lines")
    return "\n".join(kept).rstrip()


def _text(document: Document | None) -> list[str]:
    if document is None:
        return []
    import yaml  # noqa: PLC0415 - a controller without dry runs does not load it

    shown = dict(document)
    if "metadata" in document:  # a whole object, with a status that others write
        shown.pop("status", None)
        metadata = {}
        for key, value in document["metadata"].items():
            if key in _KEPT_METADATA:
                metadata[key] = value
        shown["metadata"] = metadata
    text: str = yaml.safe_dump(
        shown,
        default_flow_style=False,
        sort_keys=True,
        width=1000,
    )
    return text.splitlines(keepends=True)


class PublishersDryRun:
    """Runs the publishers that `make` returns for a client.

    They are new ones each time, so that none waits for anything.
    """

    def __init__(
        self,
        client: Caller,
        make: Callable[[Caller], Sequence[Publisher]],
        runtime: Runtime,
    ) -> None:
        self._answers = _Answers(client, runtime)
        self._make = make

    def publish(self, name: str, topology: Topology, levels: Sequence[Level]) -> Published:
        """What publishing would do. Raises KubeError when the server does not answer."""
        trial = _Trial(self._answers)
        publisher = self._publisher(name, trial)
        outcome = publisher.publish(topology, levels)
        return _report(trial, outcome)

    def retract(self, name: str, topology: Topology) -> Published | None:
        """What `Never` would delete; None when there is nothing of ours.

        Raises KubeError as above.
        """
        trial = _Trial(self._answers)
        publisher = self._publisher(name, trial)
        outcome = publisher.retract(topology)
        if outcome is not None:
            return _report(trial, outcome)

        for step in trial.steps:
            if step.before is not None:
                deleted = Published(
                    api_version=str(step.before["apiVersion"]),
                    kind=str(step.before["kind"]),
                    name=topology.name,
                )
                return _report(trial, deleted)
        return None

    def _publisher(self, name: str, client: Caller) -> Publisher:
        for publisher in self._make(client):
            if publisher.name == name:
                publisher.served()  # finds out which version there is
                return publisher
        raise LookupError(name)


@dataclass(frozen=True, slots=True)
class _Step:
    path: str
    before: Document | None
    after: Document | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the server said to a dry run, and until when that counts."""

    content: Any
    due: float


class _Answers:
    """Sends dry runs, and keeps the answers for a while: a difference may persist for days."""

    def __init__(self, client: Caller, runtime: Runtime) -> None:
        self.client = client
        self._runtime = runtime
        self._answers: dict[tuple[object, ...], _Answer] = {}

    def send(self, request: Request, version: str) -> Any:
        """The server's answer to a dry run of `request` on an object of that resourceVersion.

        Raises KubeError.
        """
        tried = (request.method, request.path, request.body, version)
        answer = self._answers.get(tried)
        if answer is not None and self._runtime.monotonic() < answer.due:
            content = answer.content
        else:
            content = self._ask(request)
            self._remember(tried, content)
        if isinstance(content, ApiError):
            raise content
        return content

    def _remember(self, tried: tuple[object, ...], content: Any) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        due = self._runtime.monotonic() + _FRESH_SECONDS
        self._answers[tried] = _Answer(content, due)

    def _ask(self, request: Request) -> Any:
        """The server's answer, an error too."""
        try:
            return self.client.call(_as_dry_run(request))
        except ApiError as error:
            return error


class _Trial:
    """The client of one dry run."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._after: dict[str, Document | None] = {}
        self.steps: list[_Step] = []

    def call(self, request: Request) -> Any:
        """Answer a read as if the writes before it had been made; dry-run a write, and record it.

        Raises KubeError.
        """
        path = request.path
        if request.method == "GET":
            return self._get(request)
        if "dryRun" in request.query:
            return self._answers.send(request, "")

        before = find(self, path)
        after = None
        if request.method != "DELETE":
            after = self._tried(request, before)
        self._after[path] = after
        self.steps.append(_Step(path, before, after))
        return after

    def _get(self, request: Request) -> Any:
        path = request.path
        if path not in self._after:
            return self._answers.client.call(request)
        after = self._after[path]
        if after is None:
            raise ApiError(_NOT_FOUND, "NotFound", f"{path} would be gone")
        return after

    def _tried(self, request: Request, before: Document | None) -> Any:
        # deleted a moment ago, and tried under another name before that
        if request.path in self._after:
            return msgspec.json.decode(request.body or b"")
        version = ""
        if before is not None:
            metadata = before["metadata"]
            version = str(metadata.get("resourceVersion"))
        return self._answers.send(request, version)

    def changes(self) -> "list[_Change]":
        """What would become of each object, in the order in which they are written first."""
        by_path: dict[str, list[_Step]] = {}
        for step in self.steps:
            steps = by_path.setdefault(step.path, [])
            steps.append(step)

        changes = []
        for path, steps in by_path.items():
            change = _Change(
                path=path,
                before=steps[0].before,
                after=steps[-1].after,
                is_replaced=len(steps) > 1,
            )
            changes.append(change)
        return changes


@dataclass(frozen=True, slots=True)
class _Change:
    """What would become of one object."""

    path: str
    before: Document | None
    after: Document | None
    is_replaced: bool

    @property
    def verb(self) -> str:
        if self.after is None:
            return "delete"
        if self.before is None:
            return "create"
        if self.is_replaced:
            return "delete and create again"
        return "change"

    @property
    def diff(self) -> str:
        name = self.path.removeprefix("/apis/")
        return unified(self.before, self.after, name)


def _report(trial: _Trial, outcome: Published) -> Published:
    """What a publisher returned, as a forecast with a diff."""
    if not outcome.is_in_sync:
        verb = "would wait" if outcome.reason == "Waiting" else "would not be written"
        message = f"{verb}: {outcome.message}"[:_MOST_MESSAGE_CHARACTERS]
        return replace(outcome, reason=DRY_RUN, message=message, again_in=None)

    changes = trial.changes()
    if not changes:
        return outcome
    diffs = [change.diff for change in changes]
    last = changes[-1]
    # For a new object, the handle says everything but the spec.
    inner = unified(_spec(last.before), _spec(last.after), "") or diffs[-1]
    several = ""
    number = len(changes)
    if number > _MOST_PATHS:
        several = f" {number} objects, the last of them"
    return replace(
        outcome,
        reason=DRY_RUN,
        message=f"would {last.verb}{several}:\n{shortened(inner)}",
        again_in=None,
        diff="".join(diffs),
    )


def _spec(document: Document | None) -> Document | None:
    if document is None:
        return None
    return {"spec": document.get("spec")}


def _as_dry_run(request: Request) -> Request:
    query = dict(request.query)
    query["dryRun"] = "All"
    return request._replace(query=query)


class ReadOnlyClient(ApiClient):
    """Sends reads, and writes that the server only checks (`dryRun=All`)."""

    def _about_to_send(self, request: Request) -> None:
        """Raise KubeError for what would change something."""
        if request.method != "GET" and request.query.get("dryRun") != "All":
            raise KubeError(f"--dry-run: {request.method} {request.path} is not sent")


class DryRunClient:
    """Shows once what each write would change, instead of making it.

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
        after = None
        if request.method != "DELETE":
            after = self._client.call(_as_dry_run(request))
        write = (request.method, request.path, request.body)
        if write not in self._shown:
            self._shown.add(write)
            self._show_change(request, after)
        return after

    def _show_change(self, request: Request, after: Any) -> None:
        before = None
        if request.method != "POST":
            before = find(self._client, request.path)
        name = request.path.removeprefix("/apis/")
        if before is None and after:
            created = after["metadata"]["name"]
            name = f"{name}/{created}"
        diff = unified(before, after, name)
        self._show(diff)
