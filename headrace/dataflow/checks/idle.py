"""A key that the user set and that changes nothing: a warning, since the run would go as without it."""

from headrace.dataflow.language.problems import Path, Problem


def idle(path: Path, why: str, way_out: str) -> Problem:
    return Problem(path=path, wrong=f"no effect: {why}", way_out=way_out, severity="warning")
