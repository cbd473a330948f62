"""From a task's declaration to its sampler."""

from headrace.transferqueue.sampling import Sampling
from headrace.transferqueue.schema import Task
from headrace.transferqueue.state.samplers.arrivals import Arrivals
from headrace.transferqueue.state.samplers.balanced import Balanced
from headrace.transferqueue.state.samplers.base import Key, Sampler, Setting
from headrace.transferqueue.state.samplers.keys import EarliestDue, MostUrgent, Oldest, Shortest
from headrace.transferqueue.state.samplers.ordered import Gated, Ordered, Taken
from headrace.transferqueue.state.samplers.replay import Replay


def choose(task: Task, setting: Setting) -> Sampler:
    """The sampler of a task; the window of `setting` counts only for tasks that begin or train rows."""
    sampling = task.sampling
    if sampling is not None and sampling.kind == "token_balanced":
        return Balanced(setting, by=sampling.by, ranks=sampling.ranks)
    if sampling is not None and sampling.kind == "replay":
        return Replay(setting, uses=sampling.uses, seed=sampling.seed)
    if setting.window is None:
        key = _key(sampling, Oldest())
        return Arrivals(setting) if isinstance(key, Oldest) else Ordered(setting, key)
    if task.kind == "begin":
        return Gated(setting, _key(sampling, Oldest()))
    return Taken(setting, _key(sampling, EarliestDue()))


def _key(sampling: Sampling | None, default: Key) -> Key:
    if sampling is None:
        return default
    match sampling.kind:
        case "shortest_first":
            return Shortest(sampling.by)
        case "priority":
            return MostUrgent(sampling.by)
        case "earliest_deadline":
            return EarliestDue()
    return Oldest()
