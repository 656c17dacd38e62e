from topology.words import plural


def test_one_and_several() -> None:
    assert [f"{count} {plural(count, 'node')}" for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert plural(2, "topology", "topologies") == "topologies"
