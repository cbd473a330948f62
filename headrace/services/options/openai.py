"""A server that generates: what the engine `openai` asks."""

from dataclasses import dataclass
from typing import Literal

from headrace.algorithms.bounds import Natural, Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenaiOptions:
    """An OpenAI-compatible server of completions that takes and returns token ids, as vLLM's and SGLang's."""

    base_url: str
    """Of the server, up to before `/completions`, e.g. http://127.0.0.1:8000/v1."""
    model: str
    """The model's name there; its tokens are those of the policy's model."""
    logprobs: Literal["raw", "processed"] = "raw"
    """What the server's log-probabilities are of: the distribution before the temperature, as vLLM has it by
    default, or after it (`vllm serve --logprobs-mode processed_logprobs`)."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None: no key is sent."""
    timeout_s: Positive = 600.0
    """Seconds an answer may take."""
    retries: Natural = 3
    """Times a request is repeated after a timeout, a status of 429 or 5xx, or a lost connection, with
    back-off; then the rows of the lease are handed back."""

    @property
    def longest_answer_s(self) -> float:
        """All tries of one."""
        return self.timeout_s * (self.retries + 1)
