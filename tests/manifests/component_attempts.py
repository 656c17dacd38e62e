"""Requests with the token of an agent: what some components let it write of its Node, and what they do not."""

from dataclasses import dataclass
from typing import Any

from tests.manifests import rights
from tests.manifests.rights import HOME, NODES, OTHER, OWN, PLAN, Attempt
from tests.support.api import node
from toposcope.api.label_keys import SLINKY

CONFIG_MAPS = f"{HOME}/configmaps"
OWN_DRY_RUN = f"{OWN}?dryRun=All"
AS_NVIDIA = f"{OWN_DRY_RUN}&fieldManager=toposcope-agent-nvidia"
ANNOTATED = f"{NODES}/annotated?dryRun=All&fieldManager=toposcope-agent"
ELSEWHERE = f"{NODES}/elsewhere?dryRun=All&fieldManager=toposcope-agent"
LABELLED = f"{NODES}/labelled?dryRun=All&fieldManager=toposcope-agent"

ONLY_LABELS = "only write labels under gpu.topology/"
ONLY_ANNOTATIONS = "only write annotations under gpu.topology/"
NOT_OF_OTHERS = "may not remove fields from other managers' managedFields"


@dataclass(frozen=True, slots=True)
class ComponentRights:
    """What an agent on `node` may write once the component is installed."""

    node: str
    present: tuple[Attempt, ...]
    """Nodes that the administrator makes."""
    refused_without: tuple[Attempt, ...]
    in_force: tuple[Attempt, ...]
    work: tuple[Attempt, ...]
    forbidden: tuple[Attempt, ...]


def write_label(what: str, key: str, value: str | None = "x", *, path: str = AS_NVIDIA, says: str = "") -> Attempt:
    """Write one label, or remove it."""
    return rights.merge_metadata(what, path, says, labels={key: value})


def annotate(
    what: str, value: str | None = "b", *, key: str = SLINKY, path: str = ANNOTATED, says: str = ""
) -> Attempt:
    """Write one annotation, or remove it."""
    return rights.merge_metadata(what, path, says, annotations={key: value})


def make_node(name: str, manager: str = "", **metadata: Any) -> Attempt:
    """Make a Node, as a certain field manager where one is given."""
    path = f"{NODES}?fieldManager={manager}" if manager else NODES
    return rights.post(f"make node {name}", path, node(name, **metadata))


READ_PLAN = rights.get("read the plan", PLAN)
CANNOT_READ_PLAN = rights.get("read the plan", PLAN, "cannot get resource")
WATCH_PLAN = rights.get(
    "watch the plan", f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dtoposcope-node-plan"
)
OTHER_CONFIG_MAPS = (
    rights.get("list ConfigMaps", CONFIG_MAPS, "cannot list resource"),
    rights.get("watch all ConfigMaps", f"{CONFIG_MAPS}?watch=true&timeoutSeconds=1", "cannot watch resource"),
    rights.get("read another ConfigMap", f"{CONFIG_MAPS}/toposcope-config", "cannot get resource"),
    rights.merge("change the plan", PLAN, {"data": {"plan.json": "x"}}, "cannot patch resource"),
    rights.delete("delete the plan", PLAN, "cannot delete resource"),
)

