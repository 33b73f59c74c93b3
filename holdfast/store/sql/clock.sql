-- name: read_clock
select holdfast.now();
