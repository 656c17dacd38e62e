"""What the monitoring tests share: the rules, the dashboard's queries, the names of metrics."""

import json
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.support.paths import ROOT

COMPONENTS = ROOT / "manifests" / "components"
RULES = COMPONENTS / "prometheus-rule" / "rules.yaml"
MONITORING = ROOT / "docs" / "programs.md"
DASHBOARD = COMPONENTS / "grafana-dashboard" / "dashboard.json"
UNIT_TESTS = sorted(Path(__file__).parent.glob("*_test.yaml"))

# What Grafana puts in before it asks Prometheus.
_VARIABLES = {"$__rate_interval": "1m", "$topology": ".*"}
_METRIC = re.compile(r"\btoposcope_\w+")
_OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def rule_groups() -> dict[str, Any]:
    """The rules file."""
    loaded: dict[str, Any] = yaml.load(RULES.read_text(), yaml.CSafeLoader)
    return loaded


def alerts() -> dict[str, dict[str, Any]]:
    """Every alerting rule by its name."""
    return alerts_of(rule_groups())


def alerts_of(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every alerting rule of a document by its name."""
    rules = {}
    for group in document["groups"]:
        for rule in group["rules"]:
            rules[rule["alert"]] = rule
    return rules


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def panels() -> list[dict[str, Any]]:
    """The panels that show something; rows are only headings."""
    shown = []
    for panel in dashboard()["panels"]:
        if panel["type"] != "row":
            shown.append(panel)
    return shown


def panel_queries() -> dict[str, str]:
    """Every query of every panel as Prometheus gets it, by the panel's title and the query's letter."""
    queries = {}
    for panel in panels():
        for target in panel["targets"]:
            name = f"{panel['title']} {target['refId']}"
            queries[name] = as_sent(target["expr"])
    return queries


def as_sent(query: str) -> str:
    """A query of the dashboard with Grafana's variables filled in."""
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    return query


def metrics_in(query: str) -> set[str]:
    """Our metrics in a query, by the names that docs/metrics.md gives them."""
    names = set()
    for series in _METRIC.findall(query):
        names.add(_OF_A_HISTOGRAM.sub("", series))
    return names


def documented_metrics() -> set[str]:
    """Every metric of docs/metrics.md."""
    page = ROOT / "docs" / "metrics.md"
    text = page.read_text(encoding="utf-8")
    return set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))


def documented_overlay() -> dict[str, Any]:
    """The base with the components that docs/programs.md has added to an overlay for monitoring."""
    page = MONITORING.read_text(encoding="utf-8")
    (sentence,) = re.findall(r"Add the \[components\]\(\S+\) (.*?) to your overlay", page, re.DOTALL)
    components = re.findall(r"`([\w-]+)`", sentence)
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["manifests/base"],
        "components": [f"manifests/components/{name}" for name in components],
    }


def documented(word: str) -> dict[str, Any]:
    """The one piece of YAML in docs/programs.md that holds a word."""
    page = MONITORING.read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (block,) = [block for block in blocks if word in block]
    text = textwrap.dedent(block)
    loaded: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return loaded


def unit_tests() -> Iterator[Mapping[str, Any]]:
    """Each moment at which a unit test of promtool looks at an alert."""
    for file in UNIT_TESTS:
        for case in yaml.load(file.read_text(), yaml.CSafeLoader)["tests"]:
            yield from case["alert_rule_test"]


def parsed_by(promtool: str, queries: Sequence[str], folder: Path) -> None:
    """Have promtool parse queries, as the rules that it takes."""
    rules = []
    for number, query in enumerate(queries):
        rule = {
            "record": f"query:{number}",
            "expr": query,
        }
        rules.append(rule)
    document = {"groups": [{"name": "queries", "rules": rules}]}
    file = folder / "queries.yaml"
    file.write_text(yaml.safe_dump(document))
    printed = run_promtool(promtool, "check", "rules", file)
    assert f"{len(queries)} rules found" in printed


def run_promtool(promtool: str, *arguments: str | Path) -> str:
    """What promtool prints; it must be content."""
    done = subprocess.run(
        [promtool, *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
