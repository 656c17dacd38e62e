"""Other projects' CRDs: their own files where those are at hand, and else what tests rely on of them.

A CRD of its project comes from the folder beside the repository or out of a Go module of a pinned version, which is
downloaded once. Without either there is `DESCRIBED`: names, fields and rules in this project's words, with the messages
that users see. tests/apiserver/test_upstream_crds.py holds one to the other.
"""

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import SHARED
from tools.apiserver.build import BuildError, cache_root, made_once, usable_go

Object = dict[str, Any]

_KUEUE_FOLDER = "config/components/crd/bases/kueue.x-k8s.io_"
_MODULES = {
    "sigs.k8s.io/kueue@v0.19.2": (
        "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=",
        {
            "kueue-topologies-v0.19": f"{_KUEUE_FOLDER}topologies.yaml",
            "kueue-resourceflavors-v0.19": f"{_KUEUE_FOLDER}resourceflavors.yaml",
        },
    ),
    "sigs.k8s.io/kueue@v0.14.0": (
        "h1:lDR34L42/k17opLfkZbZ+taymLaPpryj3ZBbvKqs/N4=",
        {"kueue-topologies-v0.14": f"{_KUEUE_FOLDER}topologies.yaml"},
    ),
    "sigs.k8s.io/kueue@v0.9.0": (
        "h1:vcbCv6AaF3wekC83djaa/9Z7cRaW05TNausgZ9u17Jg=",
        {"kueue-topologies-v0.9": f"{_KUEUE_FOLDER}topologies.yaml"},
    ),
    "github.com/NVIDIA/KAI-scheduler@v0.12.0": (
        "h1:3rhB0TdbJYNgOiZ6E0cAa+VJnr4srhoigJI/PkY85vI=",
        {"kai-topologies-v0.12": "deployments/kai-scheduler/crds/kai.scheduler_topologies.yaml"},
    ),
}
"""Module and version to its checksum and the CRDs in it."""


def upstream_crd(name: str) -> Object:
    """The CRD of that project and version, a copy of its own."""
    return json.loads(_text(name))


@functools.cache
def _text(name: str) -> str:
    return json.dumps(published(name) or described(name))


@functools.cache
def published(name: str) -> Object | None:
    """The CRD as its project publishes it; None where it is not to be had."""
    file = SHARED / "crds" / f"{name}.yaml"
    if not file.is_file():
        file = _downloaded() / f"{name}.yaml"
    return yaml.load(file.read_bytes(), yaml.CSafeLoader) if file.is_file() else None


@functools.cache
def _downloaded() -> Path:
    """The folder of the CRDs that come from Go modules; empty without Go or its module proxy."""
    folder = cache_root() / "crds" / "-".join(checksum[3:9].replace("/", "_") for checksum, _ in _MODULES.values())
    try:
        return made_once(folder, Path.is_dir, _download)
    except BuildError:
        return folder


def _download(folder: Path) -> None:
    command = [usable_go(), "mod", "download", "-json", *_MODULES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    decoder, rest = json.JSONDecoder(), done.stdout.strip()
    while rest:
        module, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
        checksum, files = _MODULES[f"{module['Path']}@{module['Version']}"]
        if module.get("Sum") != checksum:
            raise BuildError(f"{module['Path']}: {module.get('Error') or 'another checksum than the pinned one'}")
        for name, path in files.items():
            shutil.copy(Path(module["Dir"]) / path, folder / f"{name}.yaml")


# What follows describes them.

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WORD = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = rf"^({_LABEL}(\.{_LABEL})*/)?({_WORD})$"
_GROVE_KEY = f"^({_WORD}/)?{_WORD}$"
_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Object = {"type": "string"}


def _struct(needed: Sequence[str] = (), rules: Mapping[str, str] | None = None, /, **properties: Any) -> Object:
    """An object's schema with the names of required properties; `rules` are CEL by message."""
    schema: Object = {"type": "object", "properties": properties}
    if needed:
        schema["required"] = list(needed)
    return schema | _rules(rules or {})


def _open(**properties: Any) -> Object:
    """An object's schema that keeps what it does not describe."""
    return {**_ANY, "properties": properties}


def _rules(rules: Mapping[str, str]) -> Object:
    listed = [{"message": message, "rule": rule} for message, rule in rules.items()]
    return {"x-kubernetes-validations": listed} if listed else {}


def _text_schema(pattern: str, most: int, least: int = 1) -> Object:
    return {"type": "string", "minLength": least, "maxLength": most, "pattern": pattern}


def _list(items: Object, least: int | None = None, most: int | None = None) -> Object:
    limits = {name: limit for name, limit in (("minItems", least), ("maxItems", most)) if limit is not None}
    return {"type": "array", "items": items, **limits}


def _version(name: str, spec: Object, *, stored: bool = True, status: bool = False, **more: Any) -> Object:
    schema = _struct(spec=spec, status=_ANY) if status else _struct(spec=spec)
    subresources: Object = {"status": {}} if status else {}
    served = {"name": name, "served": True, "storage": stored, "subresources": subresources}
    return {**served, "schema": {"openAPIV3Schema": schema}, **more}


def _crd(group: str, kind: str, plural: str, *versions: Object, namespaced: bool = False, short: str = "") -> Object:
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    # A group under k8s.io needs the approval of its API; upstream's CRDs carry it too.
    approval = {"annotations": {"api-approved.kubernetes.io": "unapproved"}} if group.endswith("k8s.io") else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", **approval},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": names | ({"shortNames": short.split()} if short else {}),
            "versions": list(versions),
        },
    }


