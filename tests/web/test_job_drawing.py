"""The drawing of jobs: lines that can be followed, and text that stays text."""

import re

from holdfast.web.job_drawing import draw
from holdfast.web.readers.builds.graph import Edge, JobGraph, JobNode

Box = tuple[int, int, int, int]


def graph(*edges: tuple[str, str], **levels: int) -> JobGraph:
    nodes = tuple(JobNode(job, (), (1,), level) for job, level in levels.items())
    return JobGraph(nodes, tuple(Edge(job, before, False) for before, job in edges))


def boxes(drawn: str) -> list[Box]:
    found = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', drawn)
    return [(int(x), int(y), int(x) + int(w), int(y) + int(h)) for x, y, w, h in found]


def on_the_way(path: str) -> list[tuple[float, float]]:
    """Points of each curve and line of a path, without its ends."""
    start, *parts = re.findall(r"([MCL])([\d ]+)", path)
    at = tuple(map(int, start[1].split()))
    found = []
    for kind, text in parts:
        ends = list(map(int, text.split()))
        a, b, c, d = (at, at, ends, ends) if kind == "L" else (at, ends[:2], ends[2:4], ends[4:])
        for n in range(1, 20):
            t, u = n / 20, 1 - n / 20
            mixed = (
                u**3 * a[i] + 3 * u * u * t * b[i] + 3 * u * t * t * c[i] + t**3 * d[i]
                for i in (0, 1)
            )
            x, y = mixed
            found.append((x, y))
        at = tuple(d)
    return found


def test_no_line_runs_behind_a_job() -> None:
    jobs = graph(
        *(("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("a", "d"), ("e", "d"), ("c", "a")),
        a=0,
        e=0,
        b=1,
        c=2,
        d=3,
    )
    drawn = draw(jobs)
    height = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', drawn)[0])
    paths = re.findall(r'<path class="edge" d="([^"]+)"', drawn)
    assert len(paths) == 7
    for path in paths:
        for x, y in on_the_way(path):
            assert y < height
            hidden = [box for box in boxes(drawn) if box[0] < x < box[2] and box[1] < y < box[3]]
            assert not hidden, path


def test_names_of_jobs_are_text() -> None:
    assert "<script" not in draw(graph(**{"<script>": 0}))
