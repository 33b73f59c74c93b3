-- The answer that a request under an idempotency key was given; claims have none, theirs is read anew.
alter table holdfast.idempotency_keys add column answer json;
