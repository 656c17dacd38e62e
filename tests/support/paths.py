"""Where things are in the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MANIFESTS = ROOT / "manifests"
CRD = MANIFESTS / "crds" / "gpu.topology_clustertopologies.yaml"
FIXTURES = ROOT / "tests" / "fixtures"

SHARED = Path(os.environ.get("TOPOSCOPE_SHARED") or ROOT.parent / "shared")
"""Captures of machines and other projects' CRDs beside the repository: where they are, tests cover them as well."""
