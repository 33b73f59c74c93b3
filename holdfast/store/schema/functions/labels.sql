-- How labels of jobs are hashed, for those who write and for those who look for them.

create or replace function holdfast.label_hash(key text, value text) returns bigint
    language sql immutable as $$ select hashtextextended(value, hashtextextended(key, 0)) $$;
