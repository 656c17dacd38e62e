"""A real Prometheus that scrapes programs on this machine every two seconds and evaluates the project's rules."""

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

import yaml
from tests.monitoring.support import documented, rule_groups
from tests.support.api import wait_until
from tools.apiserver.client import HttpClient
from tools.apiserver.server import free_port

_EVALUATION = 0.5
"""Seconds from one evaluation of the rules to the next."""

_META = "__meta_kubernetes_pod_"


class Pod(NamedTuple):
    """What Kubernetes discovery would say of a pod: here every pod has a port of this machine to itself."""

    port: int
    name: str
    component: str
    node: str
    address: str = "127.0.0.1"

    def target(self) -> dict[str, Any]:
        """As a static target with the labels that discovery gives it."""
        labels = {
            f"{_META}name": self.name,
            f"{_META}node_name": self.node,
            f"{_META}label_app_kubernetes_io_component": self.component,
            f"{_META}container_port_name": "metrics",
        }
        return {
            "targets": [f"{self.address}:{self.port}"],
            "labels": labels,
        }


def rules_without_delay() -> dict[str, Any]:
    """The rules with every `for` left out: promtool's unit tests know about time, this server about expressions."""
    groups = rule_groups()
    for group in groups["groups"]:
        for rule in group["rules"]:
            del rule["for"]
    return groups


class PrometheusServer:
    """One server with an empty database and the documented configuration, which finds `pods`; a context manager."""

    def __init__(self, program: str, folder: Path, pods: Sequence[Pod]) -> None:
        self._program = program
        self._folder = folder
        self._port = free_port()
        self._client = HttpClient(f"http://127.0.0.1:{self._port}", None)
        folder.mkdir()
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules_without_delay()))
        interval = {
            "scrape_interval": "2s",
            "scrape_timeout": "2s",
            "evaluation_interval": f"{_EVALUATION * 1000:.0f}ms",
        }
        configuration = documented("scrape_configs") | {"global": interval}
        for job in configuration["scrape_configs"]:
            del job["kubernetes_sd_configs"]
            job["static_configs"] = [pod.target() for pod in pods]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(configuration))

    def __enter__(self) -> Self:
        flags = [
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, *flags],
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )
        wait_until(
            self._ready,
            f"Prometheus serves; its log is {self._folder / 'log'}",
        )
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool:
        assert self._process.poll() is None, (self._folder / "log").read_text()
        with contextlib.suppress(OSError):
            return self._client.request("GET", "/-/ready").code == 200
        return False

    def _ask(self, path: str, **query: str) -> Any:
        parameters = urlencode(query)
        answer = self._client.request("GET", f"/api/v1/{path}?{parameters}")
        assert answer.code == 200, answer.body
        return answer.body["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an expression now."""
        answer = self._ask("query", query=expression)
        samples: list[dict[str, Any]] = answer["result"]
        return samples

    def broken_rules(self) -> list[str]:
        """What is wrong with rules that could not be evaluated."""
        broken = []
        for group in self._ask("rules")["groups"]:
            for rule in group["rules"]:
                if rule["health"] == "err":
                    broken.append(f"{rule['name']}: {rule['lastError']}")
        return broken

    def firing(self) -> dict[str, dict[str, Any]]:
        """The alerts that fire after the next evaluation, one of each name, with labels and rendered annotations."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EVALUATION)
            raise AssertionError((self._folder / "log").read_text())
        firing = {}
        for alert in self._ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                name = alert["labels"]["alertname"]
                firing[name] = alert
        return firing
