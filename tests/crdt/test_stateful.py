"""Hypothesis drives three replicas through random commands, and shrinks failures."""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.clock import ManualClock
from holdfast.crdt.causal_log import Confirmations
from tests.crdt.load import FAMILIES, Load, heal
from tests.crdt.network import Replica
from tests.crdt.test_properties import views

numbers = st.integers(0, 2)


class Network(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replicas = [Replica(i, ManualClock()) for i in (1, 2, 3)]
        for replica in self.replicas:
            replica.confirmations = Confirmations({1, 2, 3} - {replica.number})

    @rule(i=numbers, family=st.sampled_from(FAMILIES.split()), choices=st.integers(0, 999))
    def command(self, i: int, family: str, choices: int) -> None:
        Load(random.Random(choices), family).step(self.replicas[i])

    @rule(i=numbers, j=numbers, limit=st.integers(1, 9))
    def deliver(self, i: int, j: int, limit: int) -> None:
        if i != j:
            self.replicas[i].pull(self.replicas[j], limit)

    @rule(i=numbers, j=numbers)
    def deliver_again(self, i: int, j: int) -> None:
        sender, receiver = self.replicas[i], self.replicas[j]
        if sender.log.can_serve(receiver.seen):
            receiver.receive(list(sender.log.unseen({})))

    @rule(i=numbers)
    def restart(self, i: int) -> None:
        self.replicas[i].restart()

    @rule(i=numbers, seconds=st.sampled_from([0.001, 3, 3600]))
    def skew(self, i: int, seconds: float) -> None:
        self.replicas[i].clock.advance(seconds)

    @rule(i=numbers, j=numbers)
    def confirm(self, i: int, j: int) -> None:
        self.replicas[i].confirmations.acknowledge(j + 1, dict(self.replicas[j].seen))
        self.replicas[i].settle()

    @invariant()
    def equal_vectors_mean_equal_states(self) -> None:
        one, two, three = self.replicas
        for a, b in ((one, two), (one, three), (two, three)):
            if a.seen == b.seen:
                assert a.digest() == b.digest()

    def teardown(self) -> None:
        heal(self.replicas)
        first, *others = self.replicas
        for other in others:
            assert other.digest() == first.digest()
            assert views(other) == views(first)


Network.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),  # they time things, and this machine may be busy
)
TestNetwork = Network.TestCase
