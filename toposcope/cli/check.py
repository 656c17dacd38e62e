"""Check workloads before they are submitted: levels, the rules of each scheduler, and whether they would fit now."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from toposcope.cli.documents import show_document
from toposcope.cli.existing import Key, existing, key_of
from toposcope.cli.failing import CommandError
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, connected, look
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen
from toposcope.integrations.framework.document import Finding
from toposcope.placement.check import Checked, Checker
from toposcope.placement.document import Answer, document_of, line_of
from toposcope.placement.sentences import advice, left_out, reasoning
from toposcope.placement.sentences import answer as in_words
from toposcope.placement.verdict import Verdict
from toposcope.snapshot.documents import Document, all_documents, kindless
from toposcope.snapshot.problems import InputError, Meter, Problem

_MARKS: Final = {"error": ("error", "red"), "warning": ("warning", "yellow"), "advice": ("advice", "cyan")}
_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")

LIVE: Final = "live"
NONE: Final = "none"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope check`."""
    parser.add_argument(
        "-f",
        "--filename",
        dest="workloads",
        action="append",
        required=True,
        metavar="FILE",
        help=(
            "workloads to check, JSON or YAML: a file, a directory or - (standard input); may be given several times; "
            "OSMO pools and Run:ai network topologies in them count for all"
        ),
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="FILE|live|none",
        help="the same objects as they are, for rules about changes: files (kubectl get ... -o yaml), or live: the "
        "cluster's own. Default: live, and none with --from",
    )
    parser.add_argument("--explain", action="store_true", help="show the reasoning, level by level; so does -o wide")
    add_source_arguments(parser, _OUTPUTS)


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Check all workloads; 1 when one would be refused, or does not fit now."""
    return answer("check", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    if "-" in arguments.workloads and "-" in (arguments.files or ()):
        raise CommandError("standard input can hold the workloads or the cluster, not both")
    problems: list[Problem] = []
    wanted = list(_objects(arguments.workloads, problems))
    if not wanted and not problems:
        raise CommandError(f"there is no object in {', '.join(arguments.workloads)}, so nothing was checked")
    before = _before(arguments, [values for _, values in wanted], problems)
    checker = Checker(look(arguments, published=True), [values for _, values in wanted])
    answers = []
    with Progress(sys.stderr, doing="checking") as progress:
        for count, (document, values) in enumerate(wanted, 1):
            answers.append(Answer(document, checker.check(values, before.get(key_of(values)))))
            progress("workloads", count, count / len(wanted))
    problems += [kindless(each.document) for each in answers if not _is_known(each)]
    answers = [each for each in answers if _is_known(each)]
    if arguments.output == "name":
        screen.show(
            f"{c.reading.workload.handle}" for a in answers for c in a.checked if c.reading.workload and not c.well
        )
    elif arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document_of(answers, problems))
    else:
        screen.show(_page(screen, answers, explain=arguments.explain or arguments.output == "wide"))
    if problems:
        raise InputError(*problems)
    return WELL if all(each.well for each in answers) else UNWELL


def _is_known(answer: Answer) -> bool:
    """Whether somebody claims the document, or it at least says what it is."""
    return bool(answer.checked or answer.document.kind)


def _objects(names: Iterable[str], problems: list[Problem]) -> Iterator[tuple[Document, Mapping[str, Any]]]:
    """The objects in these files; what cannot be read goes to `problems`."""
    names = list(names)
    meter = Meter(names)
    with Progress(sys.stderr) as progress:
        for count, document in enumerate(all_documents(names, problems.append, on_read=meter.read), 1):
            progress(document.place.file, count, meter.share)
            try:
                yield document, document.read(dict)
            except InputError as error:
                problems.extend(error.problems)


def _before(
    arguments: argparse.Namespace, wanted: Sequence[Mapping[str, Any]], problems: list[Problem]
) -> dict[Key, Mapping[str, Any]]:
    """The objects as they are, by what finds them again."""
    against = arguments.against or [NONE if arguments.files else LIVE]
    if arguments.files and LIVE in against:
        raise CommandError("--against live asks a cluster, and --from looks at files; give --against FILE")
    files = [name for name in against if name not in (LIVE, NONE)]
    found = {key_of(values): values for _, values in _objects(files, problems)}
    if LIVE in against:
        with connected(arguments) as client, Progress(sys.stderr, doing="looking up") as progress:
            found = existing(client, wanted, progress) | found
    return found


def _page(screen: Screen, answers: Sequence[Answer], *, explain: bool) -> Iterator[str]:
    counts = {"error": 0, "warning": 0, "advice": 0}
    unfit = 0
    passed_over = [each.document.kind for each in answers if not each.checked]
    for each in answers:
        for checked in each.checked:
            yield screen.paint(_title(each.document, checked), "bold")
            for finding in checked.reading.findings:
                counts[finding.severity] += 1
                yield from _finding(screen, each.document, finding)
            if checked.verdict:
                unfit += checked.verdict.kind in {"full", "never"}
                yield from _verdict(screen, checked.verdict, explain=explain)
            if checked.reading.workload:
                yield from (f"  note: {note}" for note in checked.reading.workload.notes)
    checked_count = sum(len(each.checked) for each in answers)
    summary = [f"{checked_count} {_plural(checked_count, 'workload')} checked"]
    summary += [
        f"{count} {name if name == 'advice' else _plural(count, name)}" for name, count in counts.items() if count
    ]
    summary += [f"{unfit} without room"] * bool(unfit)
    if passed_over:
        kinds = ", ".join(sorted(set(passed_over)))
        summary.append(f"{len(passed_over)} {_plural(len(passed_over), 'object')} of other kinds passed over ({kinds})")
    yield ", ".join(summary)


def _title(document: Document, checked: Checked) -> str:
    workload = checked.reading.workload
    if workload is None:
        return f"{document.place}: {document.kind or checked.reading.subject}"
    about = f"{workload.system}, topology {workload.topology}" if workload.topology else workload.system
    return f"{document.place}: {workload.handle} ({about})"


def _finding(screen: Screen, document: Document, finding: Finding) -> Iterator[str]:
    word, style = _MARKS[finding.severity]
    line = line_of(document, finding.field)
    where = f"{finding.field} (line {line})" if line else finding.field
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


def _plural(count: int, word: str) -> str:
    return word if count == 1 or word == "advice" else f"{word}s"
