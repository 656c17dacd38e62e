"""Each finding of `toposcope check` names its field, or the document where it is about no field."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.clusters import demo
from tests.cli.conftest import CommandOnCluster, Write
from tests.support.paths import ROOT

pytestmark = pytest.mark.regression

OF_NO_FIELD = {
    "toposcope/integrations/dra/channels.py": "no field keeps the pods in one NVLink domain",
    "toposcope/integrations/grove/placement.py": "what the binding comes to in the scheduler",
    "toposcope/integrations/kai/placement.py": "the rule is in each pod template",
    "toposcope/integrations/kubernetes/gangs.py": "an API that is not served, a PodGroup that each pod names",
    "toposcope/integrations/kueue/top_level.py": "names of nodes",
    "toposcope/placement/check.py": "the cluster's levels",
    "toposcope/placement/shares.py": "the nodes that have room",
}
"""Files with findings about a whole document, and why these have no field."""

SPREAD_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, labels: {kai.scheduler/queue: tema}}
spec:
  parallelism: 2
  template:
    metadata: {labels: {app: train}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: train}}
      containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 8}}}]
"""
QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {}
"""


def test_finding_of_no_field_is_said_of_the_document(write: Write, toposcope_on: CommandOnCluster) -> None:
    write("job.yaml", f"{SPREAD_JOB}---\n{QUEUE}")
    lines = toposcope_on(demo, "check -f job.yaml", code=1).out.splitlines()
    said = [line.strip() for line in lines if line.startswith(("  error:", "  warning:"))]
    assert said == [
        "error: metadata.labels[kai.scheduler/queue] (line 3): Queue 'tema' does not exist",
        "warning: job/train -n ml (line 1): KAI 0.17 ignores topologySpreadConstraints",
    ]


def findings_of_no_field(file: Path) -> int:
    """How many findings a file makes whose field is empty."""
    count = 0
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in ("root.error", "root.warn", "root.advise"):
            count += 1
        if called == "Finding":
            fields = [keyword.value for keyword in node.keywords if keyword.arg == "field"]
            field = fields[0] if fields else node.args[2]
            count += ast.unparse(field) == "''"
    return count


@pytest.mark.slow
def test_files_with_findings_of_no_field_have_a_reason() -> None:
    files: Counter[str] = Counter()
    for file in sorted((ROOT / "toposcope").rglob("*.py")):
        count = findings_of_no_field(file)
        if count:
            files[str(file.relative_to(ROOT))] += count
    assert set(files) == set(OF_NO_FIELD), "give the finding the field that is to be changed"
