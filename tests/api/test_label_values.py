"""Label values and names that the API server accepts."""

import pytest
from toposcope.api.label_values import count_of, is_label_value, is_name, label_safe, short_name


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("a", id="letter"),
        pytest.param("4-4", id="dash"),
        pytest.param("6a8ab8c1-24e4-4fd1-9d5c-0d9f3fd6a1b2.32766", id="clique"),
        pytest.param("x" * 63, id="longest"),
    ],
)
def test_value_that_the_api_server_accepts_is_one(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("-a", id="dash-first"),
        pytest.param("a.", id="dot-last"),
        pytest.param("a b", id="blank"),
        pytest.param("ä", id="umlaut"),
        pytest.param("x" * 64, id="too-long"),
        pytest.param("a\n", id="end-of-line"),
        pytest.param("٣", id="other-digit"),
    ],
)
def test_value_that_the_api_server_refuses_is_none(text: str) -> None:
    assert not is_label_value(text)


@pytest.mark.parametrize(
    ("product", "label"),
    [
        pytest.param(
            "NVIDIA H100 80GB HBM3",
            "NVIDIA-H100-80GB-HBM3",
            id="spaces",
        ),
        pytest.param(
            "Tesla V100-SXM2-32GB",
            "Tesla-V100-SXM2-32GB",
            id="dashes",
        ),
        pytest.param(
            "NVIDIA RTX™ 6000 (Ada)",
            "NVIDIA-RTX-6000-Ada",
            id="trademark-and-brackets",
        ),
        pytest.param(
            "  spaced  ",
            "spaced",
            id="spaces-around",
        ),
        pytest.param(
            "X\u00a0-\tX-",
            "X---X",
            id="other-spaces",
        ),
        pytest.param(
            "☃",
            None,
            id="nothing-left",
        ),
        pytest.param(
            "",
            None,
            id="empty",
        ),
        pytest.param(
            "x" * 80,
            "x" * 63,
            id="too-long",
        ),
    ],
)
def test_product_reads_as_in_gpu_feature_discovery(product: str, label: str | None) -> None:
    assert label_safe(product) == label


@pytest.mark.parametrize("name", ["gpu-17.example.com", "x" * 63], ids=["dots", "longest"])
def test_node_name_that_fits_is_its_own_short_name(name: str) -> None:
    assert short_name(name) == name


def test_long_node_names_keep_different_short_names() -> None:
    beginning = "x" * 60
    first = short_name(f"{beginning}.cluster-0.example.com")
    second = short_name(f"{beginning}.cluster-1.example.com")
    assert is_label_value(first)
    assert is_label_value(second)
    assert first != second


def test_short_name_has_no_dot_or_dash_where_it_is_cut() -> None:
    rest = "y" * 60
    cut_at_a_dot = short_name("X" * 51 + "." + rest)
    assert cut_at_a_dot[50:52] == "X-"
    cut_within_a_word = short_name("x" * 52 + rest)
    assert cut_within_a_word[51:53] == "x-"


@pytest.mark.parametrize(("value", "count"), [("0", 0), ("9999", 9999)])
def test_count_has_up_to_four_decimal_digits(value: str, count: int) -> None:
    assert count_of(value) == count


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("10000", id="five-digits"),
        pytest.param("1x", id="letter"),
        pytest.param("-1", id="negative"),
        pytest.param("\u0663", id="other-digit"),
    ],
)
def test_other_values_are_no_count(value: str | None) -> None:
    assert count_of(value) is None


@pytest.mark.parametrize("name", ["a.b-1", "x" * 253], ids=["dots", "longest"])
def test_name_is_a_subdomain_of_up_to_253_characters(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("x" * 254, id="too-long"),
        pytest.param("", id="empty"),
        pytest.param("A", id="upper-case"),
        pytest.param("-a", id="dash-first"),
    ],
)
def test_other_texts_are_no_name(name: str) -> None:
    assert not is_name(name)
