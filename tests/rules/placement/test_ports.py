"""Ports are given once, below the range of the system, and rest after use."""

from holdfast.rules.placement.ports import PORT_END, PORT_MIN, PORTS_PER_HOST, choose_ports


def test_every_name_gets_a_port_of_its_own() -> None:
    used = {PORT_MIN}
    chosen = choose_ports(["http", "rpc"], used)
    assert chosen == {"http": PORT_MIN + 1, "rpc": PORT_MIN + 2}
    assert used == {PORT_MIN, PORT_MIN + 1, PORT_MIN + 2}


def test_ports_go_on_after_the_last_one_and_begin_again_at_the_end() -> None:
    assert choose_ports(["a", "b"], set(), PORT_END - 2) == {"a": PORT_END - 1, "b": PORT_MIN}


def test_the_last_free_port_is_found() -> None:
    used = set(range(PORT_MIN, PORT_END)) - {PORT_MIN + 77}
    assert choose_ports(["a"], used) == {"a": PORT_MIN + 77}
    assert len(used) == PORTS_PER_HOST


def test_who_asks_for_none_gets_none() -> None:
    assert choose_ports([], set()) == {}
