"""Functions that write to datasets."""

import holdfast as hf


@hf.task(queue="e2e", outputs=[hf.Output("events", mode="replace")], retries=1)
def write_part(part: str, *, ctx: hf.Context) -> int:
    """Say that a part was written; the first attempt says something else, and fails."""
    version = ctx.output.version()
    if ctx.attempt == 0:
        ctx.output(part, "s3://events/wrong")
        raise hf.TransientError("after it has written something")
    ctx.output(part, f"s3://events/{version}/{part}", size_bytes=1, metadata={"part": part})
    return version


@hf.task(queue="e2e", isolation="process", outputs=[hf.Output("events")])
def write_in_a_process(*, ctx: hf.Context) -> None:
    """Write from a process of its own."""
    ctx.output("process", "s3://events/process", checksum="sha256:1")


@hf.task(queue="e2e", outputs=[hf.Output("events")])
def contradict(*, ctx: hf.Context) -> None:
    """Write something else under a key that is taken."""
    ctx.output("process", "s3://events/another", checksum="sha256:2")


@hf.task(queue="e2e")
def look(*, ctx: hf.Context) -> None:
    """Be started by a cut-over."""
