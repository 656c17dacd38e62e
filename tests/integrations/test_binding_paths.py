"""The text of all nodes' paths, which an admission policy looks up."""

import pytest
from toposcope.integrations.binding_paths import LARGEST, EncodedPaths, encode, path_text, shared_path
from toposcope.integrations.node_path import PathStep


def steps(**values: str) -> list[PathStep]:
    return [PathStep(domain, "", value) for domain, value in values.items()]


def size(encoded: EncodedPaths) -> int:
    return sum(len(key) + len(text.encode()) for key, text in encoded.data.items())


def test_path_is_written_broadest_first() -> None:
    assert path_text(steps(block="b1", rack="r2", host="n7")) == "block=b1,rack=r2,host=n7"


def test_path_without_levels_is_empty() -> None:
    assert path_text([]) == ""


@pytest.mark.parametrize("value", ["", "a\nn2=0", "a,rack=r9", "a=b", "r" * 64, "-a", "é"])
def test_value_that_is_no_label_value_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="is not the value of a label"):
        path_text(steps(rack=value))


def test_level_name_with_a_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="'rack,x' is not the name of a level"):
        path_text([PathStep("rack,x", "", "r1")])


@pytest.mark.parametrize(("level", "is_refused"), [("l" * 58, False), ("l" * 59, True)])
def test_level_name_must_fit_behind_path_in_a_label(level: str, is_refused: bool) -> None:
    step = PathStep(level, "", "r1")
    if not is_refused:
        assert path_text([step]) == f"{level}=r1"
        return
    with pytest.raises(ValueError, match="is not the name of a level"):
        path_text([step])


def test_shared_path_has_no_name_of_the_node() -> None:
    assert shared_path("n1", steps(rack="r1", host="n1")) == "rack=r1,host="


@pytest.mark.regression
def test_nvlink_domain_that_ends_at_the_node_is_shared_too() -> None:
    path = {"rack": "r1", "nvlink-domain": "n1", "host": "n1"}
    assert shared_path("n1", steps(**path)) == "rack=r1,nvlink-domain=,host="


def test_name_that_ends_another_value_is_not_cut_off() -> None:
    assert shared_path("1", steps(rack="r1", host="node-1")) == "rack=r1,host=node-1"


def test_shared_path_without_levels_is_empty() -> None:
    assert shared_path("n1", []) == ""


def test_nodes_of_a_rack_have_the_number_of_one_path() -> None:
    paths = {
        "n2": "rack=r1,host=",
        "n1": "rack=r1,host=",
        "n3": "rack=r2,host=",
    }
    data = {
        "0": "\nn1=0\nn2=0\n",
        "1": "\nn3=1\n",
        "starts": "n1\nn3",
        "paths": "\n0:rack=r1,host=\n1:rack=r2,host=\n",
    }
    assert encode(paths, shards=2) == EncodedPaths(data)


def test_node_without_a_path_is_not_named() -> None:
    assert encode({"n1": ""}) == EncodedPaths({"starts": "", "paths": "\n"})


def test_node_with_a_hostile_name_is_left_out_and_counted() -> None:
    paths = {"n1\nn2=0": "rack=r1", "n2": "rack=r2"}
    data = {
        "0": "\nn2=0\n",
        "starts": "n2",
        "paths": "\n0:rack=r2\n",
    }
    assert encode(paths) == EncodedPaths(data, unusable=1)


def racks_of_16(count: int) -> dict[str, str]:
    paths = {}
    for number in range(count):
        name = f"gpu-node-{number:06d}.cluster.example.com"
        paths[name] = f"block=b{number // 256},rack=r{number // 16},nvlink-domain=,host="
    return paths


def test_15000_nodes_fit() -> None:
    encoded = encode(racks_of_16(15_000))
    assert encoded.without_room == 0
    assert len(encoded.data) == 66
    assert size(encoded) < 700 << 10


def test_100000_nodes_fill_the_room_and_the_rest_is_counted() -> None:
    encoded = encode(racks_of_16(100_000))
    named = 0
    for key, text in encoded.data.items():
        if key.isdigit():
            named += text.count("=")
    assert named + encoded.without_room == 100_000
    assert named > 20_000
    assert LARGEST - (32 << 10) < size(encoded) <= LARGEST
