-- The guards of policies.

create or replace trigger a_change_of_a_policy_stays_as_it_was before update or delete on holdfast.policy_changes
    for each row execute function holdfast.refuse();
