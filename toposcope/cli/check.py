"""Check workloads before you submit them: levels, the rules of each scheduler, and whether they would fit now."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from toposcope.cli.command import EPILOG, add_source_arguments, api_client, load_snapshot, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS, EXIT_UNCLEAR, CommandError
from toposcope.cli.output import show_document
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen, complain
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.dynamo.api import DEPLOYMENTS
from toposcope.integrations.framework.document import Field, Finding, kind_of
from toposcope.integrations.framework.system import Reading
from toposcope.integrations.framework.verdict import Verdict
from toposcope.integrations.grove.api import POD_CLIQUE_SETS
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError, KubeError, NoClusterError, UnreachableError
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import Answer, document_of, line_of
from toposcope.placement.sentences import advice, left_out, reasoning
from toposcope.placement.sentences import answer as in_words
from toposcope.snapshot.documents import Document, documents, kindless
from toposcope.snapshot.problems import InputError, Meter, Problem
from toposcope.text import plural

if TYPE_CHECKING:
    from toposcope.kube.client import ApiClient

_MARKS: Final = {
    "error": ("error", "red"),
    "warning": ("warning", "yellow"),
    "advice": ("advice", "cyan"),
}
_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""

_WITH_RULES: Final = {kind.key: kind for kind in (DEPLOYMENTS, POD_CLIQUE_SETS)}
"""Kinds that have rules about updates; others are not looked up."""

LIVE: Final = "live"
NONE: Final = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope check`."""
    about = (
        "workloads to check, JSON or YAML: a file, a directory, a pipe or - (standard input); can be repeated; OSMO "
        "pools and Run:ai network topologies in them apply to all"
    )
    parser.add_argument(
        "-f",
        "--filename",
        dest="workloads",
        action="append",
        required=True,
        metavar="FILE",
        help=about,
    )
    about = (
        "the existing objects, for rules about updates: files (kubectl get ... -o yaml), or live: those in the "
        "cluster. Default: live, and none with --from"
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="FILE|live|none", help=about
    )
    parser.add_argument(
        "--server",
        action="store_true",
        help="also ask the API server and its webhooks by a dry run, which stores nothing; needs the verbs get, create "
        "and patch; not with --from",
    )
    parser.add_argument(
        "--explain", action="store_true", help="show the reasoning, level by level, like -o wide"
    )
    add_source_arguments(parser, _OUTPUTS)
    parser.epilog = f"{EPILOG}; 3 nothing is wrong, but whether a workload fits is unclear"


