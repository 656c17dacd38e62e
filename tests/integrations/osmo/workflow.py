"""Places in tests/documents/osmo/workflow.yaml, and what is noted of each workflow."""

ALL_NODES_COUNT = (
    "OSMO's pod templates may restrict the pool's platforms to some nodes; they are unknown here, so all nodes count"
)
TASKS = "workflow.groups[0].tasks"
REQUIREMENTS = "workflow.resources.r.topology"
REQUIREMENT = "workflow.resources.r.topology[0]"
RESOURCES = "workflow.resources"
