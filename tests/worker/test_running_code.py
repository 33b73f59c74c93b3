"""What a process notes about itself, as another one reads it."""

import os

from holdfast.worker.running_code import ATTEMPTS_MAX, FIELD_BYTES, RunningCode


def test_what_a_process_noted_is_there_after_its_death() -> None:
    code = RunningCode()
    pid = os.fork()
    if pid == 0:
        code.note_worker("north-1")
        code.note_deadline(5.0, "it is late")
        code.note_begin("1.0", 0)
        code.note_begin("2.0", 3)
        os._exit(0)
    os.waitpid(pid, 0)
    assert (code.worker_id, code.has_left) == ("north-1", False)
    assert code.list_running() == ["task 1.0 attempt 0", "task 2.0 attempt 3"]
    assert (code.find_overrun(4.0), code.find_overrun(5.0)) == (None, "it is late")


def test_what_has_ended_is_struck_out() -> None:
    code = RunningCode()
    for _ in range(ATTEMPTS_MAX + 1):
        code.note_end(code.note_begin("1.0", 0))
    code.note_deadline(1.0, "it is late")
    code.note_deadline(None, "")
    code.leave()
    assert (code.list_running(), code.find_overrun(2.0), code.has_left) == ([], None, True)


def test_more_than_can_be_noted_runs_all_the_same() -> None:
    code = RunningCode()
    begun = [code.note_begin("1" * FIELD_BYTES, number) for number in range(ATTEMPTS_MAX + 1)]
    assert begun[-1] is None
    assert len(code.list_running()) == ATTEMPTS_MAX
    for index in begun:
        code.note_end(index)
    assert code.list_running() == []
    code.note_begin("1.0", 0)
    assert code.list_running() == ["task 1.0 attempt 0"], "nothing is left of what was longer"
