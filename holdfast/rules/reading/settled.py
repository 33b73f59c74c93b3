"""Which unsuccessful jobs nothing is left to be done about: what they did not do was done since."""

from collections.abc import Mapping
from typing import NamedTuple


class Again(NamedTuple):
    """A job that runs another again: a replay of its dead letters, a rerun or a resume."""

    job_id: int
    is_ended: bool
    has_succeeded: bool


class Aftermath(NamedTuple):
    """What became of a job that did not succeed; `replay_of` is what it ran again itself."""

    replay_of: int | None
    has_letters: bool
    has_open_letters: bool
    replays: tuple[Again, ...]


def find_settled(jobs: Mapping[int, Aftermath]) -> set[int]:
    """Find the jobs whose letters are all discarded, or whose work has succeeded in the end."""
    settled: set[int] = set()

    def has_been_done(job: Aftermath, *, since: int) -> bool:
        """Tell whether the last that ran it again succeeded, after another job, and none runs."""
        last = max(job.replays, default=None)
        return (
            last is not None
            and last.job_id > since
            and all(each.is_ended for each in job.replays)
            and (last.has_succeeded or last.job_id in settled)
        )

    # Whatever runs a job again is newer.
    for job_id, job in sorted(jobs.items(), reverse=True):
        if job.has_open_letters:
            continue
        first = jobs.get(job.replay_of) if job.replay_of is not None else None
        is_discarded = job.has_letters and not job.replays
        if (
            is_discarded
            or has_been_done(job, since=job_id)
            # It was a try that failed as well, and the next one did not.
            or (first is not None and has_been_done(first, since=job_id))
        ):
            settled.add(job_id)
    return settled
