"""Saved clusters: files of any bytes in place of what kubectl printed."""

import io
from typing import Any, Final

from hypothesis import strategies as st

from tools.fuzz.material import encoded, text_of
from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.snapshot.files import load_files
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import tree

_JSON: Final = """\
{
    "apiVersion": "v1",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "uid": "u1", "labels": {"gpu.topology/gpus": "8", "example.com/rack": "r"}},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p1", "namespace": "default"},
            "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}
        }
    ],
    "kind": "List",
    "metadata": {}
}
"""
_YAML: Final = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
    labels:
      gpu.topology/gpus: "8"
      topology.kubernetes.io/zone: a
    managedFields:
    - manager: x
  status:
    allocatable:
      nvidia.com/gpu: "8"
- apiVersion: gpu.topology/v1alpha1
  kind: ClusterTopology
  metadata:
    name: all
  spec: {}
kind: List
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata:
  name: t
spec:
  levels:
  - nodeLabel: topology.kubernetes.io/zone
"""
_WORDS: Final = (
    '"8"',
    "8",
    "null",
    "{}",
    "[]",
    "- ",
    "---",
    "items:",
    "kind: List",
    '"items": [',
    "&a",
    "*a",
    "!!set",
    "1e999",
    "0x",
    "9" * 5000,
)


def attempt(case: Any) -> Outcome:
    """A snapshot with a tree that can be drawn, or every problem with its place."""
    try:
        snapshot = load_files(["-"], io.BytesIO(case))
    except InputError as error:
        held(error.problems, "bad input without a problem")
        for problem in error.problems:
            held(problem.place.file == "standard input", f"the file is not named: {problem}")
            refusal(problem)
        return "refused"
    tree(snapshot, select_scope(snapshot))
    return "taken"


SAVED: Final = Subject(
    "saved",
    "a file is a cluster, or every problem in it with file, document and line",
    st.one_of(encoded(text_of([_JSON, _YAML], _WORDS)), st.binary(max_size=200)),
    attempt,
    guided=True,
)
