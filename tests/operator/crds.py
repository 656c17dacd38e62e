"""The Prometheus operator's CRDs, made once of the pinned version of its API by the generator that it uses itself."""

from pathlib import Path
from typing import Any

import yaml
from tests.support.programs import lacking
from tools.apiserver.build import UNOPTIMIZED, BuildError, cache_of_module, made_once, run_go, usable_go

_MODULE = Path(__file__).parent
_API = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
_KINDS = ("podmonitors", "prometheusrules")


def operator_crds() -> list[dict[str, Any]]:
    """Those of PodMonitor and PrometheusRule; half a minute the first time.

    TOPOSCOPE_REQUIRE_OPERATOR_API=1 turns their absence into a failure.
    """
    try:
        cache = cache_of_module("operator", _MODULE)
        folder = made_once(cache, _are_made, _make)
    except BuildError as error:
        lacking("OPERATOR_API", f"the Prometheus operator's CRDs cannot be made: {error}")
    crds = []
    for kind in _KINDS:
        content = _file(folder, kind).read_bytes()
        crds.append(yaml.load(content, yaml.CSafeLoader))
    return crds


def _file(folder: Path, kind: str) -> Path:
    return folder / f"monitoring.coreos.com_{kind}.yaml"


def _are_made(folder: Path) -> bool:
    for kind in _KINDS:
        if not _file(folder, kind).is_file():
            return False
    return True


def _make(folder: Path) -> None:
    # The API has fields of type float; descriptions make up most of a CRD.
    command = [
        usable_go(),
        "run",
        *UNOPTIMIZED,
        "sigs.k8s.io/controller-tools/cmd/controller-gen",
        "crd:allowDangerousTypes=true,maxDescLen=0",
        f"paths={_API}",
        f"output:crd:dir={folder}",
    ]
    run_go(command, _MODULE)
