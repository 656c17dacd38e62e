"""docs/monitoring.md says what is there: its table of alerts, its scrape configuration."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.monitoring.support import MONITORING, alerts, documented, parsed_by

TEXT = MONITORING.read_text(encoding="utf-8")
ROW = re.compile(r"^\| \[(\w+)\]\(runbooks\.md#(\w+)\) \| (\w+) \| (\d+)m \|", re.MULTILINE)
LIMIT = re.compile(r"^time\(\) - .* > (\d+)$")


def minutes(rule: dict[str, Any]) -> int:
    """From the first moment to the alert: the limit of an age, and `for`."""
    age = LIMIT.match(rule["expr"])
    return int(rule["for"].removesuffix("m")) + (int(age[1]) // 60 if age else 0)


def test_the_table_of_alerts() -> None:
    expected = [(name, name.lower(), rule["labels"]["severity"], str(minutes(rule))) for name, rule in alerts().items()]
    assert ROW.findall(TEXT) == expected


@pytest.mark.parametrize("name", ["metrics.md", "runbooks.md"])
def test_promtool_parses_every_query(promtool: str, name: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```promql\n(.*?)```", (MONITORING.parent / name).read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    queries = [line for line in lines if line and not line.startswith("#")]
    assert queries
    parsed_by(promtool, queries, tmp_path)


def test_the_scrape_configuration_finds_pods_where_they_are_installed() -> None:
    """The rest of it is what the live test scrapes with; Debian's Prometheus is built without Kubernetes discovery."""
    jobs = {job["job_name"]: job["kubernetes_sd_configs"] for job in documented("scrape_configs")["scrape_configs"]}
    pods = [{"role": "pod", "namespaces": {"names": ["toposcope-system"]}}]
    assert jobs == {"toposcope-agent": pods, "toposcope-controller": pods, "toposcope-ui": pods}
