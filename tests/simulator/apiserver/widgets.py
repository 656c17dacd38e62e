"""A small custom resource that has one of everything a schema can say."""

from pathlib import Path
from typing import Any

import yaml

GROUP = "example.com"
WIDGETS = f"/apis/{GROUP}/v1/widgets"


def widget_crd() -> dict[str, Any]:
    """CRD of `Widget`."""
    file = Path(__file__).with_suffix(".yaml")
    crd: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return crd


def gizmo_crd() -> dict[str, Any]:
    """CRD that is the same but for its names."""
    crd = widget_crd()
    crd["metadata"]["name"] = f"gizmos.{GROUP}"
    crd["spec"]["names"] = {
        "plural": "gizmos",
        "kind": "Gizmo",
        "shortNames": ["gz"],
    }
    return crd


def widget(name: str = "w1", /, **spec: Any) -> dict[str, Any]:
    """Widget with a legal spec besides what is given."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"name": "abc", **spec},
    }
