-- What lists are read by. No index here has a column that a job's moves change, nor a condition on one:
-- their updates stay heap-only, and an index costs its share of the submission alone. Texts are compared
-- by their bytes: that is faster, and no update of the system's locales can break the order.

-- A job with one task has five versions in its short life. With room for them on its page, four of five
-- updates touch no index (two of five before), and the table is no larger: the versions were on other pages.
alter table holdfast.jobs set (fillfactor = 40);

create index jobs_by_type on holdfast.jobs (type collate "C", job_id);
create index jobs_by_owner on holdfast.jobs (owner collate "C", job_id);
create index jobs_by_queue on holdfast.jobs (queue, job_id) where queue is not null;
create index jobs_by_name on holdfast.jobs (name collate "C", job_id);

drop index holdfast.jobs_by_parent;
create index jobs_by_parent on holdfast.jobs (parent_job_id, job_id) where parent_job_id is not null;

create index open_dead_letters on holdfast.dead_letters (job_id, task_index)
    where replayed_at is null and discarded_at is null;

-- Labels, for jobs that have any: a GIN index knows which jobs carry one, but not in what order, and a
-- label of half a million jobs would be read whole for each page. Values may be long, so they are hashed.
create table holdfast.job_labels (
    label bigint not null,
    job_id bigint not null,
    constraint a_label_of_a_job_is_kept_once primary key (label, job_id)
);

create function holdfast.label_hash(key text, value text) returns bigint
    language sql immutable as $$ select hashtextextended(value, hashtextextended(key, 0)) $$;

create function holdfast.keep_labels() returns trigger
    language plpgsql as $$
begin
    insert into holdfast.job_labels (label, job_id)
    select distinct holdfast.label_hash(key, value), new.job_id from jsonb_each_text(new.labels);
    return null;
end $$;
create trigger labels_are_kept_with_their_job after insert on holdfast.jobs for each row
    when (new.labels <> '{}') execute function holdfast.keep_labels();

create function holdfast.drop_labels() returns trigger
    language plpgsql as $$
begin
    delete from holdfast.job_labels
     where job_id = old.job_id
       and label in (select holdfast.label_hash(key, value) from jsonb_each_text(old.labels));
    return null;
end $$;
create trigger labels_go_with_their_job after delete on holdfast.jobs for each row
    when (old.labels <> '{}') execute function holdfast.drop_labels();

insert into holdfast.job_labels (label, job_id)
select distinct holdfast.label_hash(key, value), job_id from holdfast.jobs, jsonb_each_text(labels);