def stand_in(group: str, versions: str, kind: str, plural: str, *, namespaced: bool = True) -> Object:
    """A CRD that takes anything in each of these versions, the first of which is stored."""
    served = [
        {"name": name, "served": True, "storage": i == 0, "schema": {"openAPIV3Schema": _ANY}}
        for i, name in enumerate(versions.split())
    ]
    return _crd(group, kind, plural, *served, namespaced=namespaced)


_IMMUTABLE = {"field is immutable": "self == oldSelf"}
_UNIQUE = {"must be unique": "self.all(level, self.exists_one(other, other == level))"}
_HOSTNAME_LAST = {
    "the kubernetes.io/hostname label can only be used at the lowest level of topology": (
        "self.all(level, level.nodeLabel != 'kubernetes.io/hostname' || level == self[self.size() - 1])"
    )
}
_SINCE_KUEUE_0_10 = _IMMUTABLE | _UNIQUE | _HOSTNAME_LAST
_MUTABLE_ABOVE_HOSTNAME = {
    "levels are mutable only when kubernetes.io/hostname is the lowest level both before and after the change": (
        "self == oldSelf || (self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'"
        " && oldSelf[oldSelf.size() - 1].nodeLabel == 'kubernetes.io/hostname')"
    )
}
_ALIASES_EDITABLE = {
    "nodeLabel structure is immutable; only aliases may be edited": (
        "self.map(level, level.nodeLabel) == oldSelf.map(level, level.nodeLabel)"
    ),
    "nodeLabel must be unique": "self.all(level, self.exists_one(other, other.nodeLabel == level.nodeLabel))",
}


def _topology(rules: Mapping[str, str], most: int = 16, *, aliases: bool = False) -> Object:
    """The spec of a KAI or Kueue Topology."""
    key = _text_schema(_KEY, 316)
    level = _struct(["nodeLabel"], nodeLabel=key, **({"alias": key} if aliases else {}))
    return _struct(["levels"], levels=_list(level, 1, most) | _rules(rules))


def _kueue_topology(*versions: Object, short: str = "") -> Object:
    return _crd("kueue.x-k8s.io", "Topology", "topologies", *versions, short=short)


def _old_and_new(spec: Object, newest: Object | None = None) -> tuple[Object, Object]:
    """Kueue's two versions since v0.16."""
    return _version("v1beta1", spec, stored=False, deprecated=True), _version("v1beta2", newest or spec)


def _kai_topology(spec: Object) -> Object:
    return _crd("kai.scheduler", "Topology", "topologies", _version("v1alpha1", spec))


