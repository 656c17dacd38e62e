"""`toposcope whatif`: what a change does to gangs and room."""

import pytest
from tests.cli.clusters import busy_cpus, crowded, jobs, kept_by_a_budget, spared_by_a_budget
from tests.cli.conftest import CommandOnCluster, Write
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression

BARE_POD = """
apiVersion: v1
kind: Pod
metadata: {{name: new-0, namespace: train}}
spec:
  containers: [{{name: main, image: example.invalid/train, resources: {{limits: {limits}}}}}]
"""


@pytest.mark.parametrize("rack", ["rack-3", "block-2/rack-3"])
def test_drain_of_a_domain_is_its_page(rack: str, toposcope_on: CommandOnCluster) -> None:
    """By its name or its path."""
    ran = toposcope_on(jobs, f"whatif --drain rack={rack}")
    assert ran.out == expected_page("cli/pages/whatif-drain.txt", ran.out)


def test_drain_counts_the_gangs_that_it_does_not_list(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(crowded, "whatif --drain zone=zone-1", code=1).out
    assert "15 gangs more" in out
    assert "16 gangs more" not in out


def test_free_is_its_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "whatif --free 72", code=1)
    assert ran.out == expected_page("cli/pages/whatif-free.txt", ran.out)


def test_added_nodes_are_their_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "whatif --add 8 --like h200-1 --in rack=rack-9")
    assert ran.out == expected_page("cli/pages/whatif-add.txt", ran.out)


def test_drain_for_scripts_lists_only_the_gangs_it_concerns(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "whatif --drain h200-1 --finish left -o yaml")
    gang = ran.yaml["gangs"][0]
    assert gang["name"] == "apart"
    assert gang["outcome"] == "stays"
    assert gang["level"] == "block"
    assert "name: close" not in ran.out
    assert "name: left" not in ran.out
    assert "before: null\n  after: null" not in ran.out


def test_free_for_scripts_evicts_no_pod_where_there_is_room(toposcope_on: CommandOnCluster) -> None:
    freed = toposcope_on(jobs, "whatif --free 16 --level rack --gpus-per-pod 8 -o yaml").yaml
    assert freed["level"] == "rack"
    assert freed["pods"] == []


def test_admitted_pod_is_added(toposcope_on: CommandOnCluster, write: Write) -> None:
    write("work.yaml", BARE_POD.format(limits='{nvidia.com/gpu: "8"}'))
    assert "+ pod/new-0" in toposcope_on(jobs, "whatif --admit work.yaml").out


# Gangs of pods like those of a file (--like FILE)


@pytest.fixture
def large(write: Write) -> str:
    """A file with a pod of 4 GPUs that needs most of the CPU of a node of busy_cpus."""
    write("large.yaml", BARE_POD.format(limits='{nvidia.com/gpu: "4", cpu: "60"}'))
    return "large.yaml"


@pytest.fixture
def light(write: Write) -> str:
    """A file with a pod of 8 GPUs that needs no CPU of its own."""
    write("light.yaml", BARE_POD.format(limits='{nvidia.com/gpu: "8"}'))
    return "light.yaml"


def test_drain_counts_gangs_of_pods_like_those_of_a_file(toposcope_on: CommandOnCluster, large: str) -> None:
    ran = toposcope_on(busy_cpus, f"whatif --drain n0 --like {large}")
    assert ran.out.splitlines()[1:] == [
        "GPUS  LEVEL  NOW   ENDED  EMPTY",
        "   4  host     2  4 -> 3      4",
        "   8  rack     0  2 -> 1      2",
    ]


def test_added_nodes_are_counted_for_pods_like_those_of_a_file(toposcope_on: CommandOnCluster, large: str) -> None:
    """The first `--like` is the node, the second the file."""
    ran = toposcope_on(busy_cpus, f"whatif --add 1 --like n0 --like {large}")
    assert ran.out.splitlines()[1:] == [
        "GPUS  LEVEL     NOW   ENDED   EMPTY",
        "   4  host   2 -> 3  4 -> 5  4 -> 5",
        "   8  rack   0 -> 1       2       2",
    ]


def test_free_looks_for_room_for_pods_like_those_of_a_file(toposcope_on: CommandOnCluster, light: str) -> None:
    """Jobs without GPUs hold the CPU that the median pod needs, and this one does not."""
    toposcope_on(busy_cpus, "whatif --free 16 --level rack", code=2)
    ran = toposcope_on(busy_cpus, f"whatif --free 16 --level rack --like {light}")
    assert ran.out == "rack r0 has room for a gang of 16 GPUs now; no pod has to move\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("whatif", "give what changes (--drain, --add, --finish, --admit), or --free GPUS", id="nothing"),
        pytest.param(
            "whatif --add 2",
            "--add N, --like NODE and --in LEVEL=VALUE belong together; --in may be left out",
            id="add-without-like",
        ),
        pytest.param("whatif --drain h200-1 --like h200-2", "h200-2: No such file", id="like-without-add"),
        pytest.param("whatif --drain h200-99", "jobs.json; did you mean 'h200-", id="missing-node"),
        pytest.param(
            "whatif --drain rack=rack-99",
            "no node is in rack 'rack-99'; toposcope tree shows the domains",
            id="missing-rack",
        ),
        pytest.param("whatif --drain rack=block-1/rack-3", "no node is in rack 'block-1/rack-3'", id="other-block"),
        pytest.param("whatif --drain rack=x/zone-1/block-2/rack-3", "no node is in rack", id="path-too-long"),
        pytest.param(
            "whatif --free 4000",
            "no domain of any level holds 4,000 GPUs, even on an empty cluster",
            id="too-many-gpus",
        ),
    ],
)
def test_change_that_cannot_be_made_is_an_error(line: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(jobs, line, code=2).err


# Pods that a PodDisruptionBudget keeps


def test_free_evicts_a_pod_that_its_budget_lets_go(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(spared_by_a_budget, "whatif --free 12 --level rack", code=1)
    assert "takes a gang of 12 GPUs when 1 pod leaves it" in ran.out
    assert "pods that a PodDisruptionBudget" not in ran.out + ran.err


def test_free_does_not_evict_a_pod_that_its_budget_keeps(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(kept_by_a_budget, "whatif --free 12 --level rack", code=2).err
    assert "pods that a PodDisruptionBudget" in err


def test_free_does_not_evict_a_pod_of_higher_priority(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(spared_by_a_budget, "whatif --free 12 --level rack --priority-below 5", code=2).err
    assert "pods that a PodDisruptionBudget" in err


def test_free_evicts_a_pod_of_lower_priority(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(spared_by_a_budget, "whatif --free 12 --level rack --priority-below 6", code=1)
    assert "pods that a PodDisruptionBudget" not in ran.out + ran.err


def test_drain_that_its_budget_allows_does_not_mention_it(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(spared_by_a_budget, "whatif --drain gb200-01")
    assert "PodDisruptionBudget" not in ran.out + ran.err


def test_drain_that_a_budget_does_not_allow_ends_with_1(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(kept_by_a_budget, "whatif --drain gb200-01", code=1).out
    assert "! PodDisruptionBudget train/keep allows 0 of 1 eviction now" in out
