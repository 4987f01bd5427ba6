"""The stages of a pipeline as builds of a queue. No I/O."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from holdfast import Build

MOST_STAGES = 100  # the ids of run 7 are 700 to 799


class BadPipelineError(ValueError):
    """The pipeline can never run; the text says why."""


def builds_of(stages: Mapping[str, Any], number: int) -> Iterator[Build]:
    """The builds of one run, to be enqueued in this order.

    A build waits while builds of the jobs in its `blocked_by` are ready or running. It does not
    wait for builds that are still blocked themselves. So a stage names all stages before it, not
    only those that it needs directly.
    """
    for name, stage in stages.items():
        if not isinstance(stage, Mapping) or not isinstance(stage.get("run"), str):
            raise BadPipelineError(f'{name} is no stage: a stage has a command, run = "…"')
        if not isinstance(stage.get("needs", []), list):
            raise BadPipelineError(f'{name}: needs is a list of stages, such as ["build"]')
    needs = {name: list(map(str, stage.get("needs", []))) for name, stage in stages.items()}
    order = _in_order(needs)
    ids = {name: number * MOST_STAGES + place for place, name in enumerate(order)}
    before: dict[str, set[str]] = {}
    for name in order:
        before[name] = set(needs[name]).union(*(before[needed] for needed in needs[name]))
        yield Build(
            ids[name],
            name,
            blocked_by=sorted(before[name]),
            annotations={
                "run": stages[name]["run"],
                "needs": [ids[needed] for needed in needs[name]],
            },
        )


def _in_order(needs: Mapping[str, list[str]]) -> list[str]:
    for name, needed in needs.items():
        if unknown := set(needed) - needs.keys():
            raise BadPipelineError(f"{name} needs {min(unknown)}, which is no stage")
    try:
        order = [*TopologicalSorter(needs).static_order()]
    except CycleError as error:
        raise BadPipelineError(f"stages need each other: {', '.join(error.args[1])}") from None
    if len(order) > MOST_STAGES:
        raise BadPipelineError(f"a pipeline has at most {MOST_STAGES} stages")
    return order
