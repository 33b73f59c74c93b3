-- compatible with 23
-- No table changes. A function stores small jobs by one call; older servers do not know it.
select;
