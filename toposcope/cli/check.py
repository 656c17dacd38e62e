"""Check workloads before you submit them: levels, the rules of each scheduler,
and whether they would fit now.
"""  # noqa: D205 - a paragraph of --help

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from toposcope.cli.command import EPILOG, add_source_arguments, api_client, load_snapshot, on_screen
from toposcope.cli.errors import EXIT_OK, EXIT_PROBLEMS, EXIT_UNCLEAR, CommandError
from toposcope.cli.output import show_document
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import Screen, complain
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.integrations.framework.document import Field, Finding, kind_of
from toposcope.integrations.framework.pod_kinds import LIMIT_RANGES, QUOTAS
from toposcope.integrations.framework.system import ClusterFacts, Reading
from toposcope.integrations.framework.verdict import Verdict
from toposcope.integrations.registry import CHANGES_CHECKED
from toposcope.kube.discovery import Kind
from toposcope.kube.errors import ApiError, KubeError, NoClusterError, UnreachableError
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import DocumentAnswer, document_of, line_of
from toposcope.placement.sentences import HEADS, advice, grounds, left_out, reasoning, unread_lines
from toposcope.snapshot.documents import Document, documents, kindless
from toposcope.snapshot.problems import InputError, Meter, Problem
from toposcope.text import plural

if TYPE_CHECKING:
    from toposcope.kube.client import ApiClient
    from toposcope.kube.dry_run import Remark

_MARKS: Final = {
    "error": ("error", "red"),
    "warning": ("warning", "yellow"),
    "advice": ("advice", "cyan"),
}
_VERDICT_STYLES: Final = {"fits": "green", "full": "yellow", "never": "red", "unclear": "yellow"}
_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""

_WITH_RULES: Final = {kind.key: kind for kind in CHANGES_CHECKED}
"""Kinds that have rules about updates; others are not looked up."""

