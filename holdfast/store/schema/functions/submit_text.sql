-- Submitting by SQL: how the server writes values, to the byte. The digest of a submission is made of it.

create or replace function holdfast.compact(value jsonb) returns text language sql immutable as $$
    select regexp_replace(value::text, '("(?:[^"\\]|\\.)*")|\s', '\1', 'g')
$$;

-- The float that a decoder makes of a number; a cast fails where a decoder says nought or infinity.
create or replace function holdfast.as_float(value numeric) returns float8 language sql immutable as $$
    select case when abs(value) > 1e300 then sign(value)::float8 * float8 'infinity'
                when abs(value) < 2.5e-324 then 0
                else value::float8 end
$$;

-- 45.0 rather than 45, and 1e-6 rather than 1e-06.
create or replace function holdfast.float_text(value numeric) returns text language sql immutable as $$
    select case when short ~ 'e' then replace(short, 'e-0', 'e-')
                when short ~ '\.' then short
                else short || '.0' end
      from (select case when float > 0 and float < 1e-5 then float::text else float::text::numeric::text end
              from holdfast.as_float(value) as float) as written(short)
$$;

create or replace function holdfast.as_interval(seconds float8) returns interval language sql immutable as $$
    select trunc(seconds) * interval '1 second'
           + round((seconds - trunc(seconds)) * 1e6) * interval '1 microsecond'
$$;

create or replace function holdfast.first_word(line text) returns text language sql immutable as $$
    select substring(line from '[^\x09-\x0d\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
$$;
