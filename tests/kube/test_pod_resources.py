"""What pods request: quantities, init containers and sidecars, GPUs of every vendor."""

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


def test_containers_add_up() -> None:
    assert pod_requests([{"gpu": 2, "cpu": 1}, {"gpu": 1}]) == {"gpu": 3, "cpu": 1}


def test_an_init_container_counts_only_where_it_needs_more() -> None:
    init = [ContainerRequests({"cpu": 4, "gpu": 1}), ContainerRequests({"cpu": 1})]
    assert pod_requests([{"cpu": 2, "gpu": 2}], init) == {"cpu": 4, "gpu": 2}


def test_a_sidecar_stays_beside_what_comes_after_it() -> None:
    before, sidecar, after = ({"cpu": 5}, {"cpu": 2}, {"cpu": 4})
    init = [ContainerRequests(before), ContainerRequests(sidecar, sidecar=True), ContainerRequests(after)]
    # 5 before the sidecar, 2 + 4 beside it, 2 + 1 in the end.
    assert pod_requests([{"cpu": 1}], init) == {"cpu": 6}
    assert pod_requests([{"cpu": 5}], init) == {"cpu": 7}


def test_pod_level_resources_replace_the_sum_and_overhead_comes_on_top() -> None:
    found = pod_requests([{"cpu": 1, "gpu": 1}], overhead={"cpu": 3}, pod_level={"cpu": 10, "gpu": 5})
    assert found == {"cpu": 13, "gpu": 1}


def test_gpus_of_every_vendor_count_and_parts_of_them_do_not() -> None:
    assert gpu_count({"nvidia.com/gpu": 8, "amd.com/gpu": 2, "nvidia.com/mig-1g.5gb": 7, "rdma/hca": 4, "cpu": 1}) == 10


@pytest.mark.parametrize("name", ["nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb.shared", "nvidia.com/gpu.shared"])
def test_parts_of_gpus(name: str) -> None:
    assert is_gpu_part(name)
