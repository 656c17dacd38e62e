"""What the API server makes of pods, where their volumes are and who is evicted for them: `check` beside the real ones.

`make schedulers CASES=1000 SEED=7` for more than CI does.
"""

import json
import random
from pathlib import Path

import pytest
from tests.schedulers import admission, clusters, play
from tests.schedulers.drawing import Drawing, assert_drawn, seeds
from tests.support.api import ApiUnderTest
from tools.apiserver.client import wait_until
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

pytestmark = pytest.mark.slow

Object = clusters.Object


def test_check_agrees_with_api_server_and_scheduler(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    around = admission.around()
    play.create(kube_scheduler, around)
    jobs = Drawing(
        workload=admission.job,
        prefix="admitted",
        ask=admission.on_api_server_and_scheduler,
        cluster=admission.with_resized_pods,
        around=around,
    )
    jobs.assert_check_agrees(kube_scheduler, folder, cases=40)


def test_pods_are_evicted_as_foreseen(kube_scheduler: ApiUnderTest, folder: Path) -> None:
    classes = admission.priority_classes()
    play.create(kube_scheduler, classes)
    values = {item["metadata"]["name"]: item["value"] for item in classes}
    answers = set()
    for seed in seeds(20, per_seed=1):
        rng = random.Random(seed)
        nodes, running = [], []
        for number in range(rng.randint(1, 4)):
            node, pods = admission.occupied_node(rng, number)
            nodes.append(node)
            running += pods
        waiting = admission.preempting_pod(rng, f"preempting-{seed}")
        play.create(kube_scheduler, [*nodes, *running])

        foreseen = foreseen_evictions(folder, [*nodes, *pods_as_saved(kube_scheduler)], waiting)
        classes_of = {pod["metadata"]["name"]: pod["spec"]["priorityClassName"] for pod in running}
        expected = sorted(values[classes_of[name]] for name in foreseen)
        play.create(kube_scheduler, [waiting])
        evicted = evicted_pods(kube_scheduler, waiting, len(expected))

        actual = sorted(values[classes_of[name]] for name in evicted)
        assert expected == actual, f"seed {seed}: foreseen {foreseen}, evicted {evicted}"
        answers.add(bool(evicted))
        play.remove(kube_scheduler, [*running, waiting, *nodes])
    assert_drawn({True, False}, answers)


def pods_as_saved(api: ApiUnderTest) -> list[Object]:
    """The pods with the priorities that the API server has given them."""
    return [{**item, "apiVersion": "v1", "kind": "Pod"} for item in api.get(play.PATHS["Pod"])["items"]]


def foreseen_evictions(folder: Path, objects: list[Object], waiting: Object) -> list[str]:
    """The names of the pods that `check` expects to be evicted."""
    saved = folder / "full.json"
    items = [*objects, *admission.priority_classes()]
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    (checked,) = Checker(load_files([str(saved)])).check(waiting)
    assert checked.verdict
    assert checked.verdict.kind == "full"
    names: list[str] = []
    for remedy in checked.verdict.remedies:
        if remedy.act == "preempt":
            names += [pod.partition("/")[2] for pod in remedy.pods]
    return names


def evicted_pods(api: ApiUnderTest, waiting: Object, expected: int) -> list[str]:
    """The names of the pods that kube-scheduler evicts for this one, which it does in the background.

    It has done so when as many as `expected` are evicted and no more follow; fewer must last for some of its attempts.
    """
    seen: list[list[str]] = []
    shortage = play.Lasting(play.LASTING)

    def is_decided() -> bool:
        (pod,) = play.pods_of(api, waiting["metadata"]["name"])
        if not play.conditions_of(pod).get("PodScheduled"):
            return False
        evicted = [
            item["metadata"]["name"]
            for item in api.get(play.PATHS["Pod"])["items"]
            if "DisruptionTarget" in play.conditions_of(item)
        ]
        seen.append(evicted)
        is_settled = seen[-play.SETTLED :].count(evicted) == play.SETTLED
        if len(evicted) >= expected:
            return is_settled
        return shortage.has_lasted(is_so=is_settled)

    wait_until(is_decided, "kube-scheduler's answer", play.PATIENCE)
    return seen[-1]
