"""OSMO's pools and backends: where they stand in a document."""

from typing import Any

from tests.support.tables import each_case
from tests.support.workloads import ZONE
from toposcope.integrations.osmo.pool import POOL, pools_of, schedulers_of


@each_case("tables/integrations.yaml")
def test_where_pools_stand(document: dict[str, Any], names: list[str]) -> None:
    assert POOL.claims(document)
    assert [(topology.name, topology.levels) for topology in pools_of(document)] == [(name, (ZONE,)) for name in names]


@each_case("tables/integrations.yaml")
def test_what_is_no_pool(document: dict[str, Any]) -> None:
    assert not POOL.claims(document)


def test_backends() -> None:
    backend = {"backends": [{"name": "default", "scheduler_settings": {"scheduler_type": "kai"}}]}
    assert POOL.claims(backend)
    assert schedulers_of(backend) == {"default": "kai"}
