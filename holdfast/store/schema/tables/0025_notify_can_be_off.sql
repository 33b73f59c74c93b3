-- compatible with 23
-- The definition of holdfast.submit has changed: `set holdfast.notify = off` keeps a session's submissions from
-- sending a hint with each commit.
select;
