-- What user code of all jobs has written, in the order of time; other notes are not searched for across jobs. Its
-- condition is written in another way than that of notes_of_user_code, so that only the search is planned by it: with a
-- limit, Postgres would rather walk through everybody's events in order than sort those of one job.

create index user_events_by_time on holdfast.notes (ts, id) where kind like 'user:%';
