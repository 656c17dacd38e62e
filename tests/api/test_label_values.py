import pytest
from tests.support.tables import each_case
from toposcope.api.label_values import count_of, is_label_value, is_name, label_safe, short_name


@pytest.mark.parametrize("text", ["", "a", "4-4", "6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766", "x" * 63])
def test_what_the_api_server_accepts(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize("text", ["-a", "a.", "a b", "ä", "x" * 64, "a\n", "٣"])
def test_what_the_api_server_refuses(text: str) -> None:
    assert not is_label_value(text)


@each_case("topology.yaml")
def test_products_read_as_in_gpu_feature_discovery(product: str, label: str | None) -> None:
    assert label_safe(product) == label


def test_a_node_name_is_its_own_short_name_until_it_is_too_long() -> None:
    assert short_name("gpu-17.example.com") == "gpu-17.example.com"
    assert short_name("x" * 63) == "x" * 63
    long = [f"{'x' * 60}.cluster-{i}.example.com" for i in range(2)]
    short = [short_name(name) for name in long]
    assert all(is_label_value(name) for name in short)
    assert short[0] != short[1]


def test_cutting_a_name_leaves_no_dot_or_dash_at_the_end() -> None:
    assert short_name("X" * 51 + "." + "y" * 60)[50:52] == "X-"
    assert short_name("x" * 52 + "y" * 60)[51:53] == "x-"


COUNTS = {None: None, "": None, "0": 0, "9999": 9999, "10000": None, "1x": None, "-1": None, "\u0663": None}


@pytest.mark.parametrize(("value", "count"), COUNTS.items(), ids=ascii)
def test_a_count_has_up_to_four_decimal_digits(value: str | None, count: int | None) -> None:
    assert count_of(value) == count


def test_a_name_is_a_subdomain_of_up_to_253_characters() -> None:
    assert [name for name in ("a.b-1", "x" * 253, "x" * 254, "", "A", "-a") if is_name(name)] == ["a.b-1", "x" * 253]
