from collections import Counter
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
import tests.operations.test_state_machine as m
T=Counter()
def test_tally(postgres):
    B=m.machine_on(postgres)
    class C(B):
        def teardown(self):
            for j in self.model.jobs.values():
                T['job '+j.state.name]+=1
                for t in j.tasks:
                    T.update(t.story)
                    if t.lease and t.lease.ending: T['ending']+=1
                    if len(t.attempts)>1: T['multi']+=1
            T['examples']+=1
            super().teardown()
    run_state_machine_as_test(C, settings=settings(m.BOUNDED, max_examples=25, database=None))
    print(T)
