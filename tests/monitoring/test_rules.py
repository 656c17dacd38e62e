"""The alerts: read and unit-tested by promtool, each with a runbook, all about what is documented."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.monitoring import support
from tests.support.paths import ROOT

RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
RESOURCE = support.COMPONENTS / "prometheus-rule" / "prometheusrule.yaml"
PARTS = ("**Meaning:**", "**Impact:**", "**Check:**", "**Resolves:**")


@pytest.fixture(params=support.alerts())
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    rule: dict[str, Any] = support.alerts()[request.param]
    return rule


def section(name: str) -> str:
    """What docs/runbooks.md says about an alert."""
    _, _, rest = RUNBOOKS.partition(f"\n## {name}\n")
    return rest.partition("\n## ")[0]


def test_promtool_reads_the_rules(promtool: str) -> None:
    printed = support.run_promtool(promtool, "check", "rules", support.RULES)
    assert f"{len(support.alerts())} rules found" in printed


@pytest.mark.parametrize("file", support.UNIT_TESTS, ids=lambda file: file.stem)
def test_alerts_begin_and_end_when_they_should(promtool: str, file: Path) -> None:
    assert "SUCCESS" in support.run_promtool(promtool, "test", "rules", file)


def test_every_alert_is_unit_tested_firing_and_resolved(alert: dict[str, Any]) -> None:
    moments = []
    for test in support.unit_tests():
        if test["alertname"] == alert["alert"]:
            moments.append("firing" if test["exp_alerts"] else "quiet")
    assert moments[0] == "quiet"  # not at once
    assert "firing" in moments
    assert moments[-1] == "quiet"


def make_rules(folder: Path, *arguments: str) -> str:
    """The resource as the target makes it that an administrator calls, run where it can do no harm."""
    for name in ("rules.yaml", "header.yaml"):
        source = support.COMPONENTS / "prometheus-rule" / name
        (folder / name).write_bytes(source.read_bytes())
    command = [
        "make",
        "--silent",
        "-C",
        str(ROOT),
        "rules",
        f"RULES={folder}",
        *arguments,
    ]
    subprocess.run(command, check=True, timeout=60)
    return (folder / "prometheusrule.yaml").read_text()


def test_resource_is_made_from_the_rules(tmp_path: Path) -> None:
    text = RESOURCE.read_text()
    assert make_rules(tmp_path) == text, "run `make rules`"
    resource = yaml.load(text, yaml.CSafeLoader)
    assert resource["spec"] == support.rule_groups()


def test_resource_links_to_runbooks_elsewhere(tmp_path: Path) -> None:
    text = make_rules(tmp_path, "RUNBOOKS=https://example.com/runbooks")
    resource = yaml.load(text, yaml.CSafeLoader)
    alerts = support.alerts_of(resource["spec"])
    assert alerts.keys() == support.alerts().keys()
    for name, rule in alerts.items():
        url = rule["annotations"]["runbook_url"]
        assert url == f"https://example.com/runbooks#{name.lower()}"


def test_every_metric_is_documented(alert: dict[str, Any]) -> None:
    asked = support.metrics_in(alert["expr"])
    assert asked <= support.documented_metrics()


def test_alert_tells_what_how_bad_and_where_to_read_on(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    assert name.startswith("Toposcope")
    assert alert["labels"]["severity"] in {"warning", "critical"}
    annotations = alert["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook_url"}
    # As GitHub and mkdocs make an anchor of a heading of one word.
    assert annotations["runbook_url"] == f"docs/runbooks.md#{name.lower()}"


def test_every_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    told = section(alert["alert"])
    places = [told.find(part) for part in PARTS]
    assert -1 not in places
    assert sorted(places) == places
    assert "```console" in told


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    headings = re.findall(r"^## (Toposcope\w+)$", RUNBOOKS, re.MULTILINE)
    assert headings == list(support.alerts())


def test_runbooks_ask_for_metrics_that_there_are() -> None:
    assert support.metrics_in(RUNBOOKS) <= support.documented_metrics()


TEXT = support.MONITORING.read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\w+)\]\(runbooks\.md#(\w+)\) \| (\w+) \| (\d+)m \|", re.MULTILINE)
LIMIT = re.compile(r"^time\(\) - .* > (\d+)$")


def minutes(rule: dict[str, Any]) -> int:
    """From the first moment to the alert: the limit of an age, and `for`."""
    pending = int(rule["for"].removesuffix("m"))
    age = LIMIT.match(rule["expr"])
    if age is None:
        return pending
    return pending + int(age[1]) // 60


def test_table_of_alerts_is_complete() -> None:
    expected = []
    for name, rule in support.alerts().items():
        row = (
            name,
            name.lower(),
            rule["labels"]["severity"],
            str(minutes(rule)),
        )
        expected.append(row)
    assert ROW.findall(TEXT) == expected


@pytest.mark.parametrize("name", ["metrics.md", "runbooks.md"])
def test_promtool_parses_every_query(promtool: str, name: str, tmp_path: Path) -> None:
    page = support.MONITORING.parent / name
    text = page.read_text(encoding="utf-8")
    queries = []
    for block in re.findall(r"```promql\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            query = line.strip()
            if query and not query.startswith("#"):
                queries.append(query)
    assert queries
    support.parsed_by(promtool, queries, tmp_path)


def test_scrape_configuration_finds_pods_where_they_are_installed() -> None:
    """The rest of it is what the live test scrapes with; Debian's Prometheus is built without Kubernetes discovery."""
    configuration = support.documented("scrape_configs")
    jobs = configuration["scrape_configs"]
    names = [job["job_name"] for job in jobs]
    assert names == ["toposcope-agent", "toposcope-controller", "toposcope-ui"]
    discovery = {
        "role": "pod",
        "namespaces": {"names": ["toposcope-system"]},
    }
    for job in jobs:
        assert job["kubernetes_sd_configs"] == [discovery]
