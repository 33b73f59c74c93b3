"""A demo that stays has something to watch: work that runs, waits, has failed, and goes on."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.cli.children import END_SECONDS_MAX, Child, end_children
from holdfast.client.client import Client
from holdfast.demo.life import Life
from holdfast.server import Address, serve
from holdfast.services.runtime import Options
from holdfast.wire.status import JobPage
from tests.waiting import eventually


@pytest.mark.nightly
async def test_life_goes_on_until_it_is_cancelled(database_url: str, tmp_path: Path) -> None:
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    workers: dict[str, Child] = {}
    async with (
        serve(Options(database_url), Address(port=0)) as server,
        Client(server.url) as client,
    ):
        variables = {**os.environ, "HOLDFAST_SERVER": server.url}
        variables["HOLDFAST_WORKER_DIR"] = str(tmp_path)
        life = asyncio.create_task(Life(client, variables, workers, log=log).go_on())

        async def everything_is_there() -> bool:
            assert not life.done(), life.result()
            reading = client.read("/api/jobs?page_size=100", JobPage)
            page = await client.loop_thread.await_(reading)
            return {(job.name, job.state) for job in page.jobs} >= {
                ("train_ranker", "JOB_STATE_RUNNING"),
                ("build_report", "JOB_STATE_PENDING"),
                ("pretrain-encoder", "JOB_STATE_PENDING"),
                ("resize_image", "JOB_STATE_SUCCEEDED"),
            }

        try:
            await eventually(everything_is_there, seconds=60)
            dataset = client.dataset("orders")
            assert (await dataset.current.aio()).number == 1
        finally:
            life.cancel()
            await asyncio.gather(life, return_exceptions=True)
            await end_children(list(workers.values()), END_SECONDS_MAX)
            os.close(log)
