-- Upkeep of the events.

-- Whoever follows events finds the new ones by transaction, in a BRIN index. Pages that it does not cover yet
-- are read whole, and Postgres covers new ones with the autovacuum's pace, once a minute: under load that is
-- millions of events, several times a second. So a chore asks for it.
create or replace function holdfast.summarise_events() returns int
    language sql security definer set search_path = holdfast, pg_temp as $$
    select coalesce(sum(brin_summarize_new_values(pg_index.indexrelid)), 0)::int
      from (select first_job_id from holdfast.partitions
             where first_job_id <= (select last_value from holdfast.job_ids)
             order by first_job_id desc limit 2) as newest
      join pg_index on pg_index.indrelid = to_regclass('holdfast.events_' || newest.first_job_id)
      join pg_class on pg_class.oid = pg_index.indexrelid
      join pg_am on pg_am.oid = pg_class.relam and pg_am.amname = 'brin'
$$;
revoke execute on function holdfast.summarise_events() from public;
