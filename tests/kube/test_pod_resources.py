"""What pods request: quantities, init containers and sidecars, GPUs of every vendor."""

from typing import Any

import pytest
from tests.support.tables import each_case
from toposcope.kube.pod_resources import ContainerRequests, amount, amounts, gpu_count, is_gpu_part, pod_requests


@each_case("tables/kube.yaml")
def test_a_quantity_is_a_whole_number(resource: str, quantity: str | int, expected: int) -> None:
    assert amount(resource, quantity) == expected


@pytest.mark.parametrize("text", ["", "eight", "8 GB", "1e", "0x10", "--1", "1" * 50, "1KI", "1e9999"])
def test_what_is_no_quantity_is_refused_by_the_name_of_the_resource(text: str) -> None:
    with pytest.raises(ValueError, match=r"^nvidia\.com/gpu: .* is not a quantity"):
        amounts({"nvidia.com/gpu": text})


@each_case("tables/kube.yaml")
def test_what_a_pod_needs(
    containers: list[dict[str, int]], init: list[dict[str, Any]], more: dict[str, Any], needs: dict[str, int]
) -> None:
    assert pod_requests(containers, [ContainerRequests(**container) for container in init], **more) == needs


def test_gpus_of_every_vendor_count_and_parts_of_them_do_not() -> None:
    assert gpu_count({"nvidia.com/gpu": 8, "amd.com/gpu": 2, "nvidia.com/mig-1g.5gb": 7, "rdma/hca": 4, "cpu": 1}) == 10


@pytest.mark.parametrize("name", ["nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb.shared", "nvidia.com/gpu.shared"])
def test_parts_of_gpus(name: str) -> None:
    assert is_gpu_part(name)
