"""A small custom resource that has one of everything a schema can say."""

from typing import Any

GROUP = "example.com"
WIDGETS = f"/apis/{GROUP}/v1/widgets"


def widget_crd(**names: Any) -> dict[str, Any]:
    """CRD of `Widget`, with other names where wanted (`plural`, `kind`, `shortNames`)."""
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"], **names}
    text = {"type": "string"}
    part = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": text, "value": text, "weight": {"type": "integer", "default": 1}},
    }
    condition = {
        "type": "object",
        "required": ["type", "status"],
        "properties": dict.fromkeys(("type", "status", "reason", "message"), text),
    }
    spec = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
            "mode": {"type": "string", "enum": ["Auto", "Never"]},
            "port": {"x-kubernetes-int-or-string": True},
            "parts": {
                "type": "array",
                "maxItems": 3,
                "items": part,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "order": {"type": "array", "minItems": 1, "items": text},
            "extra": {"type": "object", "maxProperties": 2, "additionalProperties": text},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "maybe": {"type": "string", "nullable": True},
        },
    }
    conditions = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    status = {"type": "object", "properties": {"nodes": {"type": "integer"}, "conditions": conditions}}
    columns = [
        {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


def gizmo_crd() -> dict[str, Any]:
    """CRD that is the same but for its names."""
    return widget_crd(plural="gizmos", kind="Gizmo", shortNames=["gz"])


def widget(name: str = "w1", /, **spec: Any) -> dict[str, Any]:
    """Widget with a legal spec besides what is given."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"name": "abc", **spec}}
