"""All that the product decides over the suite's own tables, each by its case, and without its sentences.

tests/test_sentences.py compares them with those of a build whose sentences are codes.
"""

import contextlib
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from tests.agent import test_recordings
from tests.explain import test_diagnosis, test_pins, test_pod_steps
from tests.explain.causes import CAUSES
from tests.explain.explained import Explained, explain_in
from tests.explain.test_message_meanings import MESSAGES
from tests.explain.waiting import WaitingCluster
from tests.integrations import test_recorded_answers
from tests.support.agent_stories import stories
from tests.support.checking import checker_of, reading_of
from tests.support.cluster import History
from tests.support.machines import probed
from tests.support.paths import ROOT
from tests.support.recorded import CheckQuestion, Question, ReadQuestion, recorded
from tests.support.recorded_looks import recorded_looks, repeat_changes
from tests.support.runtime import ManualRuntime
from tests.support.sentences import blanked
from tests.support.simulated_node import Activity, SimulatedNode
from toposcope.agent.describe import Description, describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.controller.agent_pods import AgentPods
from toposcope.controller.assess.agents import AgentPodsSeen, AgentReports, agent_reports, agents_condition
from toposcope.explain.meanings import meaning
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.table import table_of
from toposcope.integrations.framework.system import Reading
from toposcope.kube.client import Request
from toposcope.placement.check import Checked
from toposcope.placement.document import DocumentAnswer, document_of
from toposcope.placement.without_cluster import WithoutCluster
from toposcope.simulator.profile import load_profile
from toposcope.simulator.recording import ReplayedNvml, load_recording, write_recorded_sysfs
from toposcope.snapshot.documents import Document
from toposcope.snapshot.problems import Place

Cases = Iterator[tuple[str, Any]]
Questions = Mapping[str, Question]


def _understood(reading: Reading | None) -> Any:
    """Findings without their words, and the workload without its notes."""
    if reading is None:
        return None
    findings = []
    for finding in reading.findings:
        has_fix = bool(finding.fix)
        findings.append([str(finding.severity), finding.rule, finding.field, has_fix])

    workloads = []
    if reading.workload:
        for workload in [reading.workload, *reading.stages]:
            workloads.append(_shown(workload))
    return {"findings": findings, "workloads": workloads}


