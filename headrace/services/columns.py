"""The columns that the built-in services write and read, and who writes which."""

from headrace.transferqueue.schema import Column

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