@on_screen("check")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Check all workloads; 1 when one would be rejected or does not fit now, 3 when one is unclear."""
    if "-" in arguments.workloads and "-" in (arguments.files or ()):
        raise CommandError("standard input can hold the workloads or the cluster, not both")
    if arguments.server and arguments.files:
        raise CommandError(
            "--server asks the API server of a cluster, and --from reads files; leave one of them out"
        )
    problems: list[Problem] = []
    wanted = list(_objects(arguments.workloads, problems, arguments.from_limit))
    if not wanted and not problems:
        raise CommandError(
            f"there are no objects in {', '.join(arguments.workloads)}, so nothing was checked"
        )
    if not wanted:
        raise InputError(*problems)
    try:
        checker = Checker(
            load_snapshot(arguments, published=True), [values for _, values in wanted]
        )
        existing = _existing(arguments, [values for _, values in wanted], problems)
    except (NoClusterError, UnreachableError) as error:
        if problems:
            raise InputError(*problems) from error
        return _without_cluster(screen, arguments, wanted, error)
    remarks = _dry_runs(arguments, [values for _, values in wanted]) if arguments.server else {}
    answers = []
    with Progress(sys.stderr, doing="checking") as progress:
        for count, (document, values) in enumerate(wanted, 1):
            checked = checker.check(values, existing.get(key_of(values)))
            answers.append(
                Answer(document, _with_remarks(checked, remarks.get(count, ()), document.kind))
            )
            progress("workloads", count, count / len(wanted))
    return _shown(screen, arguments, answers, problems)


def _without_cluster(
    screen: Screen,
    arguments: argparse.Namespace,
    wanted: Sequence[tuple[Document, Mapping[str, Any]]],
    why: KubeError,
) -> int:
    """Check what needs no cluster, where there is none; 3 when nothing of that is wrong.

    Raises `why` where a cluster is configured and does not answer.
    """
    if arguments.server:
        raise why
    from toposcope.cli.catalogue import of_flags  # noqa: PLC0415 - only without a cluster
    from toposcope.placement.without_cluster import WithoutCluster  # noqa: PLC0415 - same

    checker = WithoutCluster(of_flags(arguments) or BUILT_IN, [values for _, values in wanted])
    answers = [Answer(document, checker.check(values)) for document, values in wanted]
    code = _shown(screen, arguments, answers, [])
    if not isinstance(why, NoClusterError):
        raise why
    complain(f"warning: checked without a cluster: {why}; or give saved files with --from")
    return code or EXIT_UNCLEAR


def _shown(
    screen: Screen,
    arguments: argparse.Namespace,
    answers: Sequence[Answer],
    problems: Sequence[Problem],
) -> int:
    """Print the answers; returns the exit code.

    Raises InputError, and CommandError where nothing was checked.
    """
    problems = [
        *problems,
        *(kindless(answer.document) for answer in answers if not _is_known(answer)),
    ]
    answers = [answer for answer in answers if _is_known(answer)]
    if arguments.output == "name":
        screen.show(
            c.reading.workload.handle
            for a in answers
            for c in a.checked
            if c.reading.workload and not c.well
        )
    elif arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document_of(answers, problems))
    else:
        screen.show(_page(screen, answers, explain=arguments.explain or arguments.output == "wide"))
    if problems:
        raise InputError(*problems)
    if not arguments.server and not any(answer.checked for answer in answers):
        kinds = ", ".join(sorted({answer.document.kind for answer in answers}))
        raise CommandError(f"nothing was checked: there are no rules for {kinds}")
    unwell = [checked for answer in answers for checked in answer.checked if not checked.well]
    return (
        EXIT_OK
        if not unwell
        else EXIT_UNCLEAR
        if all(checked.unclear for checked in unwell)
        else EXIT_PROBLEMS
    )


def _is_known(answer: Answer) -> bool:
    """Whether some system handles the document, or it at least has a kind."""
    return bool(answer.checked or answer.document.kind)


def _objects(
    names: Iterable[str], problems: list[Problem], limit: int
) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in these files; what cannot be read goes to `problems`."""
    names = list(names)
    meter = Meter(names)
    with Progress(sys.stderr) as progress:
        found = documents(names, problems.append, on_read=meter.read, limit=limit, of_any_kind=True)
        for count, document in enumerate(found, 1):
            progress(document.place.file, count, meter.share)
            try:
                yield document, document.read(dict)
            except InputError as error:
                problems.extend(error.problems)


def _existing(
    arguments: argparse.Namespace, wanted: Sequence[Mapping[str, Any]], problems: list[Problem]
) -> dict[Key, Mapping[str, Any]]:
    """The existing objects, by `key_of`."""
    against = arguments.against or [NONE if arguments.files else LIVE]
    if arguments.files and LIVE in against:
        raise CommandError(
            "--against live needs a cluster, and --from reads files; use --against FILE"
        )
    files = [name for name in against if name not in (LIVE, NONE)]
    existing = {
        key_of(values): values for _, values in _objects(files, problems, arguments.from_limit)
    }
    if LIVE in against:
        with api_client(arguments) as client, Progress(sys.stderr, doing="looking up") as progress:
            existing = _live_objects(client, wanted, progress) | existing
    return existing


def _dry_runs(
    arguments: argparse.Namespace, documents: Sequence[Mapping[str, Any]]
) -> dict[int, list[Finding]]:
    """What the API server says of each document, by its number from 1. Raises KubeError."""
    from toposcope.kube.dry_run import DryRun  # noqa: PLC0415 - not for files

    found: dict[int, list[Finding]] = {}
    with (
        api_client(arguments) as client,
        Progress(sys.stderr, doing="asking the API server about") as progress,
    ):
        server = DryRun(client, client.namespace or "default")
        for count, document in enumerate(documents, 1):
            progress("objects", count, count / len(documents))
            found[count] = [
                Finding(
                    "server", "error" if remark.refused else "warning", remark.field, remark.message
                )
                for remark in server.ask(document)
            ]
    return found


def _with_remarks(
    checked: Sequence[Checked], remarks: Sequence[Finding], kind: str
) -> tuple[Checked, ...]:
    """The first result with the server's findings, too; for a kind that no system handles, one of its own."""
    if not remarks:
        return tuple(checked)
    first, *others = checked or (Checked(Reading(subject=kind), None),)
    findings = (*first.reading.findings, *remarks)
    return (replace(first, reading=replace(first.reading, findings=findings)), *others)