def _shown(value: Any) -> Any:
    """A workload or a part of it, field by field."""
    if is_dataclass(value):
        return {part.name: _shown(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(map(_shown, value), key=repr)
    if isinstance(value, Mapping):
        return [[_shown(key), _shown(part)] for key, part in value.items()]
    if isinstance(value, (tuple, list)):
        return [_shown(part) for part in value]
    return value


def _checked(results: tuple[Checked, ...]) -> Any:
    """What `check` prints as JSON, how it read the workload, and its verdict."""
    workload = Document(Place("work.yaml"), "", "", b"")
    answer = DocumentAnswer(workload, results)
    return {
        "document": document_of([answer], ()),
        "read": [_understood(result.reading) for result in results],
        "verdicts": [_verdict(result) for result in results],
    }


def _verdict(result: Checked) -> Any:
    if result.verdict is None:
        return None
    kind = str(result.verdict.kind)
    return [kind, len(result.verdict.excluded)]


def documents_read(questions: Questions) -> Cases:
    """What each system makes of a document."""
    for name, question in questions.items():
        if isinstance(question, ReadQuestion):
            reading = reading_of(question.systems, question.document, question.cluster, question.before)
            yield name, _understood(reading)


def documents_without_a_cluster(questions: Questions) -> Cases:
    """What `check` says of a document alone."""
    for name, question in questions.items():
        if isinstance(question, ReadQuestion) and isinstance(question.document, dict):
            document = question.document
            alone = WithoutCluster(BUILT_IN, [document])
            results = alone.check(document)
            yield name, _checked(results)


def workloads_checked(questions: Questions) -> Cases:
    """Verdicts on workloads, on the clusters of their tests."""
    for name, question in questions.items():
        if isinstance(question, CheckQuestion):
            checker = checker_of(question)
            results = checker.check(question.workload)
            yield name, _checked(results)


def recorded_answers() -> Cases:
    """Verdicts where webhooks and schedulers answered."""
    yield from _answers_of_webhooks()
    yield from _answers_of_kai()
    yield from _answers_of_kueue()


def _answers_of_webhooks() -> Cases:
    answers = test_recorded_answers
    for case in answers.DYNAMO["cases"]:
        name = case["name"]
        result = answers.checked(answers.DYNAMOS, case["object"], case["old"])
        yield f"Dynamo {name}", _checked((result,))
    for case in answers.GROVE["create"]:
        name = case["name"]
        result = answers.checked(answers.GROVES, case["object"], None)
        yield f"Grove {name}", _checked((result,))
    for case in answers.GROVE["update"]:
        name = case["name"]
        result = answers.checked(answers.GROVES, case["new"], case["old"])
        yield f"Grove {name}", _checked((result,))


def _answers_of_kai() -> Cases:
    answers = test_recorded_answers
    for state in answers.KAI["states"]:
        objects = [*answers.KAI["cluster"], *state["nodes"], *state["pods"]]
        for case in state["cases"]:
            workload = case["workload"]
            name = workload["metadata"]["name"]
            snapshot = answers.cluster(*objects, *answers.pods_of(case))
            result = answers.checked(snapshot, workload)
            yield f"KAI {state['seed']} {name}", _checked((result,))


def _answers_of_kueue() -> Cases:
    answers = test_recorded_answers
    beside = answers.KUEUE["cluster"]
    for state in answers.KUEUE["states"]:
        snapshot = answers.cluster(*beside, *state["nodes"], *state["pods"])
        for case in state["cases"]:
            workload = case["workload"]
            name = workload["metadata"]["name"]
            result = answers.checked(snapshot, workload, None, *beside)
            yield f"Kueue {state['seed']} {name}", _checked((result,))


def waiting_workloads_explained() -> Cases:
    """Exit code, step that failed and answer for scripts of `explain`."""
    with tempfile.TemporaryDirectory() as folder:
        for cause in CAUSES:
            explained = explain_in(Path(folder), cause.build(), cause.subject)
            yield cause.name, [explained.code, explained.document]
        for module in (test_diagnosis, test_pins, test_pod_steps):
            for name, asks in _tests_of(module):
                explained = _explained_by(asks, Path(folder))
                yield name, [explained.code, explained.document]


def _tests_of(module: ModuleType) -> Iterator[tuple[str, Callable[..., None]]]:
    """Each test of a module, with the arguments of its parameters."""
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        for case, arguments in _parameters(test):
            yield f"{name} {case}", partial(test, **arguments)


def _parameters(test: Callable[..., None]) -> Iterator[tuple[str, dict[str, Any]]]:
    marks = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            marks.append(mark)
    for chosen in itertools.product(*map(_choices, marks)):
        cases = [case for case, _ in chosen]
        arguments: dict[str, Any] = {}
        for _, some in chosen:
            arguments |= some
        yield " ".join(cases), arguments


def _choices(mark: pytest.Mark) -> list[tuple[str, dict[str, Any]]]:
    """Each set of arguments of one `parametrize`, by its id."""
    names, parameters = mark.args
    if isinstance(names, str):
        names = [names]
    choices = []
    for number, parameter in enumerate(parameters):
        values = parameter
        case = str(number)
        if hasattr(parameter, "values"):
            values = parameter.values
            case = str(parameter.id)
        elif len(names) == 1:
            values = (parameter,)
        choices.append((case, dict(zip(names, values, strict=True))))
    return choices


def _explained_by(test: Callable[..., None], folder: Path) -> Explained:
    """What a test is told that asks once; it fails where it expects a sentence."""
    explanations: list[Explained] = []

    def explain(cluster: WaitingCluster, subject: str) -> Explained:
        explanations.append(explain_in(folder, cluster, subject))
        return explanations[-1]

    with contextlib.suppress(AssertionError):
        test(explain=explain)
    (explained,) = explanations
    return explained


def messages_of_schedulers() -> Cases:
    """Whether it is known what a message means."""
    for parameter in MESSAGES:
        message = str(parameter.values[0])
        yield str(parameter.id), bool(meaning(message))


def _looked(history: History, assessment: Any) -> Any:
    return [
        assessment.effective.path,
        _keys_of(assessment.publishable),
        _keys_of(assessment.bindable),
        assessment.unavailable,
        assessment.missed,
        history.status,
        [[event.is_warning, event.reason] for event in history.events],
    ]


def nodes_assessed() -> Cases:
    """Status, levels and Events of topologies over time, also of a controller that has just started at each look."""
    for name, looks in recorded_looks().items():
        for restarting in (False, True):
            history = History()
            for number, look in enumerate(looks):
                repeat_changes(history, look)
                if restarting:
                    history.restart(is_single_look=look.is_single)
                assessment = history.look(look.nodes, look.after, look.children)
                yield f"{name} {number} {restarting}", _looked(history, assessment)


def _keys_of(levels: Any) -> Any:
    """The keys of levels; no levels as they are."""
    if not levels:
        return levels
    return [level.key for level in levels]


class _DaemonSets:
    """A cluster whose agents' DaemonSet has pods on one of two nodes, and why it creates no more."""

    def __init__(self, *, is_refused: bool) -> None:
        self._is_refused = is_refused

    def call(self, request: Request) -> dict[str, Any]:
        """Answer a list of DaemonSets or of Events."""
        if "/daemonsets" in request.path:
            daemon_set = {
                "metadata": {"name": "agent", "uid": "u"},
                "status": {"currentNumberScheduled": 1, "desiredNumberScheduled": 2},
            }
            return {"items": [daemon_set], "metadata": {}}
        events = []
        if self._is_refused:
            refusal = {
                "message": "Error creating: forbidden",
                "lastTimestamp": "2026-01-01T00:00:00Z",
            }
            events.append(refusal)
        return {"items": events, "metadata": {}}


def agents_without_pods() -> Cases:
    """`AgentsReporting` with what the agents' DaemonSet tells, over all that is said of nodes."""
    for name, looks in recorded_looks().items():
        for number, look in enumerate(looks):
            reports = agent_reports(table_of(look.nodes, look.catalogue.placeholders))
            for is_refused in (False, True):
                yield f"{name} {number} {is_refused}", _with_pods(reports, is_refused=is_refused)


def _with_pods(reports: AgentReports, *, is_refused: bool) -> Any:
    daemon_sets = _DaemonSets(is_refused=is_refused)
    pods = AgentPodsSeen(AgentPods(daemon_sets, ManualRuntime(), "home").look())
    plain = agents_condition(reports)
    explained = agents_condition(reports, pods)
    is_explained = explained.message != plain.message
    return [explained.status, explained.reason, is_explained]


def _described(description: Description) -> Any:
    labels = dict(sorted(description.labels.by_key.items()))
    unknown = sorted(description.labels.unknown)
    topology = description.topology
    reasons = len(topology.reasons) if topology else bool(description.problem)
    return [labels, unknown, sorted(description.annotations), reasons]


def machines_described() -> Cases:
    """Labels of simulated and recorded machines."""
    profiles = ROOT / "toposcope/simulator/profiles"
    for profile in sorted(profiles.glob("*.yaml")):
        name = profile.stem
        machine = load_profile(name)
        with tempfile.TemporaryDirectory() as folder:
            raw = probed(machine, Path(folder))
            yield name, _described(describe(raw, "node"))
    for name in test_recordings.RECORDINGS:
        recording = load_recording(test_recordings.HERE / f"{name}.json")
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "sys"
            write_recorded_sysfs(recording, root)
            nvml = Nvml(ReplayedNvml(recording))
            raw = probe(nvml, Sysfs(root), nvml.start())
            yield name, _described(describe(raw, "node"))


def _lived(node: SimulatedNode, activity: Activity) -> Any:
    agent = node.agent
    return {
        "labels": node.labels,
        "events": activity.events,
        "written": [_described(description) for description in node.api.writes],
        "reads": activity.reads,
        "writes": activity.writes,
        "refused": activity.refused,
        "probes": activity.probes,
        "is_unhealthy": bool(agent.healthy()),
        "is_unready": bool(agent.ready()),
        "seconds_until_sync": agent.seconds_until_sync(),
    }


def stories_of_agents() -> Cases:
    """Labels, writes and Events of agents in trouble and out of it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, node, activity in stories(Path(folder)):
            yield name, _lived(node, activity)


DECISIONS_ON_QUESTIONS: tuple[Callable[[Questions], Cases], ...] = (
    documents_read,
    documents_without_a_cluster,
    workloads_checked,
)
"""On what other tests ask, see tests/support/recorded.py."""
DECISIONS: tuple[Callable[[], Cases], ...] = (
    recorded_answers,
    waiting_workloads_explained,
    messages_of_schedulers,
    nodes_assessed,
    agents_without_pods,
    machines_described,
    stories_of_agents,
)


def decide(file: str, question_file: str) -> None:
    """Write all decisions to a file as JSON, by function and case; an error ends its function and is its last case."""
    questions = recorded(Path(question_file))
    decided: dict[str, dict[str, Any]] = {}
    for on_questions in DECISIONS_ON_QUESTIONS:
        decided[on_questions.__name__] = _decided(on_questions(questions))
    for decision in DECISIONS:
        decided[decision.__name__] = _decided(decision())
    text = json.dumps(decided)
    Path(file).write_text(text, encoding="utf-8")


def _decided(cases: Cases) -> dict[str, Any]:
    decided: dict[str, Any] = {}
    try:
        for case, decision in cases:
            encoded = msgspec.json.encode(decision, enc_hook=str)
            decided[case] = blanked(json.loads(encoded))
    except Exception as error:  # noqa: BLE001 - whatever it is, it shows what went by a sentence
        decided["ended by"] = type(error).__name__
    return decided
