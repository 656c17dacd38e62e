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
PARTS = ("**What it means.**", "**What breaks.**", "**What to check.**", "**How it ends.**")


@pytest.fixture(params=support.alerts())
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    rule: dict[str, Any] = support.alerts()[request.param]
    return rule


def section(name: str) -> str:
    """What docs/runbooks.md says about an alert."""
    _, _, rest = RUNBOOKS.partition(f"\n## {name}\n")
    return rest.partition("\n## ")[0]


def test_promtool_reads_the_rules(promtool: str) -> None:
    assert f"{len(support.alerts())} rules found" in support.run_promtool(promtool, "check", "rules", support.RULES)


@pytest.mark.parametrize("file", support.UNIT_TESTS, ids=lambda file: file.stem)
def test_alerts_begin_and_end_when_they_should(promtool: str, file: Path) -> None:
    assert "SUCCESS" in support.run_promtool(promtool, "test", "rules", file)


def test_every_alert_is_unit_tested_firing_and_resolved(alert: dict[str, Any]) -> None:
    moments = [bool(test["exp_alerts"]) for test in support.unit_tests() if test["alertname"] == alert["alert"]]
    assert moments[0] is False  # not at once
    assert True in moments
    assert moments[-1] is False


def test_the_resource_is_made_from_the_rules(tmp_path: Path) -> None:
    """By the target that an administrator calls; run where it can do no harm."""
    for name in ("rules.yaml", "header.yaml"):
        (tmp_path / name).write_bytes((support.COMPONENTS / "prometheus-rule" / name).read_bytes())
    command = ["make", "--silent", "-C", str(ROOT), "rules", f"RULES={tmp_path}"]
    subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "prometheusrule.yaml").read_text() == RESOURCE.read_text(), "run `make rules`"
    made = yaml.safe_load(RESOURCE.read_text())
    assert made["spec"] == yaml.safe_load(support.RULES.read_text())
    subprocess.run([*command, "RUNBOOKS=https://example.com/runbooks"], check=True, timeout=60)
    elsewhere = yaml.safe_load((tmp_path / "prometheusrule.yaml").read_text())["spec"]
    links = [r["annotations"]["runbook_url"] for g in elsewhere["groups"] for r in g["rules"]]
    assert links == [f"https://example.com/runbooks#{name.lower()}" for name in support.alerts()]


def test_every_metric_is_documented(alert: dict[str, Any]) -> None:
    assert support.metrics_in(alert["expr"]) <= support.documented_metrics()


def test_an_alert_tells_what_how_bad_and_where_to_read_on(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    assert name.startswith("Toposcope")
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    # As GitHub and mkdocs make an anchor of a heading of one word.
    assert alert["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"


def test_every_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    told = section(alert["alert"])
    places = [told.find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)
    assert "```console" in told


def test_no_runbook_is_about_an_alert_that_is_gone() -> None:
    assert re.findall(r"^## (Toposcope\w+)$", RUNBOOKS, re.MULTILINE) == list(support.alerts())


def test_runbooks_ask_for_metrics_that_there_are() -> None:
    assert support.metrics_in(RUNBOOKS) <= support.documented_metrics()


TEXT = support.MONITORING.read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\w+)\]\(runbooks\.md#(\w+)\) \| (\w+) \| (\d+)m \|", re.MULTILINE)
LIMIT = re.compile(r"^time\(\) - .* > (\d+)$")


def minutes(rule: dict[str, Any]) -> int:
    """From the first moment to the alert: the limit of an age, and `for`."""
    age = LIMIT.match(rule["expr"])
    return int(rule["for"].removesuffix("m")) + (int(age[1]) // 60 if age else 0)


def test_the_table_of_alerts() -> None:
    expected = [
        (name, name.lower(), rule["labels"]["severity"], str(minutes(rule))) for name, rule in support.alerts().items()
    ]
    assert ROW.findall(TEXT) == expected


@pytest.mark.parametrize("name", ["metrics.md", "runbooks.md"])
def test_promtool_parses_every_query(promtool: str, name: str, tmp_path: Path) -> None:
    blocks = re.findall(
        r"```promql\n(.*?)```", (support.MONITORING.parent / name).read_text(encoding="utf-8"), re.DOTALL
    )
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    queries = [line for line in lines if line and not line.startswith("#")]
    assert queries
    support.parsed_by(promtool, queries, tmp_path)


def test_the_scrape_configuration_finds_pods_where_they_are_installed() -> None:
    """The rest of it is what the live test scrapes with; Debian's Prometheus is built without Kubernetes discovery."""
    jobs = {
        job["job_name"]: job["kubernetes_sd_configs"] for job in support.documented("scrape_configs")["scrape_configs"]
    }
    pods = [{"role": "pod", "namespaces": {"names": ["toposcope-system"]}}]
    assert jobs == {"toposcope-agent": pods, "toposcope-controller": pods, "toposcope-ui": pods}
