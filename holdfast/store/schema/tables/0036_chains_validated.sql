-- compatible with 23
-- What migration 35 asked of new rows holds for all of them: the column came with it, so there is nothing else in it.
alter table holdfast.dependencies validate constraint a_chain_goes_on_or_stands_still;