_FLAVOR = _struct(
    (),
    {
        "at least one nodeLabel is required when topology is set": (
            "!has(self.topologyName) || self.nodeLabels.size() > 0"
        ),
        "nodeLabels are immutable when topologyName is set": (
            "!has(oldSelf.topologyName) || (has(self.nodeLabels) && self.nodeLabels == oldSelf.nodeLabels)"
        ),
        "tolerations are immutable when topologyName is set": (
            "!has(oldSelf.topologyName) || has(self.tolerations) == has(oldSelf.tolerations) && "
            "(!has(self.tolerations) || self.tolerations == oldSelf.tolerations)"
        ),
        "topologyName is immutable when topologyName is set": (
            "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)"
        ),
    },
    nodeLabels={"type": "object", "additionalProperties": _TEXT, "maxProperties": 8, "x-kubernetes-map-type": "atomic"},
    nodeTaints=_list(_ANY, most=8),
    tolerations=_list(
        _struct(key=_TEXT, operator=_TEXT, value=_TEXT, effect=_TEXT, tolerationSeconds={"type": "integer"}), most=8
    ),
    topologyName={"type": "string", "maxLength": 253},
)

_DOMAIN = _text_schema(r"^[a-z][a-z0-9-]*$", 63)


def _grove_levels(domain: Object, most: int | None = None, rules: Mapping[str, str] | None = None) -> Object:
    level = _struct(["domain", "key"], domain=domain, key=_text_schema(_GROVE_KEY, 63))
    return _list(level, 1, most) | _rules(rules or {})


def _grove_topology(kind: str, plural: str, references: str, **more: Any) -> Object:
    """Grove's binding, and the unreleased kind before it: what differs is the name of the field for references."""
    reference = _struct(["schedulerName", "topologyReference"], schedulerName=_TEXT, topologyReference=_TEXT)
    spec = _struct(["levels"], levels=_grove_levels(_DOMAIN), **{references: _list(reference)})
    return _crd("grove.io", kind, plural, _version("v1alpha1", spec, status=True, **more), short="ct")


