"""Board, story, graph and search of a queue on each server."""

from pathlib import Path

import pytest

from holdfast.builds import Build, BuildQueue, State
from holdfast.web.readers.builds import BuildIndex, BuildReader, job_graph, why
from tests.builds.conftest import Bench, Play, play, url

__all__ = ["play", "url"]  # fixtures


async def pipeline(b: Bench) -> None:
    await b.queue.enqueue(Build(1, "compile"))
    await b.queue.start(1, worker="alice")
    await b.queue.enqueue(Build(2, "test", blocked_by=["compile"]))
    await b.queue.enqueue(Build(3, "deploy", blocked_by=["test", "compile"]))
    await b.queue.enqueue(Build(4, "compile"))
    await b.queue.enqueue(Build(5, "later", delay_s=600))


def test_queues_are_found_and_shown_by_state(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await pipeline(b)
        await b.another("other").enqueue(Build(1, "a"))
        reader = BuildReader(b.client)
        assert await reader.find() == ["builds", "other"]
        board = await reader.board("builds")
        assert [record.id for record in board.columns[State.BLOCKED]] == [4, 3, 2]
        assert [record.id for record in board.columns[State.RUNNING]] == [1]
        assert board.stats.by_state[State.QUEUED] == 1

    play(scenario)


def test_a_build_says_in_words_why_it_waits(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await pipeline(b)
        reader = BuildReader(b.client)
        said = {}
        for build in range(1, 6):
            record = await b.queue.get(build)
            assert record is not None
            said[build] = why(record, {1: "compile"}, b.now_ms)
        assert said == {
            1: "It runs on alice.",
            2: "It waits for jobs that must not run beside it: build 1 of compile.",
            3: "It waits for jobs that must not run beside it: build 1 of compile.",
            4: "It waits for a build of its own job: build 1 of compile.",
            5: "Its delay has not ended, for 10 min more.",
        }
        story = await reader.story("builds", 1)
        assert story is not None
        assert [event.name for event in story.events][-1] == "BuildStarted"
        assert await reader.story("builds", 99) is None

    play(scenario)


def test_the_graph_shows_what_waits_for_what(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        await pipeline(b)
        graph = await BuildReader(b.client).graph("builds")
        levels = {node.job: node.level for node in graph.nodes}
        assert levels == {"compile": 0, "later": 0, "test": 1, "deploy": 2}
        (compile_node,) = [node for node in graph.nodes if node.job == "compile"]
        assert (compile_node.running, compile_node.waiting) == ((1,), (4,))
        active = {(edge.job, edge.blocked_by): edge.is_active for edge in graph.edges}
        assert active == {
            ("test", "compile"): True,
            ("deploy", "compile"): True,
            ("deploy", "test"): False,
        }

    play(scenario)


def test_jobs_in_a_circle_have_a_graph(play: Play) -> None:
    async def scenario(b: Bench) -> None:
        for build, (job, other) in enumerate([("a", "b"), ("b", "c"), ("c", "a")], 1):
            await b.queue.enqueue(Build(build, job, blocked_by=[other]))
        graph = job_graph(await b.queue.list())
        assert {node.job for node in graph.nodes} == {"a", "b", "c"}
        assert graph.circles

    play(scenario)


async def followed(reader: BuildReader, index: BuildIndex, b: Bench) -> int:
    """Let the index follow the queue; the number of builds that came or went."""
    changed, step = 0, await reader.feed("builds", index, "builds", b.now_ms)
    while step is not None:
        changed += step[1]
        step = await reader.feed("builds", index, "builds", step[0])
    return changed


async def end(queue: BuildQueue, *builds: int) -> None:
    for build in builds:
        await queue.enqueue(Build(build, "a", annotations={"word": f"w{build}"}))
        await queue.abort(build, f"reason{build}")


def test_the_index_forgets_what_the_queue_forgets(play: Play, tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        reader, index = BuildReader(b.client), BuildIndex(tmp_path / "index.db")
        await end(b.queue, 1, 2)
        b.pass_s(3 * 86_400)
        await end(b.queue, 3)
        assert await followed(reader, index, b) == 3
        b.pass_s(5 * 86_400)
        await b.queue.check_timeouts()
        index.drop_old(b.now_ms)
        assert await followed(reader, index, b) == 0
        assert [each.build for each in index.search("builds")] == [3]
        assert index.count("builds") == 1
        for word in ("w1", "reason1", "a", "aborted", "w"):
            assert {each.build for each in index.search("builds", word)} <= {3}
        left = index._db.execute(
            "SELECT rowid FROM words_1 WHERE words_1 MATCH 'aborted'"
        ).fetchall()
        assert len(left) == 1  # the words are gone, too
        index.close()

    play(scenario)


def test_builds_that_are_kept_for_a_shorter_time_are_found_too(play: Play, tmp_path: Path) -> None:
    """Their place in the queue's list is before the place of older builds."""

    async def scenario(b: Bench) -> None:
        reader, index = BuildReader(b.client), BuildIndex(tmp_path / "index.db")
        await end(b.queue, 1, 2)
        await followed(reader, index, b)
        b.pass_s(1)
        await end(b.another(keep_days=1), 3)
        assert await followed(reader, index, b) == 1
        assert [each.build for each in index.search("builds")] == [3, 2, 1]
        index.close()

    play(scenario)


def test_the_index_of_a_queue_that_begins_again_has_the_new_builds(
    play: Play, tmp_path: Path
) -> None:
    async def scenario(b: Bench) -> None:
        reader, index = BuildReader(b.client), BuildIndex(tmp_path / "index.db")
        await end(b.queue, 1, 2, 3)
        await followed(reader, index, b)
        await b.client.exec("FLUSHALL")
        b.pass_s(60)
        await b.queue.enqueue(Build(1, "new"))
        await b.queue.abort(1)
        await followed(reader, index, b)
        assert [(each.build, each.job) for each in index.search("builds")] == [(1, "new")]
        assert index.search("builds", "w1") == []
        index.close()

    play(scenario)


def test_many_builds_that_end_in_one_moment_are_found_in_steps(play: Play, tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        reader, index = BuildReader(b.client), BuildIndex(":memory:")
        for build in range(1, 1301):
            if build in (600, 1200):
                b.pass_s(1)
            await b.queue.enqueue(Build(build, f"job{build}", virtual=True))
        assert await followed(reader, index, b) == 1300
        assert index.count("builds") == 1300
        places = [each.build for each in index.search("builds", limit=200)]
        assert places == list(range(1300, 1100, -1))
        index.close()

    play(scenario)


@pytest.mark.parametrize("content", [b"no database" * 500, b""])
def test_an_index_that_cannot_be_read_is_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(content)
    index = BuildIndex(path)
    assert index.search("builds") == []
    index.close()


def test_the_index_is_for_its_owner_only(tmp_path: Path) -> None:
    BuildIndex(tmp_path / "index.db").close()
    assert (tmp_path / "index.db").stat().st_mode & 0o777 == 0o600


def test_finished_builds_are_indexed_once_and_found_by_words(play: Play, tmp_path: Path) -> None:
    async def scenario(b: Bench) -> None:
        for build in range(1, 8):
            branch = "feature/login" if build % 2 else 'main" OR *'
            await b.queue.enqueue(Build(build, f"job-{build % 3}", annotations={"branch": branch}))
            await b.queue.start(build, worker="alice")
            b.pass_s(1)
            await b.queue.complete(build, build != 4, reason="exit status 1" if build == 4 else "")
        reader = BuildReader(b.client)
        index = BuildIndex(tmp_path / "index.db")
        assert await followed(reader, index, b) == 7
        assert await followed(reader, index, b) == 0

        def found(text: str = "", **options: object) -> list[int]:
            return [each.build for each in index.search("builds", text, **options)]  # type: ignore[arg-type]

        assert found() == [7, 6, 5, 4, 3, 2, 1]
        assert found("login") == [7, 5, 3, 1]
        assert found("feature log") == [7, 5, 3, 1]
        assert found("exit") == found(state=State.FAILURE) == [4]
        assert found("alice", job="job-1") == found(job="job-1") == [7, 4, 1]
        assert found("login", state=State.FAILURE) == []
        assert found("alice", limit=2) == [7, 6]
        assert found("alice", before=index.search("builds")[1].place, limit=2) == [5, 4]
        for hostile in ('"', "' OR 1=1 --", "*", "a AND", "NEAR(", "\x00", "ä" * 9999):
            found(hostile)  # no error
        await b.queue.enqueue(Build(8, "new"))
        await b.queue.abort(8)
        assert await followed(reader, index, b) == 1
        assert found("abort") == [8]
        index.close()
        index = BuildIndex(tmp_path / "index.db")  # it is kept
        assert index.count("builds") == 8
        assert index.search("no such queue") == []
        index.close()

    play(scenario)


@pytest.mark.parametrize("reason", ["", "<script>", "it broke"])
def test_a_reason_that_is_no_rule_is_told_as_it_is(play: Play, reason: str) -> None:
    async def scenario(b: Bench) -> None:
        await b.queue.enqueue(Build(1, "a"))
        await b.queue.start(1)
        await b.queue.complete(1, False, reason=reason)
        record = await b.queue.get(1)
        assert record is not None
        assert why(record) == (f"It failed: {reason}." if reason else "It failed.")

    play(scenario)
