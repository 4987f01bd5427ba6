"""The state machine is the seed's, and its diagram is drawn from it."""

import pytest

from holdfast.client.protocol.connection_state import (
    ACCEPTANCE,
    TRANSITIONS,
    Acceptance,
    State,
    diagram,
)


def test_every_state_says_what_it_does_with_a_request() -> None:
    assert set(ACCEPTANCE) == set(State)


@pytest.mark.parametrize("state", [State.CONNECTING, State.RECONNECTING])
def test_a_connection_on_its_way_queues(state: State) -> None:
    assert ACCEPTANCE[state] is Acceptance.QUEUE


def test_only_an_open_connection_sends() -> None:
    assert [s for s, a in ACCEPTANCE.items() if a is Acceptance.ACCEPT] == [State.OPEN]


def test_backoff_rejects() -> None:
    assert ACCEPTANCE[State.FAILED] is Acceptance.REJECT


def test_the_transitions_are_those_of_the_design_and_no_others() -> None:
    named = {(a.name, b.name) for a, b in TRANSITIONS}
    assert named == {
        ("INIT", "CONNECTING"),
        *(("CONNECTING", to) for to in ("OPEN", "FAILED")),
        *(("OPEN", to) for to in ("FAILED", "CLOSING")),
        ("FAILED", "RECONNECTING"),
        *(("RECONNECTING", to) for to in ("OPEN", "FAILED")),
        # Cancelled by close(); FAILED also when reconnection is off.
        *((state, "CLOSED") for state in ("INIT", "CONNECTING", "FAILED", "RECONNECTING")),
        ("CLOSING", "CLOSED"),
    }


def test_every_state_is_reachable_and_only_closed_is_final() -> None:
    assert {b for _, b in TRANSITIONS} == set(State) - {State.INIT}
    assert {a for a, _ in TRANSITIONS} == set(State) - {State.CLOSED}


def test_open_is_only_reached_by_a_handshake() -> None:
    assert {a for a, b in TRANSITIONS if b is State.OPEN} == {State.CONNECTING, State.RECONNECTING}


def test_the_diagram_has_every_transition() -> None:
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2")
    for (a, b), why in TRANSITIONS.items():
        assert f"{a.name} --> {b.name}: {why}\n" in drawn
