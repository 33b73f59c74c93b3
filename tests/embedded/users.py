"""Drive real user processes of an embedded Postgres, and look at what runs."""

import asyncio
import ctypes
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import asyncpg
import psutil

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("user_program.py")
PATIENCE_SECONDS = 90.0
IPC_RMID = 0


def query(url: str, sql: str) -> Any:
    """Run one statement on a connection of its own and return the first value."""

    async def run() -> Any:
        connection = await asyncpg.connect(url, timeout=20)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())


def wait_for(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def list_servers(folder: Path) -> list[psutil.Process]:
    """List the living processes that work in the folder, or that were given its path."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            inside = Path(process.cwd()).is_relative_to(folder)
            if inside or any(f"{folder}/cluster" in word for word in process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone, or none of ours
            continue
    return found


def kill_servers(folder: Path) -> None:
    """Kill every server process of a folder, at once and unasked, and wait until they are gone."""
    for process in list_servers(folder):
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    wait_for(lambda: not list_servers(folder))


def list_shared_memory(folder: Path) -> list[int]:
    """List the shared memory that killed servers of a folder left behind."""
    existing = {
        int(line.split()[1]) for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    }
    written = [path.read_text().splitlines() for path in folder.rglob("postmaster.pid")]
    left = {int(lines[6].split()[1]) for lines in written if len(lines) > 6}
    return sorted(left & existing)


def clean_up(folder: Path) -> None:
    """End what still runs in a folder and free what it held outside."""
    kill_servers(folder)
    for segment in list_shared_memory(folder):
        assert ctypes.CDLL(None).shmctl(segment, IPC_RMID, None) == 0


class User:
    """A process that uses an embedded Postgres."""

    def __init__(self, folder: Path, *options: str, **process: Any) -> None:
        python, program = process.pop("python", sys.executable), process.pop("program", PROGRAM)
        self._process = subprocess.Popen(
            [python, str(program), str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(process.pop("code", ROOT))},
            **process,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pipe(self._process.stdin).close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._pipe(self._process.stdout).close()

    def say(self, word: str) -> None:
        """Give an order without waiting for the answer."""
        pipe = self._pipe(self._process.stdin)
        pipe.write(word + "\n")
        pipe.flush()

    def hear(self) -> Any:
        """Wait for the answer to an order."""
        pipe = self._pipe(self._process.stdout)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            assert selector.select(PATIENCE_SECONDS), "no answer"
        return json.loads(pipe.readline() or '{"error": "the process died"}')

    def ask(self, word: str) -> Any:
        """Give an order that must succeed, and return its result."""
        self.say(word)
        reply = self.hear()
        assert "error" not in reply, reply["error"]
        return reply["done"]

    def fail(self, word: str) -> str:
        """Give an order that must fail, and return the error's message."""
        self.say(word)
        return str(self.hear()["error"])

    def kill(self) -> None:
        """Kill the process, unasked."""
        self._process.kill()
        self._process.wait()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(2)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Give a living process that has nothing to do with Postgres."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()
