"""How long prompts are reckoned to be before any data are read."""

from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.roles import copies
from headrace.dataflow.planning.topology import answering, leased_table
from headrace.services.options import CopyData, Dataset, RolloutOptions, SourceOptions

UNREAD = 128
"""Tokens of a prompt whose data say it only when they are read."""


def prompt_tokens(spec: GraphSpec, table: str) -> int:
    """Tokens of a table's prompts. What a branch makes of an answer is taken to be its prompt and itself."""
    options = spec.nodes[table].options
    if isinstance(options, SourceOptions):
        return data_tokens(options.dataset)
    parent = str(leased_table(spec, table))
    if copies(spec, table):
        return prompt_tokens(spec, parent)
    rollout = spec.nodes[str(answering(spec, parent))].options
    assert isinstance(rollout, RolloutOptions)
    return prompt_tokens(spec, parent) + rollout.max_new_tokens


def data_tokens(dataset: Dataset) -> int:
    """Of the copy task a token for each letter and its mark."""
    return 1 + max(dataset.lengths, default=0) if isinstance(dataset, CopyData) else UNREAD
