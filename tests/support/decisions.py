"""All that the product decides over the suite's own tables, each by its case, and without its sentences.

tests/test_sentences.py compares them with those of a build whose sentences are codes.
"""

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from tests.agent import test_recordings
from tests.controller import test_assess
from tests.explain.causes import CAUSES, QUESTIONS
from tests.explain.test_observed import Message
from tests.integrations import test_recorded_answers
from tests.support.agent_stories import stories
from tests.support.checking import checker_of, reading_of
from tests.support.cluster import History
from tests.support.machines import probed
from tests.support.paths import ROOT
from tests.support.recorded import CheckQuestion, Question, ReadQuestion, recorded
from tests.support.runtime import ManualRuntime
from tests.support.saved import saved
from tests.support.sentences import blanked
from tests.support.simulated_node import Activity, SimulatedNode
from tests.support.tables import rows
from toposcope.agent.describe import Description, describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.cli.main import main as toposcope
from toposcope.controller.agent_pods import AgentPods
from toposcope.controller.assess.agents import AgentReports, agent_reports, agents_condition
from toposcope.explain.diagnosis import meaning
from toposcope.hierarchy.catalogue import BUILT_IN
from toposcope.hierarchy.table import table_of
from toposcope.integrations.framework.system import Reading
from toposcope.kube.client import Request
from toposcope.placement.check import Checked
from toposcope.placement.document import Answer, document_of
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
    found = [[str(finding.severity), finding.rule, finding.field, bool(finding.fix)] for finding in reading.findings]
    workloads = [reading.workload, *reading.stages] if reading.workload else []
    return {"findings": found, "workloads": [_shown(workload) for workload in workloads]}


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


def _checked(answered: tuple[Checked, ...]) -> Any:
    document = document_of([Answer(Document(Place("work.yaml"), "", "", b""), answered)], ())
    read = [_understood(each.reading) for each in answered]
    verdicts = [each.verdict and [str(each.verdict.kind), len(each.verdict.excluded)] for each in answered]
    return {"document": document, "read": read, "verdicts": verdicts}


def documents_read(asked: Questions) -> Cases:
    """What each system makes of a document."""
    for name, question in asked.items():
        if isinstance(question, ReadQuestion):
            reading = reading_of(question.systems, question.document, question.cluster, question.before)
            yield name, _understood(reading)


def documents_without_a_cluster(asked: Questions) -> Cases:
    """What `check` says of a document alone."""
    for name, question in asked.items():
        if isinstance(question, ReadQuestion) and isinstance(question.document, dict):
            alone = WithoutCluster(BUILT_IN, [question.document])
            yield name, _checked(alone.check(question.document))


def workloads_checked(asked: Questions) -> Cases:
    """Verdicts on workloads, on the clusters of their tests."""
    for name, question in asked.items():
        if isinstance(question, CheckQuestion):
            yield name, _checked(checker_of(question).check(question.workload))


def recorded_answers() -> Cases:
    """Verdicts where webhooks and schedulers answered."""
    of = test_recorded_answers
    for case in of.DYNAMO["cases"]:
        yield f"Dynamo {case['name']}", _checked((of.checked(of.DYNAMOS, case["object"], case["old"]),))
    for case in [*of.GROVE["create"], *of.GROVE["update"]]:
        document = case.get("object") or case["new"]
        yield f"Grove {case['name']}", _checked((of.checked(of.GROVES, document, case.get("old")),))
    for state in of.KAI["states"]:
        for case in state["cases"]:
            snapshot = of.cluster(*of.KAI["cluster"], *state["nodes"], *state["pods"], *of.pods_of(case))
            yield (
                f"KAI {state['seed']} {case['workload']['metadata']['name']}",
                _checked((of.checked(snapshot, case["workload"]),)),
            )
    for state in of.KUEUE["states"]:
        snapshot = of.cluster(*of.KUEUE["cluster"], *state["nodes"], *state["pods"])
        for case in state["cases"]:
            found = of.checked(snapshot, case["workload"], None, *of.KUEUE["cluster"])
            yield f"Kueue {state['seed']} {case['workload']['metadata']['name']}", _checked((found,))


def waiting_workloads_explained() -> Cases:
    """Exit code, step that failed and answer for scripts of `explain`."""
    asked = [(cause.name, cause) for cause in CAUSES]
    asked += [(str(question.id), question.values[0]) for question in QUESTIONS]  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        for name, cause in asked:
            file.write_text(saved(cause.objects()), encoding="utf-8")
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                code = toposcope(["explain", cause.subject, "--from", str(file), "-o", "json"])
            yield name, [code, json.loads(said.getvalue())]


def messages_of_schedulers() -> Cases:
    """Whether it is known what a message means."""
    for row in rows("scheduler_messages.yaml", Message):
        yield row.text or "no text", bool(meaning(row.text))


def _looked(history: History, found: Any) -> Any:
    levels = found.publishable and [level.key for level in found.publishable]
    bound = found.bindable and [level.key for level in found.bindable]
    events = [[event.warning, event.reason] for event in history.events]
    return [found.effective.path, levels, bound, found.unavailable, found.missed, history.status, events]