_BINDING = ("ClusterTopologyBinding", "clustertopologybindings", "schedulerTopologyBindings")
_COLUMNS = [
    {"name": "Domains", "type": "string", "jsonPath": ".spec.levels[*].domain"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

_PACK = _struct(
    (),
    {"pack must specify at least one of required or preferred": "has(self.required) || has(self.preferred)"},
    required=_DOMAIN,
    preferred=_DOMAIN,
)
_CONSTRAINT = _struct(
    (),
    {
        "topologyConstraint must specify pack or deprecated packDomain": "has(self.pack) || has(self.packDomain)",
        "must not set both pack.required and deprecated packDomain": (
            "!has(self.packDomain) || !has(self.pack) || !has(self.pack.required)"
        ),
    },
    topologyName=_TEXT,
    packDomain=_DOMAIN,
    pack=_PACK,
)
_DEPRECATED = "packDomain is deprecated and cannot be used on new workloads; use pack.required"


def _pod_clique_set() -> Object:
    by_name = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    part = _open(name=_TEXT, topologyConstraint=_CONSTRAINT) | {"required": ["name"]}
    template = _struct(
        ["cliques"], topologyConstraint=_CONSTRAINT, cliques=_list(part) | by_name, podCliqueScalingGroups=_list(part)
    )
    spec = _struct(["template"], replicas={"type": "integer", "default": 0}, template=template)
    version = _version("v1alpha1", spec, status=True)
    schema = version["schema"]["openAPIV3Schema"]
    schema["required"] = ["spec"]
    groups = "self.spec.template.podCliqueScalingGroups"
    without = "!has({0}.topologyConstraint) || !has({0}.topologyConstraint.packDomain)".format
    schema["x-kubernetes-validations"] = [
        {"rule": f"oldSelf.hasValue() || {rule}", "message": _DEPRECATED, "optionalOldSelf": True}
        for rule in (
            without("self.spec.template"),
            f"self.spec.template.cliques.all(part, {without('part')})",
            f"!has({groups}) || {groups}.all(part, {without('part')})",
        )
    ]
    return _crd("grove.io", "PodCliqueSet", "podcliquesets", version, namespaced=True, short="pcs")


def _pod_group() -> Object:
    constraint = _struct(topology=_TEXT, requiredTopologyLevel=_TEXT, preferredTopologyLevel=_TEXT)
    least_one, count = {"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 0}
    name = {"type": "string", "pattern": f"^{_LABEL}$"}
    part = _struct(["name"], name=name, parent=name, minMember=count, minSubGroup=count, topologyConstraint=constraint)
    spec = _struct(
        minMember=least_one,
        minSubGroup=least_one,
        queue=_TEXT,
        priorityClassName=_TEXT,
        subGroups=_list(part),
        topologyConstraint=constraint,
    )
    version = _version("v2alpha2", spec, status=True)
    return _crd("scheduling.run.ai", "PodGroup", "podgroups", version, namespaced=True, short="pg")


def _dynamo(
    version: str, name: str, parts: Mapping[str, Callable[[Object], Object]], needed: Sequence[str] = ()
) -> Object:
    """`parts` is the field of the deployment's parts with the schema around one."""
    domain = {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"}
    top = _struct([name], packDomain=domain, **{name: {"type": "string", "minLength": 1}})
    part = _open(topologyConstraint=_struct(needed, packDomain=domain))
    ((field, around),) = parts.items()
    spec = _open(topologyConstraint=top, **{field: around(part)})
    served = _version(version, spec, status=True)
    return _crd("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", served, namespaced=True, short="dgd")


_GROVE_ENUM = {"type": "string", "enum": ["region", "zone", "datacenter", "block", "rack", "host", "numa"]}
_GROVE_UNIQUE = {
    f"{field} must be unique across all levels": (
        f"self.all(level, self.exists_one(other, other.{field} == level.{field}))"
    )
    for field in ("domain", "key")
}

DESCRIBED: dict[str, Callable[[], Object]] = {
    "kueue-topologies-v0.9": lambda: _kueue_topology(_version("v1alpha1", _topology({}, most=8))),
    "kueue-topologies-v0.13": lambda: _kueue_topology(_version("v1alpha1", _topology(_SINCE_KUEUE_0_10))),
    "kueue-topologies-v0.14": lambda: _kueue_topology(_version("v1beta1", _topology(_SINCE_KUEUE_0_10))),
    "kueue-topologies-v0.19": lambda: _kueue_topology(*_old_and_new(_topology(_SINCE_KUEUE_0_10)), short="topo"),
    "kueue-topologies-main": lambda: _kueue_topology(
        *_old_and_new(_topology(_SINCE_KUEUE_0_10), _topology(_MUTABLE_ABOVE_HOSTNAME | _UNIQUE | _HOSTNAME_LAST)),
        short="topo",
    ),
    "kueue-resourceflavors-v0.19": lambda: _crd(
        "kueue.x-k8s.io", "ResourceFlavor", "resourceflavors", *_old_and_new(_FLAVOR), short="flavor flavors rf"
    ),
    "kai-topologies-v0.12": lambda: _kai_topology(_topology(_SINCE_KUEUE_0_10)),
    "kai-topologies-v0.14": lambda: _kai_topology(_topology(_SINCE_KUEUE_0_10)),
    "kai-topologies-v0.17": lambda: _kai_topology(_topology(_ALIASES_EDITABLE | _HOSTNAME_LAST, aliases=True)),
    "kai-podgroups-v0.17": _pod_group,
    "grove-clustertopologies-alpha4": lambda: _crd(
        *("grove.io", "ClusterTopology", "clustertopologies"),
        _version("v1alpha1", _struct(["levels"], levels=_grove_levels(_GROVE_ENUM, 7, _GROVE_UNIQUE))),
        short="ct",
    ),
    "grove-clustertopologies-unreleased": lambda: _grove_topology(
        "ClusterTopology", "clustertopologies", "schedulerTopologyReferences"
    ),
    "grove-clustertopologybindings-alpha9": lambda: _grove_topology(*_BINDING),
    "grove-clustertopologybindings-alpha10": lambda: _grove_topology(*_BINDING, additionalPrinterColumns=_COLUMNS),
    "grove-podcliquesets-alpha12": _pod_clique_set,
    "dynamo-dynamographdeployments-v1alpha1-reduced": lambda: _dynamo(
        "v1alpha1",
        "topologyProfile",
        {"services": lambda part: {"type": "object", "additionalProperties": part}},
        ["packDomain"],
    ),
    "dynamo-dynamographdeployments-v1beta1-reduced": lambda: _dynamo(
        "v1beta1", "clusterTopologyName", {"components": _list}
    ),
}
"""Project, kind and first version that has it, to the CRD."""


def described(name: str) -> Object:
    """The CRD in this project's words; raises KeyError."""
    return DESCRIBED[name]()
