-- compatible with 23
-- outside a transaction
-- From a bucket to the attempts that hold its slots: the only account there is of them.
drop index concurrently if exists holdfast.slots_held_1;
create index concurrently slots_held_1 on holdfast.leases ((held[1])) include (slots) where held[1] is not null;
drop index concurrently if exists holdfast.slots_held_2;
create index concurrently slots_held_2 on holdfast.leases ((held[2])) include (slots) where held[2] is not null;
drop index concurrently if exists holdfast.slots_held_3;
create index concurrently slots_held_3 on holdfast.leases ((held[3])) include (slots) where held[3] is not null;
drop index concurrently if exists holdfast.slots_held_4;
create index concurrently slots_held_4 on holdfast.leases ((held[4])) include (slots) where held[4] is not null;
