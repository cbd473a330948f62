"""The columns that the built-in services write and read, and who writes which."""

from collections.abc import Iterable
from dataclasses import replace

from headrace.transferqueue.schema import Column, Dtype

PROMPT = (
    Column(name="prompt_ids", dtype="list<int32>"),
    Column(name="example", dtype="json"),
)
"""Source: the prompt's token ids and the data set's entry, as the verifier wants it."""

RESPONSE = (
    Column(name="response_ids", dtype="list<int32>", aligned="response"),
    Column(name="logprobs", dtype="list<float32>", aligned="response"),
    Column(name="versions", dtype="list<int32>", aligned="response"),
    Column(name="loss_mask", dtype="list<int8>", aligned="response"),
    Column(name="finish_reason", dtype="string"),
    Column(name="retokenises", dtype="bool"),
)
"""Rollout: what the engine returned, token by token; `loss_mask` is 1 where the policy made the token,
`retokenises` says whether the text of the answer encodes to the same ids."""

REWARD = (
    Column(name="reward", dtype="float64"),
    Column(name="reward_invalid", dtype="string"),
    Column(name="reward_parts", dtype="json"),
)
"""Reward: the value (NaN where invalid), the reason ("" where valid), named parts such as `exact`."""

REFERENCE = (Column(name="reference_logprobs", dtype="list<float32>", aligned="response"),)
"""Reference: log-probabilities of the response under the initial weights."""

TEACHER = (Column(name="teacher_logprobs", dtype="list<float32>", aligned="response"),)
"""Teacher: log-probabilities of the response under a policy of its own."""

CRITIC = (Column(name="values", dtype="list<float32>", aligned="response"),)
"""Critic: the reward expected before each token of the response."""

BRANCHED = (
    replace(PROMPT[0], aligned="prompt"),
    PROMPT[1],
    Column(name="prompt_policies", dtype="list<int8>", aligned="prompt"),
    Column(name="prompt_versions", dtype="list<int32>", aligned="prompt"),
)
"""Branch: a prompt as a source writes it, and who made each of its tokens: the policy's place among those of
the graph, and its version; -1 for tokens of the data."""

TRAINED = (PROMPT[0], *RESPONSE, REWARD[0])
"""What a trainer reads whatever its algorithm."""


VALUED = (PROMPT[0], RESPONSE[0], RESPONSE[3], REWARD[0])
"""What the trainer of a value model reads: prompt, answer, mask and reward."""

NUMBERS = ("uid", "group", "version")
"""What a sink calls the numbers of a row, which are in no column."""


def passed(node: str) -> str:
    """The mark of a filter, true: whoever reads from it waits for it."""
    return f"{node}_passed"


def joined(node: str) -> str:
    """The mark of a join, true: the trainer of its table waits for it, so that what it drops was joined."""
    return f"{node}_joined"


def reward(column: str) -> tuple[Column, ...]:
    """The columns of REWARD under another name of the value."""
    return tuple(replace(each, name=each.name.replace("reward", column, 1)) for each in REWARD)


def dtype(name: str) -> Dtype | None:
    """The type of a column that the built-in services write; None: it is none of theirs."""
    return next((each.dtype for each in _all() if each.name == name), None)


def _all() -> Iterable[Column]:
    return (*PROMPT, *RESPONSE, *REWARD, *REFERENCE, *TEACHER, *CRITIC)
