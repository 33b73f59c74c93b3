-- The time. A test replaces this function to travel in it; nothing else in Holdfast asks for the time. Made here and
-- not with the other functions, since defaults of tables call it.
create function holdfast.now() returns timestamptz
    language sql volatile as 'select clock_timestamp()';
