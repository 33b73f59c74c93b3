"""Processes that belong together: ended in order, killed if they must be, never left behind."""

import asyncio
import os
import subprocess
import sys

import psutil

from holdfast.cli.children import Child, end_children, start_child
from tests.cli.program import eventually

PARENT = """
import asyncio, os, sys
from holdfast.cli.children import start_child

async def main():
    child = await start_child("child", ["server"], dict(os.environ), with_output=True)
    await child.process.stdout.readline()
    print(child.process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_a_child_that_ends_by_itself_is_known_by_its_code() -> None:
    child = await start_child("version", ["--version"], dict(os.environ), with_output=True)
    assert child.process.stdout is not None
    assert (await child.process.stdout.read()).startswith(b"holdfast ")
    assert await child.ended == 0
    assert not child.is_alive
    child.ask_to_end()
    await end_children([child], 1.0)


async def test_a_child_has_a_session_of_its_own(database_url: str) -> None:
    child = await start_server(database_url)
    try:
        assert os.getsid(child.process.pid) == child.process.pid
        assert child.is_alive
    finally:
        await end_children([child], 60.0)
    assert child.ended.result() == 0


async def test_a_child_that_does_not_end_is_killed(database_url: str) -> None:
    child = await start_server(database_url)
    psutil.Process(child.process.pid).suspend()
    await end_children([child], 0.1)
    assert child.ended.result() == -9


async def start_server(database_url: str) -> Child:
    """Start a server, and wait until it serves."""
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": database_url}
    child = await start_child("server", ["server", "--port=0"], variables, with_output=True)
    assert child.process.stdout is not None
    assert await asyncio.wait_for(child.process.stdout.readline(), 60)
    return child


def test_children_do_not_outlive_a_parent_that_was_killed(database_url: str) -> None:
    variables = {**os.environ, "HOLDFAST_DATABASE_URL": database_url, "HOLDFAST_PORT": "0"}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], env=variables, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    eventually(lambda: not psutil.pid_exists(child))
