-- What a trigger calls whose rule stands in its WHEN clause: the name of the trigger is the sentence it defends.

create or replace function holdfast.refuse() returns trigger
    language plpgsql as $$
begin
    raise exception using
        errcode = 'integrity_constraint_violation',
        constraint = tg_name,
        message = format('%s on %I.%I refused: %s', tg_op, tg_table_schema, tg_table_name,
                         replace(tg_name, '_', ' '));
end $$;
