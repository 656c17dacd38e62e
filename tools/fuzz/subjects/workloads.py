"""Manifests of workloads, for every system that `toposcope check` knows."""

import io
from string import Template
from typing import Any, Final

import msgspec
import yaml
from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, refusal, sample, spoiled, subject, words
from toposcope.api.label_keys import GPUS, HOSTNAME
from toposcope.placement.check import Checker
from toposcope.placement.sentences import answer
from toposcope.simulator.cluster import BLOCK_KEY, RACK_KEY
from toposcope.snapshot.files import load_files

SAMPLES: Final[tuple[dict[str, Any], ...]] = tuple(
    yaml.load(
        Template(sample("workloads.yaml")).substitute(RACK=RACK_KEY, BLOCK=BLOCK_KEY),
        yaml.CSafeLoader,
    )["samples"]
)
WORDS: Final = tuple(
    {"RACK": RACK_KEY, "BLOCK": BLOCK_KEY}.get(word, word) for word in words("workloads")
)


def cluster() -> bytes:
    """A small cluster as a file: two blocks of two racks of two nodes."""
    metadata = [
        {
            "name": f"n{i}",
            "labels": {
                GPUS: "8",
                BLOCK_KEY: f"b{i // 4}",
                RACK_KEY: f"r{i // 2}",
                HOSTNAME: f"n{i}",
            },
        }
        for i in range(8)
    ]
    status = {
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": about, "status": status}
        for about in metadata
    ]
    domains = {
        "block": BLOCK_KEY,
        "rack": RACK_KEY,
        "host": HOSTNAME,
    }
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in domains.items()]}
    head = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "gpu"},
    }
    topology = {**head, "spec": spec}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {},
    }
    return msgspec.json.encode({"kind": "List", "items": [*nodes, topology, pod]})


_CHECKER: Final = Checker(load_files(["-"], io.BytesIO(cluster())))


_DOCUMENTS: Final = spoiled(SAMPLES, *WORDS)
_PARTS: Final = st.sampled_from(["apiVersion", "kind", "metadata", "spec", "items"])


@subject(
    "a manifest gets findings and a verdict, never a traceback",
    st.one_of(_DOCUMENTS, st.dictionaries(_PARTS, _DOCUMENTS)),
)
def workloads(case: Any) -> Outcome:
    """Findings in words and a verdict in words, whatever the document holds."""
    if not isinstance(case, dict):
        return "refused"  # the reader of files says so
    outcome: Outcome = "taken"
    for checked in _CHECKER.check(case):
        for finding in checked.reading.findings:
            refusal(f"{finding.field or 'the document'}: {finding.message} {finding.fix}")
        if checked.errors:
            outcome = "refused"
        if checked.verdict:
            answer(checked.verdict)
    return outcome
