-- Partitions are added and dropped with the rights of the schema's owner: whoever may do no more than use
-- the schema, or submit by SQL, must not be able to call for that.
revoke execute on function holdfast.add_partition(bigint, bigint) from public;
revoke execute on function holdfast.drop_partition(bigint) from public;
