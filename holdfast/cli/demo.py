"""`holdfast demo`: a database of its own, a few jobs, what became of them, and nothing left."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from holdfast.cli.audit import read_findings
from holdfast.cli.screen import JobSummary, Screen, job_table
from holdfast.cli.signals import undisturbed
from holdfast.cli.story import Played, Story
from holdfast.embedded import EmbeddedPostgres
from holdfast.model.ids import TaskId
from holdfast.operations.dead_letters import DeadLetterFilter, list_dead_letters
from holdfast.operations.ledger import Ledger
from holdfast.store.database import Database
from holdfast.store.migrate import migrate


def demo() -> int:
    """Show Holdfast at work on a database of its own, and leave nothing behind.

    Exit code 1: a job ended otherwise than planned, or the audit found something.
    """
    console = Console(highlight=False)
    console.print("Starting a Postgres in a temporary folder ...", style="dim")
    with temporary_postgres() as url:
        return asyncio.run(play(url, console))


@contextmanager
def temporary_postgres() -> Iterator[str]:
    """Run a Postgres that takes its folder with it when it goes."""
    with ExitStack() as cleanup:
        with undisturbed():
            folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
            # Nothing here is meant to last, so nothing waits for the disk.
            postgres = EmbeddedPostgres(folder, settings={"fsync": "off"})
            cleanup.callback(_remove, postgres, folder)
        postgres.start()
        yield postgres.url()


def _remove(postgres: EmbeddedPostgres, folder: Path) -> None:
    with undisturbed():
        postgres.stop()
        shutil.rmtree(folder)


async def play(url: str, console: Console) -> int:
    """Play the story on an empty database and show what became of it; returns the exit code."""
    await migrate(url)
    async with Database(url) as database:
        ledger = Ledger(database)
        screen = Screen(console, ledger)
        played = await Story(ledger, screen).play()
        summaries = await screen.summarise()
        as_planned = _show_jobs(console, played, summaries)
        await _show_dead_letters(console, ledger)
    is_sound = await _show_verdict(console, url, sum(job.events for job in summaries))
    return 0 if as_planned and is_sound else 1


def _show_jobs(console: Console, played: list[Played], summaries: list[JobSummary]) -> bool:
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


async def _show_dead_letters(console: Console, ledger: Ledger) -> None:
    console.print(Text("\nDead letters", style="bold"))
    for letter in await list_dead_letters(ledger, DeadLetterFilter()):
        task_id = TaskId(letter["job_id"], letter["task_index"])
        console.print(Text.assemble(f"{task_id}  ", (letter["reason_code"], "bold")))
        cause = f"{letter['error_class']} at stage {letter['stage']}: {letter['last_error']}"
        console.print(Text(f"     {cause}\n     input {letter['input']}"), soft_wrap=True)


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
