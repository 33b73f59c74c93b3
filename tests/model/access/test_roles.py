"""Roles: what each implies, and which are enough."""

from holdfast.model.access.roles import Role, is_for_own_jobs, roles_with, with_implied


def test_whoever_submits_sees_contents_and_whoever_sees_those_reads() -> None:
    assert with_implied([Role.READ]) == {Role.READ}
    assert with_implied([Role.CONTENT]) == {Role.CONTENT, Role.READ}
    assert with_implied([Role.SUBMIT]) == {Role.SUBMIT, Role.CONTENT, Role.READ}


def test_a_worker_submits_nothing_and_a_submitter_claims_nothing() -> None:
    assert Role.SUBMIT not in with_implied([Role.WORKER])
    assert Role.WORKER not in with_implied([Role.SUBMIT])


def test_admin_implies_everything_and_nothing_else_implies_it() -> None:
    assert with_implied([Role.ADMIN]) == set(Role)
    assert roles_with(Role.ADMIN) == [Role.ADMIN]
    assert all(Role.ADMIN in roles_with(role) for role in Role)


def test_several_roles_have_what_each_of_them_has() -> None:
    assert with_implied([Role.WORKER, Role.SUBMIT]) == set(Role) - {Role.ADMIN}


def test_who_submits_does_so_for_himself_unless_he_runs_or_decides_for_all() -> None:
    for roles in ({Role.SUBMIT}, {Role.SUBMIT, Role.READ}, with_implied([Role.SUBMIT])):
        assert is_for_own_jobs(roles)
    for roles in ({Role.READ}, {Role.CONTENT}, {Role.WORKER, Role.SUBMIT}, set(Role)):
        assert not is_for_own_jobs(roles)
