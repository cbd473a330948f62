"""A kind of node of a user's own: one class in one file, named by its path in `kind`.

    class Shout:
        '''Writes how loud an answer is.'''

        Options = ShoutOptions                           # a dataclass that extends Placed; optional
        reads = {"response_ids": "list<int32>"}
        writes = {"loudness": "float64"}

        async def setup(self, context): self.options = context.options
        async def process(self, rows):
            loud = [float(len(ids)) for ids in rows["response_ids"]]
            yield Output(uids=rows.uids, columns={"loudness": loud})
        async def close(self): ...

The class is imported when the graph is read, so its module imports nothing heavy at the top.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, ClassVar, Protocol

from headrace.services.base import Context, Output
from headrace.services.options.placed import Placed
from headrace.transferqueue import Rows
from headrace.transferqueue.schema import Dtype

Declared = Mapping[str, Dtype | None] | Callable[[Any], Mapping[str, Dtype | None]]


class NodeType(Protocol):
    """A `headrace.services.base.Service` that says what it reads and writes.

    `reads` and `writes` are mappings from columns to types (None in `reads`: any), or static methods that
    make them from the options. `capacity`: rows in flight at once in a replica, 256 where it does not say.
    """

    Options: ClassVar[type[Placed]]
    reads: ClassVar[Declared]
    writes: ClassVar[Declared]
    has_policy: ClassVar[bool]
    needs_full_group: ClassVar[bool]
    computes: ClassVar[bool]
    capacity: int

    async def setup(self, context: Context) -> None: ...
    def process(self, rows: Rows) -> AsyncGenerator[Output, None]: ...
    async def close(self) -> None: ...
