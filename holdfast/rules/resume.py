"""How a broken graph goes on: which jobs run again, and which others stand in for what they need.

What has succeeded stays. A job that was run again already is stood in for by that replay, as long
as it has succeeded or may; otherwise the last replay is what runs again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.errors import IllegalMove, Invalid
from holdfast.model.submitting.order import Condition, Dependency, ResultPosition
from holdfast.model.submitting.spec import JobSpec
from holdfast.model.work.states import JobState
from holdfast.rules.submitting.order import dependencies_of


class ResumableJob(NamedTuple):
    """What counts of a job when its graph is resumed; `live` are tasks that have not finished."""

    job_id: int
    state: int
    is_ended: bool
    is_cancelled: bool
    live: int
    fan_out: bool
    num_tasks: int
    succeeded: int
    replay_of: int | None
    continues: int | None
    compensates_job_id: int | None
    graph_id: int | None
    seq: int
    is_undone: bool
    is_being_undone: bool

    @property
    def stands(self) -> bool:
        """Tell whether others can build on it: it has succeeded, or may yet."""
        if self.is_ended:
            return self.state == JobState.SUCCEEDED and not self.is_undone
        return not self.is_cancelled

    @property
    def has_failed(self) -> bool:
        """Tell whether it broke by itself, and was neither killed nor undone after its success."""
        return self.is_ended and self.state not in (JobState.KILLED, JobState.SUCCEEDED)


class Run(NamedTuple):
    """A job that is run again, and the first of which it is a replay, whose order it keeps.

    With inputs, the tasks that did not succeed run again, unless the others were undone.
    """

    job_id: int
    first_id: int
    only_unsuccessful: bool


class ResumePlan(NamedTuple):
    """What runs again, in the order of the graph, and who stands in for each broken job."""

    runs: list[Run]
    stand_ins: dict[int, int]


def covers(replay: ResumableJob, job: ResumableJob) -> bool:
    """Tell whether a replay stands for a whole job, and not for some tasks of it."""
    if replay.continues == job.job_id:
        return True
    return job.continues is None and replay.num_tasks == job.num_tasks


def plan_resume(
    asked: int,
    broken: Iterable[int],
    jobs: Mapping[int, ResumableJob],
    *,
    replays: Mapping[int, Sequence[int]],
) -> ResumePlan:
    """Decide what runs again of what is broken around a job. Raises IllegalMove and Invalid."""
    latest = _find_latest(jobs, replays)
    groups: dict[int, list[int]] = {}
    for job_id in sorted(broken):
        groups.setdefault(latest[job_id], []).append(job_id)
    runs = []
    for last, firsts in groups.items():
        job = jobs[last]
        if not job.stands:
            _check(job)
            runs.append(Run(last, firsts[0], job.fan_out and not job.is_undone))
    if not runs:
        raise IllegalMove(f"job {asked}", _describe(asked, jobs[latest[asked]]), "resume")
    return ResumePlan(runs, {job_id: latest[job_id] for ids in groups.values() for job_id in ids})


def rewire(spec: JobSpec, targets: Mapping[int, int], unmet: Collection[int]) -> JobSpec:
    """Have a job wait for what runs again or stands in, and for nothing that was met long ago."""
    used = {result.job for result in spec.entrypoint.results}
    conditions: dict[str, Condition] = {}
    for dependency in dependencies_of(spec):
        job_id = int(dependency.job)
        if dependency.condition == "succeeded" and job_id in targets:
            conditions.setdefault(str(targets[job_id]), "succeeded")
        elif dependency.job in used or job_id in unmet:
            conditions.setdefault(dependency.job, dependency.condition)
    results = [
        ResultPosition(result.path, str(targets.get(int(result.job), result.job)))
        for result in spec.entrypoint.results
    ]
    return msgspec.structs.replace(
        spec,
        entrypoint=msgspec.structs.replace(spec.entrypoint, results=results),
        depends_on=[
            job if condition == "succeeded" else Dependency(job, condition)
            for job, condition in conditions.items()
        ],
    )


def _find_latest(
    jobs: Mapping[int, ResumableJob], replays: Mapping[int, Sequence[int]]
) -> dict[int, int]:
    """Find for each job who stands in for it, or else who tried last; replays come after it."""
    latest: dict[int, int] = {}
    for job_id in sorted(jobs, reverse=True):
        job = jobs[job_id]
        known = [jobs[replay] for replay in replays.get(job_id, ()) if replay in jobs]
        last = [latest[replay.job_id] for replay in known if covers(replay, job)]
        standing = [replay for replay in last if jobs[replay].stands]
        latest[job_id] = job_id if job.stands or not last else (standing or last)[-1]
    return latest


def _check(job: ResumableJob) -> None:
    """Refuse what cannot run again, or not yet."""
    if job.compensates_job_id is not None:
        raise Invalid(
            "job_id",
            f"job {job.job_id} undoes job {job.compensates_job_id} and is not run twice;"
            " if it failed, replay its dead letter",
        )
    if not job.is_ended or job.live:
        raise IllegalMove(f"job {job.job_id}", "still stopping", "resume")
    if job.is_being_undone:
        raise IllegalMove(f"job {job.job_id}", "being undone by its compensation", "resume")


def _describe(asked: int, last: ResumableJob) -> str:
    """Say why there is nothing to resume."""
    state = JobState(last.state).name
    if last.job_id != asked:
        return f"run again by job {last.job_id} already, which is {state}"
    return f"{state}, and nothing that waits for it was killed in vain"
