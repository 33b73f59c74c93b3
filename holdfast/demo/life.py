"""What goes on in a demo that stays: a trickle of work, so that there is something to watch."""

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from holdfast.cli.children import Child, start_child
from holdfast.cli.commands.processes.worker import ALLOW_ANYTHING
from holdfast.client.client import Client
from holdfast.demo import life_tasks
from holdfast.model.submitting.spec import Entrypoint
from holdfast.model.workers.resources import Coscheduling, Resources
from holdfast.wire.requests import JobRequest

TURN_SECONDS = 2.0
DAYS = 14
EPOCHS = 1200
REPORTS = "reports"
SERVE = 'echo "listening on $HOLDFAST_PORT_HTTP"; exec sleep 3600'


class Life:
    """Everyday work on workers of its own, for as long as somebody looks."""

    def __init__(
        self, client: Client, variables: Mapping[str, str], workers: dict[str, Child], *, log: int
    ) -> None:
        self._client = client
        self._variables = variables
        self._workers = workers
        self._log = log

    async def go_on(self) -> None:
        """Begin what takes long, then submit a little each turn, until it is cancelled."""
        queues = [flag for queue in life_tasks.QUEUES for flag in ("--queue", queue)]
        flags = ["--import", "holdfast.demo.life_tasks", *queues, "--concurrency", "6"]
        for name in ("worker-a", "worker-b"):
            arguments = ["worker", "--name", name, *flags, *ALLOW_ANYTHING, "--drain-seconds", "1"]
            self._workers[name] = await start_child(name, arguments, self._variables, log=self._log)
        await self._begin()
        turn = 0
        while True:
            await self._take_turn(turn)
            await asyncio.sleep(TURN_SECONDS)
            turn += 1

    async def _begin(self) -> None:
        """Submit what stays on the screen: long work, work that waits, a graph, a dataset."""
        days = _days()
        train = life_tasks.train_ranker
        client = self._client
        await client.submit.aio(train.with_options(labels={"team": "search"}), EPOCHS)
        orders = await client.create_dataset.aio(life_tasks.DATASET)
        await orders.open_version.aio()
        loading = await client.map.aio(life_tasks.ingest_orders, days[:7])
        await loading.wait.aio(timeout=60)
        await orders.cut_over.aio(1, reason="first load")
        await orders.open_version.aio(based_on=1)
        async with client.graph():
            report = await client.submit.aio(life_tasks.build_report, days[0])
            ranker = await client.submit.aio(train.with_options(depends_on=[report]), EPOCHS)
            for day in days[:2]:
                last = life_tasks.build_report.with_options(depends_on=[report, ranker])
                await client.submit.aio(last, day)
        # Nobody serves this queue, and no worker has such a GPU: there is something to explain.
        await client.map.aio(life_tasks.build_report.with_options(queue=REPORTS), days[:5])
        for request in (
            JobRequest(
                entrypoint=Entrypoint(command=["python", "pretrain.py"]),
                name="pretrain-encoder",
                owner="research",
                replicas=4,
                resources=Resources(cpu=8, gpu=8, gpu_model="H100"),
                coscheduling=Coscheduling(),
                labels={"team": "research"},
            ),
            JobRequest(
                entrypoint=Entrypoint(shell=SERVE),
                name="serve-embeddings",
                owner="search",
                replicas=2,
                resources=Resources(cpu=0.5, ports=["http"]),
                labels={"team": "search"},
            ),
        ):
            await client.jobs.submit.aio(request)

    async def _take_turn(self, turn: int) -> None:
        client, days = self._client, _days()
        count = random.randint(5, 40)
        pictures = [f"product-{random.randint(1000, 9999)}.jpg" for _ in range(count)]
        await client.map.aio(life_tasks.resize_image, pictures)
        if turn % 3 == 0:
            await client.submit.aio(life_tasks.send_receipt, f"customer{turn}@example.com")
        if turn % 8 == 4:
            await client.map.aio(life_tasks.ingest_orders, random.sample(days[7:], 1))
        if turn % 15 == 7:
            addresses = [f"customer{turn + i}@example.com" for i in range(9)]
            await client.map.aio(life_tasks.send_receipt, [*addresses, "no address"])


def _days() -> list[str]:
    """Name the last days, the latest first."""
    today = datetime.now(UTC).date()
    return [(today - timedelta(days=back)).isoformat() for back in range(DAYS)]
