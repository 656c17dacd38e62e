"""Places in tests/documents/osmo/workflow.yaml, and what is noted of each workflow."""

ALL_NODES_COUNT = (
    "which nodes the platforms of the pool may use is set in OSMO's pod templates and not known here: all nodes count"
)
TASKS = "workflow.groups[0].tasks"
REQUIREMENTS = "workflow.resources.r.topology"
REQUIREMENT = "workflow.resources.r.topology[0]"
RESOURCES = "workflow.resources"
