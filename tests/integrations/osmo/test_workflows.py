"""OSMO's workflows: the constraint tree, and what its PodGroup loses."""

import pytest
from tests.integrations.clusters import NO_POOL, POOL, SECOND_POOL_WITH_CELLS, TWO_POOLS
from tests.integrations.osmo.workflow import ALL_NODES_COUNT, REQUIREMENT, REQUIREMENTS, RESOURCES, TASKS
from tests.support.checking import Read, advice, error, read, warning
from tests.support.documents import Edits, document, text
from toposcope.integrations.framework.system import ClusterFacts

pytestmark = pytest.mark.regression

LEVELS_FIRST = "room is not checked until the levels are right"
HARDEST = "OSMO places each group of tasks separately; this is the group that is hardest to place"
STAND_IN = "the pool's keys are unknown, so the levels of topology 'cluster' are assumed"
SECOND_TASK = "workflow.groups[0].tasks[1]"
KEYS_OF_POOL_UNKNOWN = "the topology keys of the pool are unknown"


def task(name: str, resource: str) -> dict[str, str]:
    """A task of a group."""
    return {"name": name, "image": "python", "resource": resource}


def read_osmo(edits: Edits | None = None, *, cluster: ClusterFacts = POOL) -> Read:
    return read("OSMO", document("osmo/workflow", edits), cluster)


