-- compatible with 23
-- Chains: jobs of one key, one after the other in the order of their submission. Each waits for the one before it,
-- which is found here; whoever submits locks the row of its key first.
create table holdfast.chains (
    owner text collate "C" not null,
    key text collate "C" not null,
    last_job_id bigint,
    joined_at timestamptz not null default holdfast.now(),
    constraint a_chain_has_one_last_job primary key (owner, key)
);
-- Retention forgets chains by this.
create index chains_by_last_job on holdfast.chains (last_job_id);

-- Of a dependency within a chain: whether it holds after any end of the job before, or, where the chain stands still
-- after a failure, when somebody has let it pass.
alter table holdfast.dependencies
    add column on_failure text,
    add constraint a_chain_goes_on_or_stands_still check (on_failure in ('pass', 'block')) not valid;
