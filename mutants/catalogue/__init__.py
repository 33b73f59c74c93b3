"""All mutations, by where they are planted."""

from mutants.catalogue import (
    claiming,
    deciding,
    following,
    keeping,
    limits,
    serving,
    simulating,
    working,
)
from mutants.mutation import Mutation

MUTATIONS: tuple[Mutation, ...] = (
    *claiming.MUTATIONS,
    *deciding.MUTATIONS,
    *limits.MUTATIONS,
    *following.MUTATIONS,
    *serving.MUTATIONS,
    *working.MUTATIONS,
    *keeping.MUTATIONS,
    *simulating.MUTATIONS,
)