CLIQUE = "nvidia.com/gpu.clique"
COUNT = "nvidia.com/gpu.count"
MIG_CONFIG = "nvidia.com/mig.config"
NVIDIA_LABELS = ComponentRights(
    node="confined-own",
    present=(make_node("confined-own", labels={MIG_CONFIG: "all-disabled", COUNT: "8"}), make_node("confined-other")),
    refused_without=(write_label("write a label of NVIDIA", CLIQUE, path=OWN_DRY_RUN, says=ONLY_LABELS),),
    in_force=(write_label("write a label of NVIDIA", CLIQUE),),
    work=(
        write_label("write nvidia.com/gpu.clique", CLIQUE),
        write_label("write nvidia.com/gpu.product", "nvidia.com/gpu.product"),
        write_label("write nvidia.com/nvlink.version", "nvidia.com/nvlink.version"),
        write_label("write nvidia.com/nvswitch.present", "nvidia.com/nvswitch.present"),
    ),
    forbidden=(
        write_label(
            "write it as another manager",
            CLIQUE,
            path=f"{OWN_DRY_RUN}&fieldManager=toposcope-agent",
            says="may only own its own keys",
        ),
        write_label("overwrite another's nvidia.com/gpu.count", COUNT, "7", says=NOT_OF_OTHERS),
        write_label("remove another's nvidia.com/gpu.count", COUNT, None, says=NOT_OF_OTHERS),
        write_label("write example.com/b", "example.com/b", path=OWN_DRY_RUN, says=ONLY_LABELS),
        write_label("write nvidia.com/mig.config", MIG_CONFIG, path=OWN_DRY_RUN, says=ONLY_LABELS),
        write_label("write nvidia.com/gpu.present", "nvidia.com/gpu.present", path=OWN_DRY_RUN, says=ONLY_LABELS),
        write_label("write nvidia.com/gpu", "nvidia.com/gpu", path=OWN_DRY_RUN, says=ONLY_LABELS),
        write_label("remove nvidia.com/mig.config", MIG_CONFIG, None, path=OWN_DRY_RUN, says=ONLY_LABELS),
        write_label(
            "write of another node", CLIQUE, path=f"{OTHER}?dryRun=All", says="may not write node confined-other"
        ),
    ),
)

SLINKY_ANNOTATION = ComponentRights(
    node="annotated",
    present=(
        # As the controller of an earlier version wrote it: the agent takes it over.
        make_node("annotated", "toposcope-controller", annotations={SLINKY: "a", "example.com/a": "b"}),
        make_node("elsewhere"),
    ),
    refused_without=(annotate("write it", says=ONLY_ANNOTATIONS), CANNOT_READ_PLAN),
    in_force=(annotate("write it"), READ_PLAN),
    work=(
        READ_PLAN,
        WATCH_PLAN,
        annotate("write it", "cluster-tree:r1"),
        annotate("write it at length", "x" * 1024),
        annotate("remove it", None),
    ),
    forbidden=(
        *OTHER_CONFIG_MAPS,
        annotate("write beyond its length", "x" * 1025, says=ONLY_ANNOTATIONS),
        annotate("change another annotation", "c", key="example.com/a", says=ONLY_ANNOTATIONS),
        annotate("remove another annotation", None, key="example.com/a", says=ONLY_ANNOTATIONS),
        annotate("write a new annotation", "x", key="new", says=ONLY_ANNOTATIONS),
        annotate("write a key that begins alike", "x", key=f"{SLINKY}2", says=ONLY_ANNOTATIONS),
        annotate("write of another node", path=ELSEWHERE, says="may not write node"),
    ),
)

NODE_ENDPOINT = ComponentRights(
    node="described",
    present=(make_node("described"),),
    refused_without=(CANNOT_READ_PLAN,),
    in_force=(READ_PLAN,),
    work=(READ_PLAN, WATCH_PLAN),
    forbidden=OTHER_CONFIG_MAPS,
)

UNIQUE_RACK = "gpu.topology/unique-rack"
UNIQUE_VALUES = ComponentRights(
    node="labelled",
    present=(make_node("labelled"),),
    refused_without=(CANNOT_READ_PLAN,),
    in_force=(READ_PLAN,),
    work=(
        READ_PLAN,
        WATCH_PLAN,
        write_label("write a value", UNIQUE_RACK, "z.r1", path=LABELLED),
        write_label("remove a value", UNIQUE_RACK, None, path=LABELLED),
    ),
    forbidden=(
        *OTHER_CONFIG_MAPS,
        annotate("write Slinky's annotation", "x", path=LABELLED, says=ONLY_ANNOTATIONS),
        write_label("write another's label", "a", "b", path=LABELLED, says=ONLY_LABELS),
    ),
)