LIVE: Final = "live"
NONE: Final = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope check`."""
    about = (
        "workloads to check, JSON or YAML: a file, a directory, a pipe or - (standard input); "
        "can be repeated; OSMO pools and Run:ai network topologies in them apply to all"
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
        "the existing objects, for rules about updates: files (kubectl get ... -o yaml), "
        "or live: those in the cluster. Default: live, and none with --from"
    )
    parser.add_argument(
        "--against", action="append", default=[], metavar="FILE|live|none", help=about
    )
    parser.add_argument(
        "--server",
        action="store_true",
        help="also ask the API server and its webhooks by a dry run, which stores nothing; "
        "needs the verbs get, create and patch; not with --from",
    )
    parser.add_argument(
        "--explain", action="store_true", help="show the reasoning, level by level, like -o wide"
    )
    add_source_arguments(parser, _OUTPUTS)
    parser.epilog = (
        f"{EPILOG}; 3 nothing is wrong, but whether a workload fits is unclear, "
        "or nothing was checked"
    )


@on_screen("check")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Check all workloads; 1 when one is rejected or does not fit now.

    3 when one is unclear, or when there was nothing to check in them.
    """
    _check_flags(arguments)
    problems: list[Problem] = []
    objects = list(_objects(arguments.workloads, problems, arguments.from_limit))
    if not objects:
        if problems:
            raise InputError(*problems)
        raise CommandError(
            f"there are no objects in {', '.join(arguments.workloads)}, so nothing was checked"
        )

    documents = [values for _, values in objects]
    try:
        checker = Checker(load_snapshot(arguments, has_published=True), documents)
        existing = _existing(arguments, documents, problems)
    except (NoClusterError, UnreachableError) as error:
        if problems:
            raise InputError(*problems) from error
        return _without_cluster(screen, arguments, objects, error)

    if arguments.files:
        _note_missing_limits(checker.facts)
    remarks = _dry_runs(arguments, documents) if arguments.server else {}
    answers = []
    with ProgressLine(sys.stderr, doing="checking") as progress:
        for count, (document, values) in enumerate(objects, 1):
            checked = checker.check(values, existing.get(key_of(values)))
            checked = _with_remarks(checked, remarks.get(count, ()), document.kind)
            answers.append(DocumentAnswer(document, checked))
            progress("workloads", count, count / len(objects))

    code = _shown(screen, arguments, answers, problems)
    return code or _without_pods(answers)


def _without_pods(answers: Sequence[DocumentAnswer]) -> int:
    """3 where no room was looked for, because no workload has pods; else 0."""
    results = list(_results(answers))
    if not results or not all(checked.has_no_pods for checked in results):
        return EXIT_OK
    complain("toposcope check: room was not checked: the workloads request no pods")
    return EXIT_UNCLEAR


def _note_missing_limits(facts: ClusterFacts) -> None:
    """Print which kinds that change all pods the files lack.

    Of a live cluster a missing right is reported instead.
    """
    missing = []
    for kind in (LIMIT_RANGES, QUOTAS):
        if not facts.surroundings.knows_all(kind):
            missing.append(kind)
    if missing:
        kinds = " or ".join(f"{kind.kind}s" for kind in missing)
        names = ",".join(kind.name for kind in missing)
        complain(
            f"note: the files have no {kinds}, so their defaults and limits are not checked; "
            f"if the cluster has any, save them too: kubectl get {names} -A -o yaml"
        )


def _check_flags(arguments: argparse.Namespace) -> None:
    """Raise CommandError where flags do not belong together."""
    if "-" in arguments.workloads and arguments.files and "-" in arguments.files:
        raise CommandError("standard input can hold the workloads or the cluster, not both")
    if arguments.server and arguments.files:
        raise CommandError(
            "--server asks the API server of a cluster, and --from reads files; "
            "leave one of them out"
        )


def _without_cluster(
    screen: Screen,
    arguments: argparse.Namespace,
    objects: Sequence[tuple[Document, Mapping[str, Any]]],
    why: KubeError,
) -> int:
    """Check what needs no cluster; 3 where nothing of that is wrong.

    Raises `why` where a cluster is configured and does not answer.
    """
    if arguments.server:
        raise why

    from toposcope.cli.catalogue import of_flags  # noqa: PLC0415 - only without a cluster
    from toposcope.placement.without_cluster import WithoutCluster  # noqa: PLC0415 - same

    catalogue = of_flags(arguments) or BUILT_IN
    checker = WithoutCluster(catalogue, [values for _, values in objects])
    answers = []
    for document, values in objects:
        answers.append(DocumentAnswer(document, checker.check(values)))

    code = _shown(screen, arguments, answers, [])
    if not isinstance(why, NoClusterError):
        raise why

    complain(f"warning: checked without a cluster: {why}; or give saved files with --from")
    return code or EXIT_UNCLEAR


def _shown(
    screen: Screen,
    arguments: argparse.Namespace,
    answers: Sequence[DocumentAnswer],
    problems: Sequence[Problem],
) -> int:
    """Print the answers; returns the exit code.

    Raises InputError.
    """
    with_kind = []
    problems = list(problems)
    for answer in answers:
        if answer.checked or answer.document.kind:
            with_kind.append(answer)
        else:
            problems.append(kindless(answer.document))

    _print(screen, arguments, with_kind, problems)
    if problems:
        raise InputError(*problems)

    results = list(_results(with_kind))
    if not results:
        kinds = ", ".join(sorted({answer.document.kind for answer in with_kind}))
        complain(f"toposcope check: nothing was checked: there are no rules for {kinds}")
        return EXIT_UNCLEAR
    return exit_code(results)


def _print(
    screen: Screen,
    arguments: argparse.Namespace,
    answers: Sequence[DocumentAnswer],
    problems: Sequence[Problem],
) -> None:
    if arguments.output == "name":
        screen.show(_unwell_names(answers))
    elif arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document_of(answers, problems))
    else:
        has_reasoning = arguments.explain or arguments.output == "wide"
        screen.show(_page(screen, answers, has_reasoning=has_reasoning))


def exit_code(results: Sequence[Checked]) -> int:
    """0 if all is well, 1 if anything is wrong, 3 if nothing is wrong but something is unclear."""
    code = EXIT_OK
    for checked in results:
        if checked.is_ok:
            continue
        if not checked.is_unclear:
            return EXIT_PROBLEMS
        code = EXIT_UNCLEAR
    return code


def _results(answers: Sequence[DocumentAnswer]) -> Iterator[Checked]:
    for answer in answers:
        yield from answer.checked


def _unwell_names(answers: Sequence[DocumentAnswer]) -> Iterator[str]:
    for checked in _results(answers):
        if checked.reading.workload and not checked.is_ok:
            yield checked.reading.workload.handle


def _objects(
    names: Sequence[str], problems: list[Problem], limit: int
) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in these files; what cannot be read goes to `problems`."""
    meter = Meter(names)
    with ProgressLine(sys.stderr) as progress:
        objects = documents(
            names, problems.append, on_read=meter.read, limit=limit, can_lack_kind=True
        )
        for count, document in enumerate(objects, 1):
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

    files = []
    for name in against:
        if name not in (LIVE, NONE):
            files.append(name)
    existing: dict[Key, Mapping[str, Any]] = {}
    for _, values in _objects(files, problems, arguments.from_limit):
        existing[key_of(values)] = values

    if LIVE in against:
        with (
            api_client(arguments) as client,
            ProgressLine(sys.stderr, doing="looking up") as progress,
        ):
            existing = _live_objects(client, wanted, progress) | existing
    return existing


def _dry_runs(
    arguments: argparse.Namespace, documents: Sequence[Mapping[str, Any]]
) -> dict[int, list[Finding]]:
    """The API server's findings about each document, by its number from 1. Raises KubeError."""
    from toposcope.kube.dry_run import DryRun  # noqa: PLC0415 - not for files

    findings: dict[int, list[Finding]] = {}
    with (
        api_client(arguments) as client,
        ProgressLine(sys.stderr, doing="asking the API server about") as progress,
    ):
        server = DryRun(client, client.namespace or "default")
        for count, document in enumerate(documents, 1):
            progress("objects", count, count / len(documents))
            findings[count] = [_finding_of(remark) for remark in server.ask(document)]
    return findings


def _finding_of(remark: "Remark") -> Finding:
    if remark.is_refused:
        return Finding("server", "error", remark.field, remark.message)
    return Finding("server", "warning", remark.field, remark.message)


def _with_remarks(
    checked: Sequence[Checked], remarks: Sequence[Finding], kind: str
) -> tuple[Checked, ...]:
    """The results, with the server's findings added to the first.

    A kind that no system handles gets a result of its own.
    """
    if not remarks:
        return tuple(checked)
    first, *rest = checked or (Checked(Reading(subject=kind), None),)
    findings = (*first.reading.findings, *remarks)
    reading = replace(first.reading, findings=findings)
    return replace(first, reading=reading), *rest


def _page(
    screen: Screen, answers: Sequence[DocumentAnswer], *, has_reasoning: bool
) -> Iterator[str]:
    for answer in answers:
        for checked in answer.checked:
            yield from _lines(screen, answer.document, checked, has_reasoning=has_reasoning)
    yield ", ".join(_summary(answers))


def _lines(
    screen: Screen, document: Document, checked: Checked, *, has_reasoning: bool
) -> Iterator[str]:
    """What is said of one workload."""
    yield screen.paint(_title(document, checked), "bold")
    name = _name(document, checked)
    for finding in checked.reading.findings:
        yield from _finding(screen, document, finding, name)
    for line in unread_lines(checked.unread, partial(line_of, document)):
        yield f"  {line}"
    if checked.verdict:
        yield from _verdict(screen, checked.verdict, has_reasoning=has_reasoning)
    if checked.reading.workload:
        for note in checked.reading.workload.notes:
            yield f"  note: {note}"


def _summary(answers: Sequence[DocumentAnswer]) -> Iterator[str]:
    """The parts of the last line."""
    results = list(_results(answers))
    count = len(results)
    workloads = plural(count, "workload")
    yield f"{count} {workloads} checked"
    yield from _findings_counted(results)
    yield from _verdicts_counted(results)

    skipped = []
    for answer in answers:
        if not answer.checked:
            skipped.append(answer.document.kind)
    if skipped:
        objects = plural(len(skipped), "object")
        kinds = ", ".join(sorted(set(skipped)))
        yield f"{len(skipped)} {objects} of other kinds skipped ({kinds})"


def _findings_counted(results: Sequence[Checked]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for checked in results:
        for finding in checked.reading.findings:
            counts[finding.severity] += 1
    for severity in _MARKS:
        count = counts[severity]
        if count:
            several = "advice" if severity == "advice" else ""
            yield f"{count} {plural(count, severity, several)}"


def _verdicts_counted(results: Sequence[Checked]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for checked in results:
        if checked.verdict:
            counts[checked.verdict.kind] += 1

    without_room = counts["full"] + counts["never"]
    if without_room:
        yield f"{without_room} without room"
    if counts["unclear"]:
        yield f"{counts['unclear']} unclear"


def _title(document: Document, checked: Checked) -> str:
    workload = checked.reading.workload
    title = f"{document.place}: {_name(document, checked)}"
    if workload is None or not workload.system:
        return title
    about = workload.system
    if workload.topology:
        about += f", topology {workload.topology}"
    return f"{title} ({about})"


def _name(document: Document, checked: Checked) -> str:
    """What a document is called."""
    workload = checked.reading.workload
    if workload is None:
        return document.kind or checked.reading.subject
    return workload.handle


def _finding(screen: Screen, document: Document, finding: Finding, name: str) -> Iterator[str]:
    """One finding; those of no field are of the document, which has this name."""
    word, style = _MARKS[finding.severity]
    where = finding.field or name
    line = line_of(document, finding.field)
    if line:
        where = f"{where} (line {line})"
    parts = [screen.paint(word, style), where]
    if finding.message:
        parts.append(finding.message)

    yield f"  {': '.join(parts)}"
    if finding.fix:
        yield f"    {finding.fix}"


def _verdict(screen: Screen, verdict: Verdict, *, has_reasoning: bool) -> Iterator[str]:
    head = screen.paint(HEADS[verdict.kind], _VERDICT_STYLES[verdict.kind])
    yield f"  {head}: {grounds(verdict)}"

    lines = list(advice(verdict))
    if has_reasoning:
        lines += reasoning(verdict)
    if has_reasoning or verdict.kind != "fits":
        lines += left_out(verdict)
    for line in lines:
        yield f"    {line}"


def key_of(values: Mapping[str, Any]) -> Key:
    """The key that identifies the object in the cluster."""
    metadata = Field(values) / "metadata"
    namespace = metadata / "namespace"
    name = metadata / "name"
    name_text = name.text() or values.get("name")
    return str(values.get("kind")), namespace.text() or "", str(name_text)


def _live_objects(
    client: "ApiClient", documents: Sequence[Mapping[str, Any]], progress: ProgressLine
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
            existing_object = _get(client, kind, document, name)
        except ApiError as error:
            if not error.is_forbidden:
                raise
            forbidden.add(kind.key)
            complain(
                f"warning: these credentials cannot read {kind.name}, so rules about updates "
                "are not checked; pass the objects with --against FILE"
            )
            continue
        if existing_object is not None:
            existing[key_of(document)] = existing_object
    return existing


def _get(
    client: "ApiClient", kind: Kind, document: Mapping[str, Any], name: str
) -> Mapping[str, Any] | None:
    from toposcope.kube.client import find  # noqa: PLC0415 - not for files

    written = Field(document) / "metadata" / "namespace"
    namespace = written.text() or client.namespace or "default"
    api = quote(str(document["apiVersion"]))
    namespace_part = quote(namespace, safe="")
    name_part = quote(name, safe="")
    path = f"/apis/{api}/namespaces/{namespace_part}/{kind.plural}/{name_part}"
    return find(client, path)
