"""From what kustomize renders to Helm templates, one file an object."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tools.chart.weave import Piece, weave

SWITCHES: Final = {
    "default-runtime": "components.defaultRuntime",
    "grafana-dashboard": "components.grafanaDashboard",
    "host-sysfs": "components.hostSysfs",
    "network-policy": "components.networkPolicy",
    "nvidia-labels": "components.nvidiaLabels",
    "pod-monitor": "components.podMonitor",
    "privileged-runtime": "components.privilegedRuntime",
    "prometheus-rule": "components.prometheusRule",
    "ui": "ui.enabled",
}
"""Component to the value that switches it on."""
PLATFORMS: Final = ("aks", "bottlerocket", "eks", "gke", "openshift")
"""Components of which the value `platform` names one."""
OPTIONS: Final = (*SWITCHES, *PLATFORMS)

_PRUNE: Final = ".Values.prune.onUninstall"
_ELSEWHERE: Final = frozenset({"CustomResourceDefinition", "Namespace"})
"""The first goes where Helm wants it, the second is made before a release can be."""
_IMAGE: Final = re.compile(r"^( +)image: toposcope:\S+$")
_VALUES: Final = (
    (_IMAGE, r'\1image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"'),
    (re.compile(r"^( +)replicas: 2$"), r"\1replicas: {{ .Values.controller.replicas }}"),
    (re.compile(r"^( +app\.kubernetes\.io/managed-by:) kustomize$"), r"\1 {{ .Release.Service }}"),
)
_PULL_SECRETS: Final = re.compile(r"^( +)serviceAccountName: ")
_TOLERATIONS: Final = re.compile(r"^( +)tolerations:$")
_BRACES: Final = re.compile(r"\{\{|\}\}")
"""Prometheus and Grafana write their placeholders as Helm writes its own."""


def objects(rendered: str) -> dict[str, list[str]]:
    """The lines of each object that is a template, by a name for its file."""
    found = {}
    for document in rendered.removesuffix("\n").split("\n---\n"):
        kind, name = (_field(document, pattern) for pattern in (r"^kind: (\S+)$", r"^  name: (\S+)$"))
        if kind not in _ELSEWHERE:
            namespace = "-default" if re.search(r"^  namespace: default$", document, re.MULTILINE) else ""
            found[f"{kind.lower()}-{name}{namespace}.yaml"] = document.split("\n")
    return found


def _field(document: str, pattern: str) -> str:
    match = re.search(pattern, document, re.MULTILINE)
    if match is None:
        raise ValueError(f"no line {pattern} in an object that kustomize rendered: {document[:80]!r}")
    return match[1]


def woven(base: str, variants: Mapping[str, str]) -> dict[str, list[Piece]]:
    """The pieces of each file, out of what kustomize renders of the base and of the base with each component."""
    plain = objects(base)
    others = {option: objects(text) for option, text in variants.items()}
    names = dict.fromkeys(name for each in (plain, *others.values()) for name in each)
    return {
        name: weave(plain.get(name, []), {option: found.get(name, []) for option, found in others.items()})
        for name in names
    }


def template(pieces: Sequence[Piece]) -> str:
    """The text of one template."""
    lines = []
    for piece in pieces:
        condition = _condition(piece)
        body = [text for line in piece.lines for text in _with_values(line)]
        lines += [f"{{{{- if {condition} }}}}", *body, "{{- end }}"] if condition else body
    return "".join(f"{line}\n" for line in lines)


def pruning(rendered: str) -> dict[str, str]:
    """The templates of the prune Job and its rights: hooks that are there while the release is deleted, if wished.

    Raises ValueError for an object with annotations of its own, beside which those of the hook could not stand.
    """
    found = {}
    for name, lines in objects(rendered).items():
        at = lines.index("metadata:") + 1
        if lines[at] == "  annotations:":
            raise ValueError(f"{name} has annotations; add those of the hook to them")
        hook = (
            "  annotations:",
            "    helm.sh/hook: pre-delete",
            # Rights before the Job that needs them.
            f'    helm.sh/hook-weight: "{0 if name.startswith("job-") else -5}"',
            # What failed stays to be read, and makes room for the next try.
            "    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded",
        )
        body = [text for line in (*lines[:at], *hook, *lines[at:]) for text in _with_values(line)]
        found[f"prune-{name}"] = "".join(f"{line}\n" for line in (f"{{{{- if {_PRUNE} }}}}", *body, "{{- end }}"))
    return found


def _condition(piece: Piece) -> str:
    """When the lines are there, in Helm's words; nothing where they always are."""
    wanted = [_chosen(option) for option in sorted(piece.only_with)]
    conditions = [f"(or {' '.join(wanted)})" if len(wanted) > 1 else wanted[0]] if wanted else []
    conditions += [f"(not {_chosen(option)})" for option in sorted(piece.never_with)]
    return f"and {' '.join(conditions)}" if len(conditions) > 1 else "".join(conditions)


def _chosen(option: str) -> str:
    return f".Values.{SWITCHES[option]}" if option in SWITCHES else f'(eq .Values.platform "{option}")'


def _with_values(line: str) -> list[str]:
    """A line as it stands in a template, with what values add before or after it."""
    line = _BRACES.sub(lambda found: f'{{{{ "{found[0]}" }}}}', line)
    for pattern, replacement in _VALUES:
        line = pattern.sub(replacement, line)
    secrets, tolerations = _PULL_SECRETS.match(line), _TOLERATIONS.match(line)
    if secrets:
        return [*_list("imagePullSecrets", secrets[1], "image.pullSecrets"), line]
    if tolerations:
        return [line, *_list("", tolerations[1], "agent.tolerations")]
    return [line]


def _list(field: str, indent: str, value: str) -> list[str]:
    head = [f"{indent}{field}:"] if field else []
    body = f"{indent}{{{{- toYaml . | nindent {len(indent)} }}}}"
    return [f"{{{{- with .Values.{value} }}}}", *head, body, "{{- end }}"]
