"""Many simulated workers in one process: each has a socket, a secret and an incarnation of its own.

They speak the protocol and nothing more: a task runs as soon as it is named, and has succeeded a
moment later. What a worker costs is none of the server's business, so they cost little.
"""

import asyncio
import json
import sys
from typing import Any
from uuid import uuid4

import aiohttp
import uvloop

RUN_SECONDS = 1.0
SECRET = "a-secret-of-a-simulated-worker"


class SimulatedWorker:
    """One worker that answers what it is asked."""

    def __init__(self, name: str, session: aiohttp.ClientSession, server: str) -> None:
        self.worker_id = f"{name}-{uuid4().hex[:8]}"
        self._name = name
        self._session = session
        self._server = server
        self._running: dict[tuple[str, int], str] = {}
        self._ended: dict[tuple[str, int], str] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._has_told = False

    async def start(self) -> None:
        """Listen, and register."""
        listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        body = {
            "worker_id": self.worker_id,
            "name": self._name,
            "host": self._name,
            "address": f"http://127.0.0.1:{port}",
            "secret": SECRET,
            "resources": {"cpu": 8.0, "memory": 32_000_000_000},
            "attributes": {"rack": f"r{port % 16}"},
        }
        await self._post("/internal/worker-register", body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                answer = self._obey(json.loads(await reader.readexactly(size)))
                text = json.dumps(answer).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
                )
        except (asyncio.IncompleteReadError, ConnectionError):  # the server has gone
            writer.close()

    def _obey(self, call: dict[str, Any]) -> dict[str, Any]:
        self._has_told = False
        for name in call["acknowledged"]:
            self._ended.pop((name["task_id"], name["attempt"]), None)
        for task in call["tasks_to_run"]:
            key = (task["task_id"], task["attempt"])
            if key not in self._running and key not in self._ended:
                self._running[key] = task["lease_token"]
                asyncio.get_running_loop().call_later(RUN_SECONDS, self._end, key)
        return {
            "worker_id": self.worker_id,
            "epoch": call["epoch"],
            "number": call["number"],
            "running_tasks": [self._name_task(key, {"state": "RUNNING"}) for key in self._running],
            "completed_tasks": [
                self._name_task(key, {"status": "succeeded", "exit_code": 0}) for key in self._ended
            ],
        }

    def _name_task(self, key: tuple[str, int], said: dict[str, Any]) -> dict[str, Any]:
        token = self._running.get(key) or self._ended[key]
        return {"task_id": key[0], "attempt": key[1], "lease_token": token, **said}

    def _end(self, key: tuple[str, int]) -> None:
        self._ended[key] = self._running.pop(key)
        self._tell_soon()

    def _tell_soon(self) -> None:
        """Ask to be called, as a real worker does: once, for what the last answer did not say."""
        if self._has_told:
            return
        self._has_told = True
        telling = asyncio.create_task(self._tell_news())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell_news(self) -> None:
        await self._post("/internal/worker-news", {"worker_id": self.worker_id})

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        shown = {"Holdfast-Worker": f"{self.worker_id} {SECRET}"}
        async with self._session.post(self._server + path, json=body, headers=shown) as response:
            response.raise_for_status()
            await response.read()


async def main(server: str, first: int, count: int) -> None:
    """Be so many workers until killed."""
    async with aiohttp.ClientSession() as session:
        workers = [SimulatedWorker(f"w{first + n}", session, server) for n in range(count)]
        for worker in workers:
            await worker.start()
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
