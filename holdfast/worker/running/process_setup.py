"""What the process of an attempt is given: its command line, its variables, its input."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.client.context import Identity
from holdfast.model.traces import find_run
from holdfast.tls.contexts import CA_FILE_VARIABLE
from holdfast.tracing.current import PARENT_VARIABLE, STATE_VARIABLE, list_trace_variables
from holdfast.worker.allowing import CallLimit
from holdfast.worker.running.child import CALL_FILE, ChildCall
from holdfast.worker.running.outputs import list_output_variables
from holdfast.worker.running.runnable import Runnable
from holdfast.worker.watchdog_handle import plain_environment

INPUT_VARIABLE_BYTES_MAX = 100_000
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HOLDFAST_DEVICES")


def write_call(
    attempt: Runnable,
    folder: Path,
    identity: Identity,
    *,
    limit: CallLimit | None,
    imports: Sequence[str] = (),
    codec: str | None = None,
    python: str = sys.executable,
) -> list[str]:
    """Write down what the process needs, and choose its command line."""
    entrypoint = attempt.job.entrypoint
    (folder / "input.json").write_bytes(bytes(attempt.input))
    if entrypoint.command is not None:
        return entrypoint.command
    if entrypoint.shell is not None:
        return ["/bin/sh", "-c", entrypoint.shell]
    job = attempt.job
    undoes = job.compensates_job_id is not None
    call = ChildCall(
        identity, entrypoint, job.fan_out, list(imports), attempt.input, undoes, limit, codec
    )
    (folder / CALL_FILE).write_bytes(msgspec.json.encode(call))
    return [python, "-m", "holdfast.worker.running.child", str(folder)]


def _list_trusted() -> dict[str, str]:
    """Pass on whom to trust by TLS, not the worker's own key; a task starts in another folder."""
    path = os.environ.get(CA_FILE_VARIABLE)
    return {CA_FILE_VARIABLE: os.path.abspath(path)} if path else {}


def list_variables(
    attempt: Runnable,
    folder: Path,
    server: str,
    *,
    paths: Sequence[str] = (),
    has_own_uid: bool = False,
) -> Mapping[str, str]:
    """List the variables of the process; a function's module is looked for in `paths` first.

    Who is another user than the worker has another home, too: the folder that it works in.
    """
    job = attempt.job
    variables = {
        **_without_trace(plain_environment()),
        "PYTHONUNBUFFERED": "1",
        **({"HOME": str(folder / "work")} if has_own_uid else {}),
        **job.environment,
        "HOLDFAST_SERVER": server,
        **_list_trusted(),
        "HOLDFAST_JOB_ID": job.job_id,
        "HOLDFAST_TASK_ID": attempt.task_id,
        "HOLDFAST_TASK_INDEX": attempt.task_id.partition(".")[2],
        "HOLDFAST_NUM_TASKS": str(job.num_tasks),
        "HOLDFAST_ATTEMPT": str(attempt.number),
        "HOLDFAST_CORRELATION_ID": job.correlation_id,
        "HOLDFAST_INPUT_FILE": str(folder / "input.json"),
        **list_output_variables(folder, job.outputs),
        **list_trace_variables(
            find_run(
                attempt.trace_parent,
                job.trace_id,
                task_id=attempt.task_id,
                attempt=attempt.number,
            )
        ),
    }
    if job.fan_out and len(bytes(attempt.input)) <= INPUT_VARIABLE_BYTES_MAX:
        variables["HOLDFAST_INPUT"] = bytes(attempt.input).decode()
    folders = [job.environment.get("PYTHONPATH"), *paths]
    if job.entrypoint.is_function:
        # A function's module is found where the worker finds it.
        folders += map(os.path.abspath, sys.path)
    if any(folders):
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return variables


def _without_trace(variables: dict[str, str]) -> dict[str, str]:
    """Leave out the trace that the worker itself was started in."""
    ours = (PARENT_VARIABLE, STATE_VARIABLE)
    return {name: text for name, text in variables.items() if name not in ours}
