-- The number of an advisory lock: shared by whoever decides by limits, held alone by whoever changes one. So nothing is
-- gated behind a limit that is no more, and nothing starts by what a limit said before.
create or replace function holdfast.limits_lock_key() returns bigint
    language sql immutable parallel safe as 'select x''686F6C66''::bigint';
