"""Bugs in what follows from a change: sweeps, dependencies, schedules, keys, signals, datasets."""

from mutants.mutation import mutation

MUTATIONS = (
    mutation(
        "outbox-row-lost",
        "Of a large job that was cancelled the first thousand tasks end, and the others run.",
        (
            "operations/follow_up.py",
            "    if following is None:\n        await delete_outbox",
            "    if following is None or following:\n        await delete_outbox",
        ),
        red=(
            "operations/ending/test_cancel.py"
            "::test_a_large_job_is_killed_a_thousand_tasks_at_a_time",
        ),
    ),
    mutation(
        "end-of-a-job-not-followed",
        "Who waits for a job never starts.",
        (
            "store/schema/functions/moves.sql",
            "(5, 'release', is_awaited))",
            "(5, 'release', false))",
        ),
        red=(
            "operations/ending/test_dependents.py"
            "::test_the_last_of_many_parents_releases_and_the_first_bad_one_ends_the_wait",
        ),
    ),
    mutation(
        "children-outlive-their-parent",
        "A job fails, and what it has submitted runs on for nobody.",
        (
            "store/schema/functions/moves.sql",
            "(2, 'job_ended', is_bad),",
            "(2, 'job_ended', false),",
        ),
        red=("operations/test_follow_up.py::test_a_failed_parent_ends_its_children_hard",),
    ),
    mutation(
        "dependency-released-early",
        "A job that waits for two others starts when the first has ended.",
        (
            "store/sql/order/dependencies.sql",
            "released_at = case when jobs.unmet = mine.met and jobs.finished_at is null",
            "released_at = case when jobs.unmet > 0 and jobs.finished_at is null",
        ),
        red=(
            "operations/ending/test_dependents.py"
            "::test_the_last_of_many_parents_releases_and_the_first_bad_one_ends_the_wait",
        ),
    ),
    mutation(
        "failure-counts-as-success",
        "A job starts after the failure of what it needed to succeed.",
        (
            "store/sql/order/dependencies.sql",
            "or (dependencies.condition = 'succeeded') = (open.state = {SUCCEEDED})",
            "or dependencies.condition = 'succeeded'",
        ),
        red=(
            "operations/test_random_graphs.py::test_random_graphs_end_as_a_plain_evaluation_says",
        ),
    ),
    mutation(
        "held-sweep-forgotten",
        "A task that somebody held when its job was cancelled is never stopped.",
        (
            "operations/follow_up.py",
            '        await add_follow_ups(tx, [("sweep_held", job_id)], next_index)\n',
            "        pass\n",
        ),
        red=(
            "operations/test_held_rows.py"
            "::test_a_cancel_stops_all_tasks_of_a_job_that_nobody_holds",
        ),
    ),
    mutation(
        "schedule-fired-twice",
        "Two servers that look at the same moment fire the same instant, and submit two jobs.",
        (
            "store/sql/submitting/schedules.sql",
            " where schedules.version = mine.version and schedules.next_at = mine.next_at\n",
            " where schedules.version = mine.version\n",
        ),
        (
            "store/sql/submitting/schedules.sql",
            " where schedule_firings.job_id is null and excluded.job_id is not null\nreturning",
            "returning",
        ),
        (
            "operations/schedules/fire.py",
            "        and set(open_jobs.get(plan.read.schedule_id, ())) <= set(plan.open_jobs)\n",
            "",
        ),
        red=(
            "operations/schedules/test_fire.py"
            "::test_an_instant_that_another_server_fires_meanwhile_is_fired_once",
        ),
    ),
    mutation(
        "schedule-fired-as-it-was",
        "A schedule that was changed a moment ago fires what it was before.",
        (
            "store/sql/submitting/schedules.sql",
            " where schedules.version = mine.version and schedules.next_at = mine.next_at\n",
            " where schedules.next_at = mine.next_at\n",
        ),
        red=(
            "operations/schedules/test_fire.py"
            "::test_what_was_changed_since_it_was_read_is_decided_again",
        ),
    ),
    mutation(
        "unique-key-looked-up",
        "Of jobs that are to be unique and come at once, several are stored.",
        (
            "store/schema/tables/0031_unique_jobs.sql",
            "constraint one_job_per_unique_key primary key (digest)",
            "constraint one_job_per_unique_key check (true)",
        ),
        (
            "store/schema/functions/unique.sql",
            "values (wanted.digest, wanted.job_id)\n                on conflict (digest) do "
            "nothing;",
            "select wanted.digest, wanted.job_id\n"
            "             where not exists (select from holdfast.unique_jobs where digest = "
            "wanted.digest);",
        ),
        red=("operations/submitting/test_unique.py::test_64_submissions_at_once_are_one_job",),
    ),
    mutation(
        "unique-key-kept",
        "After the first unique job no other is ever taken.",
        (
            "store/schema/triggers/unique.sql",
            "((new.unique_states >> new.state) & 1 = 0 or new.state = {PENDING}",
            "(new.state = {PENDING}",
        ),
        red=("operations/submitting/test_unique.py::test_every_end_frees_the_key",),
    ),
    mutation(
        "signal-wakes-nobody",
        "An approval is kept, and the task that waits for it does not hear of it.",
        (
            "store/schema/functions/signals.sql",
            "and waits.attempt = task.attempt - 1 and waits.parked_at is not null",
            "and waits.attempt = task.attempt and waits.parked_at is not null",
        ),
        red=(
            "operations/test_signals.py"
            "::test_a_task_waits_and_the_signal_has_it_go_on_with_its_payload",
        ),
    ),
    mutation(
        "signal-lost-to-the-end-of-an-attempt",
        "A signal that comes while an attempt ends to wait for it is heard by nobody.",
        (
            "store/schema/functions/signals.sql",
            "where tasks.job_id = of_job and tasks.task_index = found_index for update;",
            "where tasks.job_id = of_job and tasks.task_index = found_index;",
        ),
        red=(
            "operations/test_signals.py::test_what_is_being_sent_when_the_attempt_ends_is_heard",
            "operations/test_signals.py::test_of_many_that_are_sent_as_attempts_end_none_is_lost",
        ),
    ),
    mutation(
        "signal-sent-twice",
        "A signal that is repeated after a lost answer counts twice.",
        (
            "store/schema/functions/signals.sql",
            "and task_index = found_index and idempotency_key = signal_key;",
            "and task_index = found_index and idempotency_key < signal_key;",
        ),
        red=("operations/test_signals.py::test_the_same_key_sends_once",),
    ),
    mutation(
        "cut-over-beside-writers",
        "Readers get a version of a dataset that jobs have not finished.",
        (
            "operations/datasets/cut_over.py",
            'if state == "open" and not force:',
            'if state == "sealed" and not force:',
        ),
        red=(
            "operations/datasets/test_cut_over.py"
            "::test_live_jobs_stand_in_the_way_unless_it_is_forced",
        ),
    ),
    mutation(
        "cut-over-without-seal",
        "The version that readers get goes on changing.",
        (
            "operations/datasets/cut_over.py",
            '    if state == "open":\n        await _seal(tx, version, now=now)\n',
            "",
        ),
        red=("operations/datasets/test_cut_over.py::test_a_cut_over_seals_counts_and_is_recorded",),
    ),
    mutation(
        "cut-over-not-repeated",
        "A cut-over that is repeated under its key turns back a later one.",
        (
            "operations/datasets/cut_over.py",
            "        ledger,\n        keyed,\n        _cut_over,",
            "        ledger,\n        keyed and None,\n        _cut_over,",
        ),
        red=(
            "operations/datasets/test_cut_over.py::test_a_repeat_under_its_key_does_not_turn_back",
        ),
    ),
    mutation(
        "partition-replaced-by-two",
        "Two tasks that replace one partition leave a mix of both.",
        (
            "operations/datasets/commit_outputs.py",
            "await (lock_version(tx, version) if is_replaced else hold_version(tx, version))",
            "await hold_version(tx, version)",
        ),
        red=("races/test_datasets.py::test_two_that_replace_one_partition_at_once_leave_no_mix",),
    ),
    mutation(
        "outputs-of-a-stranger",
        "A worker that lost its lease commits what it has written.",
        (
            "operations/datasets/commit_outputs.py",
            "        and lease.fence == commit.fence\n",
            "",
        ),
        red=(
            "operations/datasets/test_commit_outputs.py"
            "::test_a_stranger_commits_nothing_and_is_told_so",
        ),
    ),
    mutation(
        "compensation-run-twice",
        "Two servers that undo a graph at once refund the same payment twice.",
        (
            "operations/undoing/compensate.py",
            "    if row_id not in ids:\n        return 0\n    undo = await _choose(tx, graph_id)\n",
            "    undo = await _choose(tx, graph_id)\n    if following is not None:\n"
            "        undo = undo and undo._replace(job_id=following.undone_job_id)\n",
        ),
        red=(
            "operations/undoing/test_compensate.py::test_two_that_prepare_the_same_store_it_once",
        ),
    ),
    mutation(
        "undone-by-the-clock",
        "After a clock was set back, a step is undone before the one that builds on it.",
        (
            "store/sql/order/undo.sql",
            "jobs.state <> {SUCCEEDED}, ends.number,",
            "jobs.state <> {SUCCEEDED}, extract(epoch from jobs.finished_at)::bigint,",
        ),
        red=("journeys/test_saga.py::test_a_clock_that_is_set_back_meanwhile_changes_no_order",),
    ),
    mutation(
        "undone-while-it-runs",
        "A job that was cancelled is undone while its process still does what is undone.",
        (
            "store/sql/order/undo.sql",
            "pending + assigned + building + running = 0\n"
            "       and not exists (select from holdfast.leases where leases.job_id = "
            "jobs.job_id) as is_released,",
            "pending + assigned + building + running = 0 as is_released,",
        ),
        red=(
            "operations/undoing/test_undo.py"
            "::test_noting_waits_for_the_release_and_is_no_step_until_then",
        ),
    ),
    mutation(
        "key-of-another-request",
        "A key that was used for one job answers a different submission with that job.",
        (
            "ledger/keys.py",
            "if used.request_digest != keyed.digest:",
            "if used.request_digest == b'':",
        ),
        red=("ledger/test_keys.py::test_a_different_request_under_the_key_is_refused",),
    ),
    mutation(
        "answer-not-kept",
        "A change that is repeated after a lost answer is made a second time.",
        (
            "ledger/keys.py",
            "if not await take_key(tx, keyed):",
            "if not await take_key(tx, keyed._replace(key=keyed.digest.hex() + str(id(tx)))):",
        ),
        red=("ledger/test_keys.py::test_the_same_key_returns_the_first_answer",),
    ),
)
