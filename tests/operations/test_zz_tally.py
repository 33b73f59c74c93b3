from collections import Counter
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
import tests.operations.test_state_machine as m
T=Counter()
def test_tally(postgres):
    B=m.machine_on(postgres)
    orig={n:getattr(B,n) for n in m.STEPS}
    def mk(n):
        def f(self,**k):
            T['step '+n]+=1
            return orig[n](self,**k)
        return f
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
    for n in m.STEPS:
        if n not in('claim_from_queues','submit','reap','requeue','follow_up'): setattr(C,n,mk(n))
    run_state_machine_as_test(C, settings=settings(m.BOUNDED, max_examples=25, database=None, phases=[m.Phase.generate]))
    print(T)
