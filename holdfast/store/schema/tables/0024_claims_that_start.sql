-- compatible with 23
-- A claim may record the start as well: one update of the task, two events. Here stands the number of the first.
alter table holdfast.tasks add column claim_seq integer;
