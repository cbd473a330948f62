"""What a launch keeps of its telemetry for whoever looks at it: rates, curves, samples; in bounded memory."""

from dataclasses import dataclass, field
from typing import Self

from headrace.dataflow.record.gallery import Gallery
from headrace.dataflow.record.history import History
from headrace.dataflow.record.pace import Pace
from headrace.dataflow.record.rundir import RunDir, each_of_jsonl
from headrace.dataflow.record.series import Series
from headrace.dataflow.record.telemetry import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    pace: Pace = field(default_factory=Pace)
    series: Series = field(default_factory=Series)
    gallery: Gallery = field(default_factory=Gallery)

    @classmethod
    def of(cls, run: RunDir) -> Self:
        """With the curves of the run's earlier launches."""
        return cls(series=Series.of(History.of(each_of_jsonl(run.metrics), [])))

    def take(self, record: Record) -> None:
        """A record of telemetry."""
        self.pace.take(record)
        self.series.take(record)
        self.gallery.take(record)
