"""The demo: a server, workers, a few jobs, a kill -9, what came of it; nothing is left behind."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from holdfast.cli.children import END_SECONDS_MAX, Child, end_children, start_child
from holdfast.cli.commands.processes.server import SERVING_AT
from holdfast.cli.commands.upkeep.audit import read_findings
from holdfast.cli.output.text import first_line
from holdfast.cli.signals import undisturbed
from holdfast.client.client import Client
from holdfast.demo.life import Life
from holdfast.demo.screen import JobSummary, Screen, job_table
from holdfast.demo.story import Played, Story
from holdfast.embedded import EmbeddedPostgres
from holdfast.errors import Unavailable


def run(*, stay: bool, port: int) -> int:
    """Play the demo on a Postgres in a temporary folder; returns the exit code."""
    console = Console(highlight=False)
    console.print("Starting a Postgres in a temporary folder ...", style="dim")
    with temporary_postgres() as (url, folder):
        return asyncio.run(play(url, folder, console, stay=stay, port=port))


@contextmanager
def temporary_postgres() -> Iterator[tuple[str, Path]]:
    """Run a Postgres that takes its folder with it when it goes."""
    with ExitStack() as cleanup:
        with undisturbed():
            folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
            # Nothing here is meant to last, so nothing waits for the disk.
            postgres = EmbeddedPostgres(folder, settings={"fsync": "off"})
            cleanup.callback(_remove, postgres, folder)
        postgres.start()
        yield postgres.url(), folder


def _remove(postgres: EmbeddedPostgres, folder: Path) -> None:
    with undisturbed():
        postgres.stop()
        shutil.rmtree(folder)


async def play(
    url: str, folder: Path, console: Console, *, stay: bool = False, port: int = 0
) -> int:
    """Play the story on an empty database and show what became of it; returns the exit code."""
    variables = {
        **os.environ,
        "HOLDFAST_DATABASE_URL": url,
        "HOLDFAST_WORKER_DIR": str(folder / "workers"),
        "HOLDFAST_OBJECT_STORE": str(folder / "objects"),
        "HOLDFAST_LEASE_MIN": "1",
    }
    arguments = ["server", "--migrate", "--port", str(port)]
    workers: dict[str, Child] = {}
    log = os.open(folder / "processes.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    server = await start_child("the server", arguments, variables, with_output=True, log=log)
    try:
        address = await _read_address(server)
        variables["HOLDFAST_SERVER"] = address
        async with Client(address) as client:
            screen = Screen(console, client)
            story = Story(client, screen, variables, log=log)
            workers = story.workers
            played = await story.play()
            summaries = await screen.summarise()
            as_planned = show_jobs(console, played, summaries)
            await _show_dead_letters(console, client)
            if stay:
                console.print(f"\nThe dashboard is at {address}; work goes on until Ctrl-C")
                await Life(client, variables, workers, log=log).go_on()
    finally:
        await end_children(list(workers.values()), END_SECONDS_MAX)
        await end_children([server], END_SECONDS_MAX)
        os.close(log)
    is_sound = await _show_verdict(console, url, sum(job.events for job in summaries))
    return 0 if as_planned and is_sound else 1


async def _read_address(server: Child) -> str:
    assert server.process.stdout is not None
    line = (await server.process.stdout.readline()).decode()
    if not line.startswith(SERVING_AT):
        raise Unavailable("the demo's server did not start")
    return line.removeprefix(SERVING_AT).strip()


def show_jobs(console: Console, played: list[Played], summaries: list[JobSummary]) -> bool:
    """Show where the jobs stand; False if one does not stand where it was meant to."""
    rows = []
    as_planned = True
    for plan, job in zip(played, summaries, strict=True):
        if (job.state, job.attempts) == (plan.state, plan.attempts):
            rows.append((job, plan.remark))
        else:
            as_planned = False
            rows.append((job, f"NOT AS PLANNED: {plan.state.name}, {plan.attempts} attempts"))
    console.print(Text("\nJobs", style="bold"))
    console.print(job_table(rows))
    return as_planned


async def _show_dead_letters(console: Console, client: Client) -> None:
    console.print(Text("\nDead letters", style="bold"))
    for listed in (await client.dead_letters.list.aio()).dead_letters:
        letter = await client.dead_letters.get.aio(listed.task_id)
        console.print(Text.assemble(f"{letter.task_id}  ", (letter.reason_code, "bold")))
        cause = f"at stage {letter.stage}: {first_line(letter.last_error)}"
        text = bytes(letter.input).decode()
        given = "" if text == "null" else f"\n     input {text}"
        console.print(Text(f"     {cause}{given}"), soft_wrap=True)


async def _show_verdict(console: Console, url: str, events: int) -> bool:
    findings = [finding async for finding in read_findings(url)]
    verdict = Text("\nAudit  ", style="bold")
    if findings:
        verdict.append(f"{len(findings)} broken invariants", style="bold #cf222e")
    else:
        verdict.append("sound", style="bold #1a7f37")
        verdict.append(f": {events} events replayed, no invariant is broken", style="not bold")
    console.print(verdict)
    for finding in findings:
        console.print(f"  {finding.subject}: {finding.invariant}: {finding.detail}", markup=False)
    return not findings