def test_requirement_groups_are_a_tree_in_the_order_of_the_pool() -> None:
    answer = read_osmo(
        {
            TASKS: [task("m1-a", "model-1"), task("m1-b", "model-1"), task("m2-a", "model-2"), task("m2-b", "model-2")],
            RESOURCES: {
                "model-1": {
                    "gpu": 8,
                    "topology": [{"key": "rack", "group": "model-1"}, {"key": "zone", "group": "all"}],
                },
                "model-2": {
                    "gpu": 8,
                    "topology": [{"key": "rack", "group": "model-2"}, {"key": "zone", "group": "all"}],
                },
            },
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group all: required zone
              rack group all/model-1: required rack; 2 model-1 (nvidia.com/gpu=8)
              rack group all/model-2: required rack; 2 model-2 (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_requirement_without_group_is_one_required_group() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].resource": "default",
            "workflow.groups[0].tasks[1].resource": "default",
            RESOURCES: {"default": {"gpu": 8, "topology": [{"key": "rack"}]}},
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            rack group default: required rack; 2 default (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_equal_group_names_below_other_groups_are_other_groups() -> None:
    answer = read_osmo(
        {
            TASKS: [task("t1", "a"), task("t2", "a"), task("t3", "b1"), task("t4", "b2")],
            RESOURCES: {
                "a": {"gpu": 8, "topology": [{"key": "zone", "group": "zone-a"}, {"key": "rack", "group": "one"}]},
                "b1": {"gpu": 8, "topology": [{"key": "zone", "group": "zone-b"}, {"key": "rack", "group": "one"}]},
                "b2": {"gpu": 8, "topology": [{"key": "zone", "group": "zone-b"}, {"key": "rack", "group": "two"}]},
            },
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group zone-a: required zone
              rack group zone-a/one: required rack; 2 a (nvidia.com/gpu=8)
            zone group zone-b: required zone
              rack group zone-b/one: required rack; 1 b1 (nvidia.com/gpu=8)
              rack group zone-b/two: required rack; 1 b2 (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_preferred_requirement_is_a_preferred_level() -> None:
    answer = read_osmo()
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            rack group m: preferred rack; 2 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_resource_has_amounts_and_excluded_nodes() -> None:
    answer = read_osmo(
        {
            TASKS: [task("a", "default")],
            RESOURCES: {
                "default": {
                    "cpu": 4,
                    "memory": "16Gi",
                    "storage": "1Gi",
                    "gpu": 2,
                    "platform": "h100",
                    "nodesExcluded": ["bad-1"],
                }
            },
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm, a gang
          group train: 1 default (cpu=4000 ephemeral-storage=1073741824 memory=17179869184 nvidia.com/gpu=2)
              on nodes with metadata.name NotIn bad-1
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_each_group_of_tasks_is_placed_by_itself() -> None:
    answer = read_osmo(
        {
            "workflow.groups": [
                {"name": "train", "tasks": [task("a", "r")]},
                {"name": "then", "tasks": [{"name": "b", "resource": "r"}]},
            ],
            REQUIREMENT: {"key": "rack"},
            "workflow.tasks": [{"name": "alone", "resource": "r"}],
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm, group train on labels topology.kubernetes.io/zone, example.com/spine,
            example.com/rack, a gang
          group train
            rack group default: required rack; 1 r (nvidia.com/gpu=8)
        OSMO workflow/llm, group then on labels topology.kubernetes.io/zone, example.com/spine,
            example.com/rack, a gang
          group then
            rack group default: required rack; 1 r (nvidia.com/gpu=8)
        OSMO workflow/llm, group alone on labels topology.kubernetes.io/zone, example.com/spine,
            example.com/rack, a gang
          group alone
            rack group default: required rack; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT, HARDEST, ALL_NODES_COUNT, HARDEST, ALL_NODES_COUNT, HARDEST]


def test_tasks_with_other_keys_are_refused() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].resource": "one",
            "workflow.groups[0].tasks[1].resource": "other",
            RESOURCES: {
                "one": {"gpu": 8, "topology": [{"key": "zone"}, {"key": "rack"}]},
                "other": {"gpu": 8, "topology": [{"key": "zone"}]},
            },
        }
    )
    assert answer.findings == [
        error(
            "osmo/same-keys",
            TASKS,
            (
                "Topology validation failed: All tasks must use the same topology keys. Found different key "
                "sets: ['rack, zone', 'zone']. Either all tasks should have topology requirements with the "
                "same keys, or no tasks should have topology requirements."
            ),
            fix="name the same keys in the resource of every task; to keep a task apart, give it a group of its own",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a
            gang, not placeable
          group train: 1 one (nvidia.com/gpu=8); 1 other (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT, LEVELS_FIRST]


def test_workflow_names_its_pool() -> None:
    answer = read_osmo({REQUIREMENT: {"key": "cell"}, "workflow.pool": "second"}, cluster=SECOND_POOL_WITH_CELLS)
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, a gang
          group train
            cell group default: required cell; 2 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_unknown_pool_among_several_is_noted() -> None:
    answer = read_osmo({REQUIREMENT: {"key": "cell"}, "workflow.pool": "second"}, cluster=TWO_POOLS)
    assert answer.findings == [
        advice(
            "osmo/pool-unknown",
            "workflow.pool",
            "it is unknown which of the given pools the workflow is for",
            fix="there are: third, train-pool",
        )
    ]


def test_levels_of_the_topology_stand_in_for_a_pool() -> None:
    answer = read_osmo({REQUIREMENT: {"key": "rack"}}, cluster=NO_POOL)
    assert answer.findings == [
        advice(
            "osmo/pool-unknown",
            "workflow",
            KEYS_OF_POOL_UNKNOWN,
            fix="give its configuration with -f too: osmo config show POOL NAME > pool.json",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on cluster, a gang
          group train
            rack group default: required rack; 2 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT, STAND_IN]


def test_key_that_stands_for_no_level_leaves_room_unchecked() -> None:
    answer = read_osmo({TASKS: [task("a", "r")], REQUIREMENT: {"key": "gpu-clique"}}, cluster=NO_POOL)
    assert answer.findings == [
        advice(
            "osmo/pool-unknown",
            "workflow",
            KEYS_OF_POOL_UNKNOWN,
            fix="give its configuration with -f too: osmo config show POOL NAME > pool.json",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on cluster, a gang, not placeable
          group train: 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT, STAND_IN, LEVELS_FIRST]


def test_required_zone_is_lost_behind_a_preferred_rack() -> None:
    answer = read_osmo(
        {REQUIREMENTS: [{"key": "zone", "group": "all"}, {"key": "rack", "group": "m", "requirementType": "preferred"}]}
    )
    assert answer.findings == [
        warning(
            "osmo/required-lost",
            REQUIREMENT,
            "OSMO drops required 'zone' for tasks of 'train': it writes only preferred 'rack' into the PodGroup",
            fix="make 'rack' required too, or remove it",
        )
    ]


def test_required_zone_above_required_rack_is_kept() -> None:
    answer = read_osmo(
        {TASKS: [task("tr", "r")], REQUIREMENTS: [{"key": "zone", "group": "all"}, {"key": "rack", "group": "m"}]}
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group all: required zone
              rack group all/m: required rack; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_preferred_zone_above_required_rack_is_kept() -> None:
    answer = read_osmo(
        {
            TASKS: [task("tr", "r")],
            REQUIREMENTS: [
                {"key": "zone", "group": "all", "requirementType": "preferred"},
                {"key": "rack", "group": "m"},
            ],
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group all: preferred zone
              rack group all/m: required rack; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_preferred_zone_above_preferred_rack_is_kept() -> None:
    answer = read_osmo(
        {
            TASKS: [task("tr", "r")],
            REQUIREMENTS: [
                {"key": "zone", "group": "all", "requirementType": "preferred"},
                {"key": "rack", "group": "m", "requirementType": "preferred"},
            ],
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group all: preferred zone
              rack group all/m: preferred rack; 1 r (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_required_zone_above_two_preferred_racks_is_kept() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].name": "tr",
            SECOND_TASK: task("ts", "s"),
            REQUIREMENTS: [
                {"key": "zone", "group": "all"},
                {"key": "rack", "group": "m", "requirementType": "preferred"},
            ],
            "workflow.resources.s": {
                "gpu": 8,
                "topology": [
                    {"key": "zone", "group": "all"},
                    {"key": "rack", "group": "n", "requirementType": "preferred"},
                ],
            },
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group all: required zone
              rack group all/m: preferred rack; 1 r (nvidia.com/gpu=8)
              rack group all/n: preferred rack; 1 s (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_groups_whose_joined_names_are_equal_are_refused() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].name": "t1",
            SECOND_TASK: task("t2", "s"),
            REQUIREMENTS: [{"key": "zone", "group": "a-b"}, {"key": "rack", "group": "c"}],
            "workflow.resources.s": {
                "gpu": 8,
                "topology": [{"key": "zone", "group": "a"}, {"key": "rack", "group": "b-c"}],
            },
        }
    )
    assert answer.findings == [
        error(
            "osmo/group-collision",
            "workflow.resources.s.topology[1]",
            "groups a-b/c and a/b-c both get the name 'a-b-c' in OSMO, which fails with IndexError or merges them",
            fix="choose group names without '-'",
        )
    ]


def test_groups_whose_joined_names_differ_are_kept() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].name": "t1",
            SECOND_TASK: task("t2", "s"),
            REQUIREMENTS: [{"key": "zone", "group": "a-b"}, {"key": "rack", "group": "c"}],
            "workflow.resources.s": {
                "gpu": 8,
                "topology": [{"key": "zone", "group": "d"}, {"key": "rack", "group": "b-c"}],
            },
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            zone group a-b: required zone
              rack group a-b/c: required rack; 1 r (nvidia.com/gpu=8)
            zone group d: required zone
              rack group d/b-c: required rack; 1 s (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_group_both_required_and_preferred_is_warned_of() -> None:
    answer = read_osmo(
        {
            "workflow.groups[0].tasks[0].name": "t1",
            SECOND_TASK: task("t2", "s"),
            "workflow.resources.s": {"gpu": 8, "topology": [{"key": "rack", "group": "m"}]},
        }
    )
    assert answer.findings == [
        warning(
            "osmo/mixed-requirement",
            REQUIREMENT,
            "group 'm' is both required and preferred; OSMO follows the first of its tasks: preferred",
            fix="write the same requirementType in every resource of the group",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train
            rack group m: required rack; 1 r (nvidia.com/gpu=8); 1 s (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_task_without_requirement_beside_one_group_is_warned_of() -> None:
    answer = read_osmo(
        {
            TASKS: [task("in-m", "m"), task("loose", "none")],
            RESOURCES: {
                "m": {"gpu": 8, "topology": [{"key": "rack", "group": "m"}]},
                "none": {"gpu": 8, "topology": []},
            },
        }
    )
    assert answer.findings == [
        warning(
            "osmo/without-requirements",
            TASKS,
            "tasks without topology get the constraint of the others: loose",
            fix="give every task of the group a topology, or move these tasks to a group of their own",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train: 1 none (nvidia.com/gpu=8)
            rack group m: required rack; 1 m (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_task_without_requirement_beside_two_groups_is_warned_of() -> None:
    answer = read_osmo(
        {
            TASKS: [task("in-m", "m"), task("in-n", "n"), task("loose", "none")],
            RESOURCES: {
                "m": {"gpu": 8, "topology": [{"key": "rack", "group": "m"}]},
                "n": {"gpu": 8, "topology": [{"key": "rack", "group": "n"}]},
                "none": {"gpu": 8, "topology": []},
            },
        }
    )
    assert answer.findings == [
        warning(
            "osmo/without-requirements",
            TASKS,
            "tasks without topology may be placed anywhere: loose",
            fix="give every task of the group a topology, or move these tasks to a group of their own",
        )
    ]
    assert answer.workload == text("""
        OSMO workflow/llm on labels topology.kubernetes.io/zone, example.com/spine, example.com/rack, a gang
          group train: 1 none (nvidia.com/gpu=8)
            rack group m: required rack; 1 m (nvidia.com/gpu=8)
            rack group n: required rack; 1 n (nvidia.com/gpu=8)
    """)
    assert answer.notes == [ALL_NODES_COUNT]


def test_default_resource_needs_no_section() -> None:
    tasks = [{"name": "a"}, {"name": "b", "resource": "default"}]
    answer = read_osmo({TASKS: tasks, RESOURCES: None})
    assert answer.findings == []
    assert answer.workload == text("""
        OSMO workflow/llm, a gang
          group train: 2 default
    """)


def test_task_without_resource_needs_a_default_one() -> None:
    answer = read_osmo({TASKS: [{"name": "a"}], RESOURCES: {"r": {"gpu": 8}}})
    assert answer.findings == [
        error(
            "osmo/resource-found",
            f"{TASKS}[0].resource",
            "resource 'default' is not in workflow.resources",
            fix="add a resource default, or name one for task a",
        )
    ]


def test_resource_of_a_workflow_without_any_is_refused() -> None:
    answer = read_osmo({TASKS: [{"name": "a", "resource": "r"}], RESOURCES: None})
    assert answer.findings == [
        error(
            "osmo/resource-found",
            f"{TASKS}[0].resource",
            "resource 'r' does not exist: the workflow has no resources",
            fix="add it to workflow.resources",
        )
    ]
