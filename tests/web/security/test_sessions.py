"""Sessions end by themselves, and a flood of visitors ends none that has signed in."""

from holdfast.web.security.attempts import MOST_FAILURES, PERIOD_S, SignInAttempts
from holdfast.web.security.login import Login
from holdfast.web.security.sessions import IDLE_S, MOST_SESSIONS, Session, Sessions


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def personal() -> Session:
    return Session(Login("redis://localhost:1", 0, "ada", "secret"))


def test_a_cookie_finds_its_session_and_no_other_text_does() -> None:
    found = Sessions(Time())
    session = Session()
    cookie = found.add(session)
    assert found.find(cookie) is session
    assert found.find(cookie[:-1]) is None
    assert found.find("") is None


def test_an_idle_session_ends_and_a_used_one_does_not() -> None:
    time = Time()
    found = Sessions(time)
    idle, used = found.add(personal()), found.add(personal())
    time.now_s += IDLE_S - 1
    assert found.find(used) is not None
    time.now_s += 2
    assert found.find(idle) is None
    assert found.find(used) is not None
    assert len(found.dropped) == 1


def test_visitors_do_not_push_out_who_has_signed_in() -> None:
    found = Sessions(Time())
    cookie = found.add(personal())
    for _ in range(MOST_SESSIONS + 50):
        found.add(Session())
    assert len(found) == MOST_SESSIONS
    assert found.find(cookie) is not None


def test_open_pages_of_visitors_go_on_when_there_are_too_many() -> None:
    found = Sessions(Time())
    shared = Login("redis://localhost:1", 0)
    visitors = [Session(shared) for _ in range(MOST_SESSIONS + 50)]
    for visitor in visitors:
        found.add(visitor)
    assert all(visitor.login is shared for visitor in visitors)
    assert not found.dropped


def test_a_session_does_not_show_its_password() -> None:
    assert "secret" not in repr(personal())


def test_failures_are_counted_by_address_and_forgotten_after_a_minute() -> None:
    attempts = SignInAttempts()
    for _ in range(MOST_FAILURES):
        assert attempts.wait_s("a", 100.0) == 0
        attempts.failed("a", 100.0)
    assert attempts.wait_s("a", 101.0) == PERIOD_S - 1
    assert attempts.wait_s("b", 101.0) == 0
    assert attempts.wait_s("a", 100.0 + PERIOD_S) == 0
    attempts.failed("a", 100.0)
    assert attempts.wait_s("a", 5.0) == 0  # the clock was set back
