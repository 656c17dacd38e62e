"""What pods request: quantities, init containers and sidecars, GPUs of every vendor."""

from typing import Any

import pytest
from toposcope.kube.pod_resources import (
    ContainerRequests,
    amount,
    amounts,
    gpu_count,
    is_gpu_part,
    is_whole,
    pod_requests,
)


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        pytest.param("nvidia.com/gpu", "8", 8, id="gpus-text"),
        pytest.param("nvidia.com/gpu", 8, 8, id="gpus-number"),
        pytest.param("cpu", "224", 224000, id="cpus"),
        pytest.param("cpu", "500m", 500, id="millicpus"),
        pytest.param("cpu", "0.1", 100, id="cpu-fraction"),
        pytest.param("cpu", "1n", 1, id="nanocpu"),
        pytest.param("memory", "2Gi", 2147483648, id="gibibytes"),
        pytest.param("memory", "2113462576Ki", 2164185677824, id="kibibytes"),
        pytest.param("memory", "1.5M", 1500000, id="megabytes"),
        pytest.param("memory", "1e3", 1000, id="exponent"),
        pytest.param("memory", "1E", 1000000000000000000, id="exabyte"),
        pytest.param("memory", "1Ei", 1152921504606846976, id="exbibyte"),
        pytest.param("memory", "100m", 1, id="millibytes"),
        pytest.param("pods", "110", 110, id="pods"),
        pytest.param("pods", ".5", 1, id="pod-fraction"),
    ],
)
def test_a_quantity_is_a_whole_number(resource: str, quantity: str | int, expected: int) -> None:
    assert amount(resource, quantity) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("eight", id="word"),
        pytest.param("8 GB", id="space"),
        pytest.param("1e", id="no-exponent"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("--1", id="two-signs"),
        pytest.param("1" * 50, id="huge"),
        pytest.param("1KI", id="upper-case-suffix"),
        pytest.param("1e9999", id="huge-exponent"),
    ],
)
def test_what_is_no_quantity_is_refused_by_the_name_of_the_resource(text: str) -> None:
    with pytest.raises(ValueError, match=r"^nvidia\.com/gpu: .* is not a quantity"):
        amounts({"nvidia.com/gpu": text})


@pytest.mark.parametrize(
    ("containers", "init", "more", "needs"),
    [
        pytest.param([{"gpu": 2, "cpu": 1}, {"gpu": 1}], [], {}, {"gpu": 3, "cpu": 1}, id="containers-add-up"),
        pytest.param(
            [{"cpu": 2, "gpu": 2}],
            [{"requests": {"cpu": 4, "gpu": 1}}, {"requests": {"cpu": 1}}],
            {},
            {"cpu": 4, "gpu": 2},
            id="an-init-container-counts-only-where-it-needs-more",
        ),
        pytest.param(
            [{"cpu": 1}],
            [{"requests": {"cpu": 5}}, {"requests": {"cpu": 2}, "is_sidecar": True}, {"requests": {"cpu": 4}}],
            {},
            {"cpu": 6},
            id="a-sidecar-stays-beside-what-comes-after-it",
        ),
        pytest.param(
            [{"cpu": 5}],
            [{"requests": {"cpu": 5}}, {"requests": {"cpu": 2}, "is_sidecar": True}, {"requests": {"cpu": 4}}],
            {},
            {"cpu": 7},
            id="a-sidecar-stays-beside-the-containers",
        ),
        pytest.param(
            [{"cpu": 1, "gpu": 1}],
            [],
            {"overhead": {"cpu": 3}, "pod_level": {"cpu": 10, "gpu": 5}},
            {"cpu": 13, "gpu": 1},
            id="pod-level-resources-replace-the-sum-and-overhead-comes-on-top",
        ),
    ],
)
def test_what_a_pod_needs(
    containers: list[dict[str, int]], init: list[dict[str, Any]], more: dict[str, Any], needs: dict[str, int]
) -> None:
    init_containers = [ContainerRequests(**container) for container in init]
    assert pod_requests(containers, init_containers, **more) == needs


def test_gpus_of_every_vendor_count_and_parts_of_them_do_not() -> None:
    assert (
        gpu_count(
            {
                "nvidia.com/gpu": 8,
                "amd.com/gpu": 2,
                "nvidia.com/mig-1g.5gb": 7,
                "rdma/hca": 4,
                "cpu": 1,
            }
        )
        == 10
    )


@pytest.mark.parametrize("name", ["nvidia.com/mig-3g.20gb", "nvidia.com/mig-1g.5gb.shared", "nvidia.com/gpu.shared"])
def test_parts_of_gpus(name: str) -> None:
    assert is_gpu_part(name)


@pytest.mark.parametrize(
    ("quantity", "whole"),
    [
        pytest.param(8, True, id="number"),
        pytest.param("8.0", True, id="with-a-point"),
        pytest.param("1500m", False, id="thousandths"),
        pytest.param("2000m", True, id="thousandths-of-a-whole"),
        pytest.param("0.5Ki", True, id="half-of-many"),
        pytest.param("eight", False, id="no-quantity"),
    ],
)
def test_whole_quantities(quantity: str | float, whole: bool) -> None:
    assert is_whole(quantity) == whole
