"""`headrace trace`: reads a run's traces, writes the file to look at, and sums up where the time went."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.dataflow.language.parse import load
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import upstream
from headrace.dataflow.record.rundir import RunDir
from headrace.dataflow.record.tracing.lives import Life, StageFigures, figures, lives
from headrace.dataflow.record.tracing.perfetto import perfetto
from headrace.dataflow.record.tracing.read import Span, Traces

NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Where the time of a run went."""

    file: Path
    """To open in Perfetto."""
    samples: int
    """That were trained on, and whose whole way is known."""
    shown: int
    """Of them, the newest, that `file` has."""
    seconds: float
    """Median from a sample's put to its commit; 0 without samples."""
    stages: tuple[StageFigures, ...]
    work: dict[str, dict[str, float]]
    """Seconds by replica and by what it did; what is done at once counts each."""
    torn: int
    """Lines of the traces that are not whole, and are passed over."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "file": str(self.file)}


def traced(run_dir: Path, file: Path | None = None, *, most: int) -> Traced:
    """Writes `file`, by default trace.json of the run, with at most so many samples. Raises RunDirError."""
    run = RunDir.open(run_dir)
    traces, spec = Traces.read(run_dir), load(str(run.path)).spec
    samples = lives_in(spec, traces)
    shown = samples[max(len(samples) - most, 0) :]
    target = run.path / "trace.json" if file is None else file
    target.write_text(json.dumps(perfetto(traces.spans, shown)), encoding="utf-8")
    return Traced(
        file=target,
        samples=len(samples),
        shown=len(shown),
        seconds=_median(samples),
        stages=tuple(figures(samples)),
        work=_work(traces.spans),
        torn=traces.torn,
    )


def lives_in(spec: GraphSpec, traces: Traces) -> list[Life]:
    """The ways of the samples of a graph that were trained on, in the order in which they were."""
    before = {name: tuple(upstream(spec, name)) for name in spec.nodes}
    return lives(traces, tuple(spec.of_kind("trainer")), before)


def _median(samples: Sequence[Life]) -> float:
    lengths = sorted(life.seconds for life in samples)
    return lengths[len(lengths) // 2] if lengths else 0.0


def _work(spans: Sequence[Span]) -> dict[str, dict[str, float]]:
    work: dict[str, dict[str, float]] = {}
    for span in spans:
        done = work.setdefault(span.replica, {})
        what = NUMBER.sub("N", span.what)
        done[what] = done.get(what, 0.0) + span.ended - span.began
    return {replica: work[replica] for replica in sorted(work)}


def render(found: Traced) -> RenderableType:
    """What the command prints."""
    stages = Table("stage", "samples", "median", "p95", "share", box=None)
    for stage in found.stages:
        stages.add_row(
            stage.name,
            str(stage.samples),
            f"{stage.median_s:.3f} s",
            f"{stage.p95_s:.3f} s",
            f"{stage.share:.1%}",
        )
    work = Table("replica", "did", "for", box=None)
    for replica, done in found.work.items():
        for what, seconds in sorted(done.items(), key=lambda each: -each[1]):
            work.add_row(replica, what, f"{seconds:.2f} s")
    torn = f"; {found.torn} torn lines passed over" if found.torn else ""
    return Group(
        Text(f"{found.samples} samples, median {found.seconds:.3f} s from put to commit{torn}", style="bold"),
        stages,
        work,
        Text(f"{found.file}: {found.shown} samples; open it at https://ui.perfetto.dev", style="dim"),
    )
