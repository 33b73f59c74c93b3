"""`pass`, and chains on the command line."""

from uuid import uuid4

from tests.cli.conftest import Service


def test_a_chain_stands_still_until_it_is_let_pass(service: Service) -> None:
    chain = ["--chain", f"c{uuid4().hex[:8]}", "--on-failure", "block"]
    first = service.submit("tests.cli.tasks:fail", '--arg="no"', *chain)
    assert service.run("wait", first).code == 1
    second = service.submit("tests.cli.tasks:add", "--arg=1", *chain)
    shown = service.run("task", f"{second}.0").out
    assert f"waits for job {first}" in shown
    ended = service.run("pass", first, "--reason", "mended")
    assert (ended.code, ended.out, ended.err) == (0, f"{first}  its chain goes on\n", "")
    assert service.run("wait", second).code == 0
    again = service.run("pass", first)
    assert (again.code, again.out) == (0, f"{first}  no chain stands still after it\n")