def nodes_assessed() -> Cases:
    """Status, levels and Events of topologies over time, also of a controller that has just started at each look."""
    for row in rows("assessed.yaml", test_assess.Assessed):
        for restarting in (False, True):
            history, nodes = History(), []
            for number, look in enumerate((row, *row.then)):
                test_assess.change(history, look)
                if restarting:
                    history.restart()
                if look.nodes is not None:
                    nodes = [node for group in look.nodes for node in group.nodes()]
                found = history.look(nodes, look.after)
                yield f"{row.case} {number} {restarting}", _looked(history, found)


def required_levels() -> Cases:
    """Whether a required level is available over time, with restarts in between."""
    for row in rows("availability.yaml", test_assess.Course):
        history = History(required=["rack"], gracePeriod="1m")
        for number, step in enumerate(row.steps.split(", ")):
            match step.split():
                case ["restart"]:
                    history.restart()
                case ["retain"]:
                    history.spec["removalPolicy"] = "Retain"
                case [name, seconds, *_]:
                    found = history.look(test_assess.NODES[name], after=float(seconds))
                    yield f"{row.case} {number}", _looked(history, found)


class _DaemonSets:
    """A cluster whose agents' DaemonSet has pods on one of two nodes, and why it creates no more."""

    def __init__(self, *, refused: bool) -> None:
        self._refused = refused

    def call(self, request: Request) -> dict[str, Any]:
        """Answer a list of DaemonSets or of Events."""
        if "/daemonsets" in request.path:
            status = {"currentNumberScheduled": 1, "desiredNumberScheduled": 2}
            return {"items": [{"metadata": {"name": "agent", "uid": "u"}, "status": status}], "metadata": {}}
        refusal = {"message": "Error creating: forbidden", "lastTimestamp": "2026-01-01T00:00:00Z"}
        return {"items": [refusal] if self._refused else [], "metadata": {}}


def agents_without_pods() -> Cases:
    """`AgentsReporting` with what the agents' DaemonSet tells, over all that is said of nodes."""
    for row in rows("assessed.yaml", test_assess.Assessed):
        history, nodes = History(), []
        for number, look in enumerate((row, *row.then)):
            test_assess.change(history, look)
            if look.nodes is not None:
                nodes = [node for group in look.nodes for node in group.nodes()]
            reports = agent_reports(table_of(nodes, history.catalogue.placeholders))
            for refused in (False, True):
                yield f"{row.case} {number} {refused}", _with_pods(reports, refused=refused)


def _with_pods(reports: AgentReports, *, refused: bool) -> Any:
    pods = AgentPods(_DaemonSets(refused=refused), ManualRuntime(), "home").look()
    plain, explained = agents_condition(reports), agents_condition(reports, pods)
    return [explained.status, explained.reason, explained.message != plain.message]


def _described(description: Description) -> Any:
    known = dict(sorted(description.labels.known.items()))
    kept = sorted(description.labels.unknown)
    topology = description.topology
    reasons = len(topology.reasons) if topology else bool(description.problem)
    return [known, kept, sorted(description.annotations), reasons]


def machines_described() -> Cases:
    """Labels of simulated and recorded machines."""
    for profile in sorted((ROOT / "toposcope/simulator/profiles").glob("*.yaml")):
        with tempfile.TemporaryDirectory() as folder:
            yield profile.stem, _described(describe(probed(load_profile(profile.stem), Path(folder)), "node"))
    for name in test_recordings.RECORDINGS:
        with tempfile.TemporaryDirectory() as folder:
            recording = load_recording(test_recordings.HERE / f"{name}.json")
            write_recorded_sysfs(recording, Path(folder) / "sys")
            nvml = Nvml(ReplayedNvml(recording))
            yield name, _described(describe(probe(nvml, Sysfs(Path(folder) / "sys"), nvml.start()), "node"))


def _lived(node: SimulatedNode, activity: Activity) -> Any:
    writes = [_described(description) for description in node.api.writes]
    counts = [activity.reads, activity.writes, activity.refused, activity.probes]
    is_unwell = [bool(node.agent.healthy()), bool(node.agent.ready())]
    return [node.labels, activity.events, writes, counts, is_unwell, node.agent.seconds_until_sync()]


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
    required_levels,
    agents_without_pods,
    machines_described,
    stories_of_agents,
)


def decide(file: str, questions: str) -> None:
    """Write all decisions to a file as JSON, by function and case; an error ends its function and is its last case."""
    asked = recorded(Path(questions))
    decided: dict[str, dict[str, Any]] = {}
    decisions: list[Callable[[], Cases]] = [*DECISIONS]
    for on_questions in DECISIONS_ON_QUESTIONS:
        decisions.append(partial(on_questions, asked))
    for decision in decisions:
        name = decision.func.__name__ if isinstance(decision, partial) else decision.__name__
        cases = decided[name] = {}
        try:
            for case, found in decision():
                cases[case] = blanked(json.loads(msgspec.json.encode(found, enc_hook=str)))
        except Exception as error:  # noqa: BLE001 - whatever it is, it shows what went by a sentence
            cases["ended by"] = type(error).__name__
    Path(file).write_text(json.dumps(decided), encoding="utf-8")
