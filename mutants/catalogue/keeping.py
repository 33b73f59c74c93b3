"""Bugs in upkeep, migrations and submissions by SQL."""

from mutants.mutation import mutation

_EVENTS = "store/sql/output/events.sql"

MUTATIONS = (
    mutation(
        "live-jobs-pruned",
        "Retention takes away jobs that have not ended.",
        (
            _EVENTS,
            "and (finished_at is null or finished_at > holdfast.now() - $older_than::interval))\n"
            "       and not exists (select from holdfast.dead_letters",
            "and finished_at > holdfast.now() - $older_than::interval)\n"
            "       and not exists (select from holdfast.dead_letters",
        ),
        red=("operations/upkeep/test_partitions.py::test_a_range_stays_while_a_job_of_it_lives",),
    ),
    mutation(
        "dead-letters-pruned",
        "A dead letter is gone before anybody has decided about it.",
        (
            _EVENTS,
            "and replayed_at is null and discarded_at is null)",
            "and replayed_at is null and discarded_at is not null)",
        ),
        red=(
            "operations/upkeep/test_partitions.py"
            "::test_a_range_stays_while_a_dead_letter_waits_for_a_decision",
        ),
    ),
    mutation(
        "awaited-jobs-pruned",
        "Retention takes away a job for whose result another one waits.",
        (
            _EVENTS,
            "where dependencies.depends_on = any ($job_ids::bigint[]) and jobs.finished_at "
            "is null;",
            "where dependencies.depends_on = any ($job_ids::bigint[]) and jobs.finished_at < "
            "'-infinity';",
        ),
        red=(
            "operations/upkeep/test_partitions.py"
            "::test_a_job_that_is_waited_for_stays_although_its_range_is_being_pruned",
        ),
    ),
    mutation(
        "retention-in-the-way",
        "Every claim waits while old tables are dropped.",
        (
            "operations/upkeep/partitions.py",
            "                await shorten_lock_timeout(tx, DROP_LOCK_TIMEOUT_MS)\n",
            "                await shorten_lock_timeout(tx, 60_000)\n",
        ),
        red=(
            "operations/upkeep/test_partitions.py::test_tables_are_dropped_when_nobody_reads_them",
        ),
    ),
    mutation(
        "started-tasks-expire",
        "A job that expires takes away tasks that have run and wait for their retry.",
        (
            "operations/upkeep/expire.py",
            "if is_live and task.state == TaskState.PENDING and task.attempt == 0:",
            "if is_live and task.state == TaskState.PENDING:",
        ),
        (
            "store/sql/submitting/expiries.sql",
            "and tasks.state = {PENDING} and tasks.attempt = 0\n        order by",
            "and tasks.state = {PENDING}\n        order by",
        ),
        red=("operations/upkeep/test_expire.py::test_what_was_claimed_once_goes_on",),
    ),
    mutation(
        "cancelled-tasks-are-given-up",
        "A task that was cancelled at the last moment is given up as unschedulable, too.",
        (
            "operations/upkeep/requeue.py",
            "waiting = sorted(task.id for task in tasks.values() if task.state == "
            "TaskState.PENDING)",
            "waiting = sorted(tasks)",
        ),
        red=("operations/upkeep/test_requeue.py::test_a_cancelled_task_is_not_given_up_as_well",),
    ),
    mutation(
        "migration-without-lock-timeout",
        "During a migration everybody waits behind it, for as long as it waits for its lock.",
        (
            "store/online.py",
            'f"set local lock_timeout = {LOCK_WAIT_MS}; "\n            f"set local idle',
            'f"set local lock_timeout = 0; "\n            f"set local idle',
        ),
        (
            "store/online.py",
            "async with asyncio.timeout(hold_seconds_max):",
            "async with asyncio.timeout(hold_seconds_max + 60.0):",
        ),
        red=("store/test_online.py::test_nobody_waits_behind_a_migration_that_waits",),
    ),
    mutation(
        "migrators-at-once",
        "Two servers that start at the same moment migrate at the same moment, and one breaks.",
        (
            "store/online.py",
            "            if await connection.fetchval(query, turns):\n",
            "            if await connection.fetchval(query, turns) is not None:\n",
        ),
        red=("store/test_migrate.py::test_many_migrators_at_once_do_no_harm",),
    ),
    mutation(
        "older-program-puts-its-own-back",
        "An older server that starts again undoes the upgrade of functions and triggers.",
        (
            "store/migrate.py",
            "    if newer:\n        return NOTHING\n",
            "",
        ),
        red=(
            "store/test_migrate.py::test_an_older_program_goes_on_beside_a_schema_that_allows_it",
        ),
    ),
    mutation(
        "sql-takes-any-number",
        "A job that is submitted by SQL has a lease of a millisecond, and no worker can keep it.",
        (
            "store/schema/functions/submit.sql",
            "    perform holdfast.check_numbers(spec, limits);\n",
            "",
        ),
        red=("store/test_sql_submit_parity.py::test_a_range_ends_where_the_server_has_it",),
    ),
    mutation(
        "sql-takes-inputs-of-any-size",
        "An input that is submitted by SQL is too large for any worker to take.",
        (
            "store/schema/functions/submit_checks.sql",
            "perform holdfast.check_size(field, octet_length(value::text), "
            "limits.input_bytes_max, 'bytes'),\n"
            "            holdfast.check_value(field, value)\n",
            "perform holdfast.check_value(field, value)\n",
        ),
        red=("store/test_sql_submit_parity.py::test_the_edges_are_where_the_server_has_them",),
    ),
    mutation(
        "sql-forgets-repeats",
        "A key that was used for one job is answered with it, whatever else is submitted by SQL.",
        (
            "store/schema/functions/submit.sql",
            "      where not first.is_same;\n    return first.job_id;",
            "      where first.is_same is null;\n    return first.job_id;",
        ),
        red=(
            "store/test_sql_submit.py::test_a_different_submission_under_the_same_key_is_refused",
        ),
    ),
    mutation(
        "sql-completion-of-any-lease",
        "Code whose lease was ended completes its task by SQL all the same.",
        (
            "store/schema/functions/complete.sql",
            "    if lease is null or lease.ending then\n",
            "    if lease is null then\n",
        ),
        red=(
            "store/test_sql_complete.py"
            "::test_a_second_time_is_refused_so_that_nothing_is_written_twice",
        ),
    ),
    mutation(
        "update-rewrites-history",
        "The outcome of an attempt can be changed after the fact.",
        (
            "store/schema/triggers/attempts.sql",
            "or (old.started_at, old.exit_code, old.error, old.error_class, old.stage)",
            "and (old.started_at, old.exit_code, old.error, old.error_class, old.stage)",
        ),
        red=("store/test_schema_records.py::test_an_ended_attempt_is_only_released",),
    ),
    mutation(
        "illegal-moves",
        "A task that has finished can be moved back by whoever writes SQL.",
        (
            "store/schema/triggers/tasks.sql",
            "    when (not (\n        old.finished_at is null\n        and ((",
            "    when (not (\n        ((",
        ),
        red=("store/test_schema.py::test_a_finished_task_never_moves_again",),
    ),
)
