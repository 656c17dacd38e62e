import pytest

from toposcope.kube.pod_resources import amount, amounts


@pytest.mark.parametrize(
    ("resource", "quantity", "expected"),
    [
        ("nvidia.com/gpu", "8", 8),
        ("nvidia.com/gpu", 8, 8),
        ("cpu", "224", 224_000),
        ("cpu", "500m", 500),
        ("cpu", "0.1", 100),
        ("cpu", "1n", 1),
        ("memory", "2Gi", 2 << 30),
        ("memory", "2113462576Ki", 2113462576 << 10),
        ("memory", "1.5M", 1_500_000),
        ("memory", "1e3", 1000),
        ("memory", "1E", 10**18),
        ("memory", "1Ei", 1 << 60),
        ("memory", "100m", 1),
        ("pods", "110", 110),
        ("pods", ".5", 1),
    ],
)
def test_a_quantity_is_a_whole_number(resource: str, quantity: str | int, expected: int) -> None:
    assert amount(resource, quantity) == expected


@pytest.mark.parametrize("text", ["", "eight", "8 GB", "1e", "0x10", "--1", "1" * 50, "1KI", "1e9999"])
def test_what_is_no_quantity_is_refused_by_the_name_of_the_resource(text: str) -> None:
    with pytest.raises(ValueError, match=r"^nvidia\.com/gpu: .* is no quantity"):
        amounts({"nvidia.com/gpu": text})
