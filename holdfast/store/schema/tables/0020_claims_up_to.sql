-- What a worker of queues has to give to tasks that name resources; null for one that takes whatever comes.
alter table holdfast.workers add column claims_up_to jsonb;
