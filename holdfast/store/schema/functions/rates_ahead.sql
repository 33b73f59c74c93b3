-- A chore: what rates have let start later than now, since the database's clock was put back, counts as started now. So
-- nothing is let start twice, and nobody waits for longer than the period until the clock is where it was. Code that
-- asks by name takes its turns from the future, so limits of that scope stay as they are. Looks at a stretch of the
-- buckets; returns how many were ahead, and the last one, if there may be more.
create or replace function holdfast.follow_clock(
    after_bucket_id bigint, buckets_max int, out num_ahead int, out last_bucket_id bigint)
    language plpgsql as $$
#variable_conflict use_column
declare
    now timestamptz := holdfast.now();
    ahead bigint[];
begin
    select array_agg(stretch.bucket_id) filter (where is_ahead),
           case when count(*) = buckets_max then max(stretch.bucket_id) end
      into ahead, last_bucket_id
      from (select limit_buckets.bucket_id,
                   case when usage_limits.scope = 'name' then false
                        when usage_limits.kind = 'bucket' then limit_buckets.filled_at > now
                        when usage_limits.kind = 'window' then (
                            select true from holdfast.limit_spent
                             where limit_spent.bucket_id = limit_buckets.bucket_id and limit_spent.slice > now
                             limit 1) end as is_ahead
              from holdfast.limit_buckets join holdfast.usage_limits using (limit_id)
             where limit_buckets.bucket_id > after_bucket_id
             order by limit_buckets.bucket_id limit buckets_max) as stretch;
    num_ahead := coalesce(cardinality(ahead), 0);
    if num_ahead = 0 or not holdfast.has_limits() then
        return;
    end if;
    select array_agg(locked.bucket_id) into ahead
      from (select limit_buckets.bucket_id from holdfast.limit_buckets
             where limit_buckets.bucket_id = any (ahead) order by limit_buckets.bucket_id
               for no key update skip locked) as locked;
    -- Whoever held one of them before has written down no later time than this.
    now := holdfast.now();
    with later as (
        delete from holdfast.limit_spent
         where limit_spent.bucket_id = any (ahead) and limit_spent.slice > now
        returning bucket_id, spent
    )
    insert into holdfast.limit_spent (bucket_id, slice, spent)
    select later.bucket_id, date_bin(max(usage_limits.period) / 100, now, timestamptz 'epoch'), sum(later.spent)
      from later
      join holdfast.limit_buckets on limit_buckets.bucket_id = later.bucket_id
      join holdfast.usage_limits on usage_limits.limit_id = limit_buckets.limit_id
     group by later.bucket_id
        on conflict (bucket_id, slice) do update set spent = limit_spent.spent + excluded.spent;
    update holdfast.limit_buckets set filled_at = now where bucket_id = any (ahead) and filled_at > now;
end $$;
