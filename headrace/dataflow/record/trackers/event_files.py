"""Event files for TensorBoard. A launch that goes on from a checkpoint has the steps after it thrown away."""

from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from headrace.dataflow.record.trackers.base import Home

FOLDER = "tensorboard"


class EventFiles:
    def __init__(self, home: Home) -> None:
        self._writer = EventFileWriter(str(home.run_dir / FOLDER), flush_secs=10)
        self._begun = False

    def log(self, figures: Mapping[str, float], *, step: int, at: float) -> None:
        if not self._begun:
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=at, step=step, session_log=start))
            self._begun = True
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        self._writer.add_event(Event(wall_time=at, step=step, summary=Summary(value=values)))

    def close(self) -> None:
        self._writer.close()
