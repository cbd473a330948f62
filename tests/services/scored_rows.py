"""Two prompts with three answers, as scorers lease them, and their columns as a scorer writes them."""

import numpy as np
import pyarrow as pa

from headrace.services.columns import PROMPT, RESPONSE
from headrace.services.scoring.scorer import ModelScorer
from headrace.transferqueue import Rows, TableSpec, Task

SPEC = TableSpec(
    name="rows",
    columns=(*PROMPT, *RESPONSE),
    tasks=(Task(name="scorer", reads=("prompt_ids", "response_ids")),),
)
PROMPTS = [[3, 4, 5, 2], [3, 4, 5, 2], [6, 2]]
ANSWERS = [[3, 4, 5, 1], [7, 1], [6, 6, 6, 6, 6]]


def rows() -> Rows:
    return Rows(
        uids=np.array([10, 11, 12]),
        groups=np.array([1, 1, 2]),
        attempts=np.ones(3, dtype=np.int32),
        versions=np.zeros(3, dtype=np.int64),
        carries=(None,) * 3,
        columns={
            "prompt_ids": pa.array(PROMPTS, pa.list_(pa.int32())),
            "response_ids": pa.array(ANSWERS, pa.list_(pa.int32())),
        },
        spec=SPEC,
    )


async def scored(scorer: ModelScorer, column: str) -> list[np.ndarray]:
    """The one output's one column."""
    outputs = [output async for output in scorer.process(rows())]
    (output,) = outputs
    assert output.uids.tolist() == [10, 11, 12]
    assert list(output.columns) == [column]
    return list(output.columns[column])
