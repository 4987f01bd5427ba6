"""The state machine: one table, in Python, in Lua and in the docs."""

import pytest

from holdfast.builds.build_states import FINAL, MOVES, NEXT_ATTEMPT, SAME, State
from tests.builds.lua_alone import Alone

# The legal changes as they were specified; FROZEN and RUNNING again were added.
SPECIFIED = {
    "QUEUED": {"BLOCKED", "READY", "RUNNING", "ABORTED", "COLLAPSED"},
    "BLOCKED": {"READY", "RUNNING", "ABORTED", "COLLAPSED"},
    "READY": {"RUNNING", "ABORTED"},
    "RUNNING": {"SUCCESS", "FAILURE", "ABORTED"},
    "SUCCESS": set(),
    "FAILURE": set(),
    "ABORTED": set(),
    "COLLAPSED": set(),
}


@pytest.fixture(scope="module")
def validator() -> Alone:
    return Alone("StateValidator")


def test_lua_has_the_same_table(validator: Alone) -> None:
    ours = {
        start.name if start else "NONE": {end.name: event for end, event in moves.items()}
        for start, moves in MOVES.items()
    }
    theirs = {name: moves or {} for name, moves in validator.python(validator.m.MOVES).items()}
    assert theirs == ours
    assert set(validator.m.SAME.keys()) == {state.name for state in SAME}
    assert validator.m.NEXT_ATTEMPT == NEXT_ATTEMPT


@pytest.mark.parametrize("start", State)
@pytest.mark.parametrize("end", State)
def test_every_change_is_legal_or_says_why(start: State, end: State, validator: Alone) -> None:
    said = validator("event", start.name, end.name)
    if end in MOVES[start]:
        assert said == MOVES[start][end]
    elif start is end and start in SAME:
        assert said == ""
    else:
        assert said[0] is None
        assert start.name in said[1]


def test_the_beginning_of_the_next_attempt_is_no_retry(validator: Alone) -> None:
    assert validator("event", "RUNNING", "RUNNING", True) == NEXT_ATTEMPT
    assert validator("event", "RUNNING", "RUNNING", False) == "BuildRetried"
    for state in State:
        if state is not State.RUNNING:
            said = validator("event", state.name, "RUNNING", True)
            assert said == validator("event", state.name, "RUNNING")


def test_the_specified_changes_are_there_and_the_others_are_two() -> None:
    extra = set()
    for start, moves in MOVES.items():
        if start is not None and start is not State.FROZEN:
            names = {end.name for end in moves}
            assert names >= SPECIFIED[start.name]
            extra |= {(start.name, name) for name in names - SPECIFIED[start.name]}
    assert extra == {("QUEUED", "FROZEN"), ("RUNNING", "RUNNING")}


def test_an_unknown_state_is_refused(validator: Alone) -> None:
    assert validator("event", "LOST", "READY") == (None, "LOST is no state")
    assert validator("event", "READY", "LOST") == (None, "READY to LOST is not a legal change")
    assert validator("event", "SUCCESS", "READY") == (None, "SUCCESS is final")


@pytest.mark.parametrize("state", State)
def test_final_states_are_those_that_nothing_follows(state: State, validator: Alone) -> None:
    assert state.is_final == (state in FINAL) == (MOVES[state] == {})
    assert validator("is_final", state.name) == state.is_final


def test_every_state_can_be_reached_and_left() -> None:
    assert {end for moves in MOVES.values() for end in moves} == set(State)