def _page(screen: Screen, answers: Sequence[Answer], *, explain: bool) -> Iterator[str]:
    counts = {"error": 0, "warning": 0, "advice": 0}
    unfit = unclear = 0
    skipped = [answer.document.kind for answer in answers if not answer.checked]
    for answer in answers:
        for checked in answer.checked:
            yield screen.paint(_title(answer.document, checked), "bold")
            for finding in checked.reading.findings:
                counts[finding.severity] += 1
                yield from _finding(screen, answer.document, finding)
            if checked.verdict:
                unfit += checked.verdict.kind in {"full", "never"}
                unclear += checked.verdict.kind == "unclear"
                yield from _verdict(screen, checked.verdict, explain=explain)
            if checked.reading.workload:
                yield from (f"  note: {note}" for note in checked.reading.workload.notes)
    checked_count = sum(len(answer.checked) for answer in answers)
    summary = [f"{checked_count} {plural(checked_count, 'workload')} checked"]
    summary += [
        f"{count} {name if name == 'advice' else plural(count, name)}"
        for name, count in counts.items()
        if count
    ]
    summary += [f"{unfit} without room"] * bool(unfit) + [f"{unclear} unclear"] * bool(unclear)
    if skipped:
        kinds = ", ".join(sorted(set(skipped)))
        summary.append(
            f"{len(skipped)} {plural(len(skipped), 'object')} of other kinds skipped ({kinds})"
        )
    yield ", ".join(summary)


def _title(document: Document, checked: Checked) -> str:
    workload = checked.reading.workload
    if workload is None:
        return f"{document.place}: {document.kind or checked.reading.subject}"
    about = (
        f"{workload.system}, topology {workload.topology}" if workload.topology else workload.system
    )
    return f"{document.place}: {workload.handle} ({about})"


def _finding(screen: Screen, document: Document, finding: Finding) -> Iterator[str]:
    word, style = _MARKS[finding.severity]
    line = line_of(document, finding.field)
    where = f"{finding.field} (line {line})".lstrip() if line else finding.field
    yield "  " + ": ".join(filter(None, (screen.paint(word, style), where, finding.message)))
    if finding.fix:
        yield f"    {finding.fix}"


def _verdict(screen: Screen, verdict: Verdict, *, explain: bool) -> Iterator[str]:
    style = {"fits": "green", "full": "yellow", "never": "red", "unclear": "yellow"}[verdict.kind]
    head, _, rest = in_words(verdict).partition(":")
    yield f"  {screen.paint(head, style)}:{rest}"
    yield from (f"    {line}" for line in advice(verdict))
    if explain:
        yield from (f"    {line}" for line in reasoning(verdict))
    if explain or verdict.kind != "fits":
        yield from (f"    {line}" for line in left_out(verdict))


def key_of(values: Mapping[str, Any]) -> Key:
    """What identifies the object in the cluster."""
    metadata = Field(values) / "metadata"
    name = (metadata / "name").text() or values.get("name")
    return str(values.get("kind")), (metadata / "namespace").text() or "", str(name)


def _live_objects(
    client: "ApiClient", documents: Sequence[Mapping[str, Any]], progress: Progress
) -> dict[Key, Mapping[str, Any]]:
    """The documents' objects as they are in the cluster, in the same API version. Raises KubeError.

    Missing permissions are reported on standard error, once per kind.
    """
    existing: dict[Key, Mapping[str, Any]] = {}
    forbidden: set[tuple[str, str]] = set()
    for count, document in enumerate(documents, 1):
        progress("existing objects", count, count / len(documents))
        kind = _WITH_RULES.get(kind_of(document))
        name = (Field(document) / "metadata" / "name").text()
        if kind is None or name is None or kind.key in forbidden:
            continue
        try:
            there = _get(client, kind, document, name)
        except ApiError as error:
            if not error.forbidden:
                raise
            forbidden.add(kind.key)
            text = (
                f"these credentials cannot read {kind.name}, so rules about updates are not checked"
            )
            complain(f"warning: {text}; pass the objects with --against FILE")
            continue
        if there is not None:
            existing[key_of(document)] = there
    return existing


def _get(
    client: "ApiClient", kind: Kind, document: Mapping[str, Any], name: str
) -> Mapping[str, Any] | None:
    from toposcope.kube.client import find  # noqa: PLC0415 - not for files

    namespace = (Field(document) / "metadata" / "namespace").text() or client.namespace or "default"
    collection = f"/apis/{quote(str(document['apiVersion']))}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
    return find(client, f"{collection}/{quote(name, safe='')}")
