"""The connections of the node endpoint's clients: nobody can keep the others out."""

import pytest
from toposcope.telemetry.endpoint_clients import OpenConnections, client_address


class Ended:
    """A connection that remembers its end."""

    has_ended = False

    def abort(self) -> None:
        self.has_ended = True


def opened(connections: OpenConnections, address: str, count: int) -> list[Ended]:
    """Connections of one client, oldest first."""
    new = []
    for _ in range(count):
        connection = Ended()
        connections.add(address, connection)
        new.append(connection)
    return new


def test_busiest_client_makes_room_by_its_oldest_connection() -> None:
    connections = OpenConnections()
    greedy = opened(connections, "10.0.0.1", 3)
    modest = opened(connections, "10.0.0.2", 1)

    assert connections.make_room("10.0.0.2")
    assert [connection.has_ended for connection in greedy] == [True, False, False]
    assert not modest[0].has_ended
    assert len(connections) == 3
    assert connections.busiest() == ("10.0.0.1", 2)


def test_client_with_as_many_connections_gets_no_room() -> None:
    connections = OpenConnections()
    first = opened(connections, "10.0.0.1", 2)
    second = opened(connections, "10.0.0.2", 1)

    assert not connections.make_room("10.0.0.1")
    assert not connections.make_room("10.0.0.2")
    assert [connection.has_ended for connection in (*first, *second)] == [False, False, False]
    assert list(connections) == [*first, *second]


def test_new_client_gets_no_room_where_everybody_has_one_connection() -> None:
    connections = OpenConnections()
    opened(connections, "10.0.0.1", 1)
    opened(connections, "10.0.0.2", 1)
    assert not connections.make_room("10.0.0.3")


def test_connection_that_ended_is_forgotten_once() -> None:
    connections = OpenConnections()
    first, second = opened(connections, "10.0.0.1", 2)
    for _ in range(2):
        connections.discard("10.0.0.1", first)
    assert len(connections) == 1
    connections.discard("10.0.0.1", second)
    connections.discard("10.0.0.9", second)
    assert connections.busiest() == ("", 0)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        pytest.param(("::ffff:10.0.0.1", 4000, 0, 0), "10.0.0.1", id="ipv4-on-a-socket-of-both"),
        pytest.param(("10.0.0.1", 4000), "10.0.0.1", id="ipv4"),
        pytest.param(("fd00::1", 4000, 0, 0), "fd00::1", id="ipv6"),
        pytest.param(None, "", id="gone-already"),
    ],
)
def test_address_of_a_client(peer: object, address: str) -> None:
    assert client_address(peer) == address
