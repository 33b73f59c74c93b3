-- compatible with 23
-- No table changes. Functions end, claim and count for a worker's turn by one call; older servers do not know them.
select;
