"""The trail of changes: in order, with its outcome, bounded."""

import pytest

from holdfast.errors import StorageError
from holdfast.web.history import history_file
from holdfast.web.history.history_file import HistoryFile


def test_a_change_is_noted_before_it_is_sent_and_completed_afterwards() -> None:
    history = HistoryFile(None)
    entry = history.audit(1.0, "ada", "127.0.0.1", "delete key", "DEL a")
    assert history.audited(None, 10)[0].outcome == "sent, answer unknown"
    history.finished(entry, "done")
    assert history.audited(None, 10)[0][1:] == (
        1.0,
        "ada",
        "127.0.0.1",
        "delete key",
        "DEL a",
        "done",
    )


def test_the_newest_entries_come_first_in_pages() -> None:
    history = HistoryFile(None)
    for n in range(5):
        history.audit(n, "ada", "h", f"action {n}", "")
    first = history.audited(None, 2)
    second = history.audited(first[-1].id, 2)
    assert [each.action for each in (*first, *second)] == [f"action {n}" for n in (4, 3, 2, 1)]


def test_the_oldest_entries_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "MOST_AUDITED", 10)
    history = HistoryFile(None)
    for n in range(25):
        history.audit(n, "ada", "h", str(n), "")
    assert [each.action for each in history.audited(None, 100)] == [
        str(n) for n in range(24, 14, -1)
    ]


def test_a_trail_that_cannot_be_written_says_so() -> None:
    history = HistoryFile(None)
    history._db.execute("drop table audit")
    with pytest.raises(StorageError, match="audit trail cannot be written"):
        history.audit(1.0, "ada", "h", "x", "")
