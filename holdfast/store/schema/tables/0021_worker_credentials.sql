-- What a worker proves itself by: of the secret that it has made for this incarnation, the SHA-256 alone is kept,
-- so that nobody who reads it can speak for a worker; and the token that it joined with, whose end is the worker's.
-- A placed worker of an earlier program expects to be called with the secret itself, and refuses from here on.

alter table holdfast.workers add column secret_hash bytea, add column token_id text collate "C";
update holdfast.workers set secret_hash = sha256(convert_to(secret, 'UTF8')) where secret is not null;
alter table holdfast.workers drop constraint a_called_worker_has_a_secret_and_a_capacity;
alter table holdfast.workers drop column secret;
alter table holdfast.workers
    add constraint a_called_worker_has_a_secret_and_a_capacity check (
        (address is null or secret_hash is not null) and (address is null) = (capacity is null)),
    add constraint hashes_of_workers_are_sha_256 check (octet_length(secret_hash) = 32);
create index workers_that_joined_with_a_token on holdfast.workers (token_id)
    where token_id is not null and lost_at is null;
