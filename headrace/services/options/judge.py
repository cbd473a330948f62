"""A model behind an endpoint that scores answers."""

from dataclasses import dataclass

from headrace.algorithms.bounds import Count, Natural, NonNegative, Positive, Share
from headrace.services.options.placed import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions(Placed):
    """Scores answers by an OpenAI-compatible endpoint: a value, invalid with a reason, or an error."""

    base_url: str
    """Of the endpoint, up to before `/chat/completions`, e.g. http://127.0.0.1:8000/v1."""
    model: str
    """The model's name there."""
    template: str
    """What the judge is asked; {prompt} and {response} stand for the texts, {example.KEY} for the data's."""
    system_prompt: str | None = None
    """System message before it; None: none."""
    pattern: str = r"([-+]?\d*\.?\d+)\s*$"
    """Regular expression whose first group is the score, at its last match; a reply without one makes the row
    invalid."""
    scale: Positive = 1.0
    """What the score is divided by."""
    column: str = "reward"
    """Column of the value; why there is none and named parts stand beside it, in `<column>_invalid` and
    `<column>_parts`."""
    max_tokens: Count = 256
    """Longest reply, in tokens."""
    temperature: NonNegative = 0.0
    """Sampling temperature of the judge."""
    api_key_env: str | None = None
    """Environment variable that holds the key; None: no key is sent."""
    timeout_s: Positive = 60.0
    """Seconds a reply may take."""
    retries: Natural = 3
    """Times a request is repeated after a timeout, a status of 429 or 5xx, or a lost connection, with
    back-off; then the row is handed back."""
    max_concurrent: Count = 16
    """Requests in flight at once."""
    max_error_rate: Share = 0.5
    """Share of scorings that may fail over the last 256 before the service gives up."""

    def longest_work_s(self, no_progress_timeout_s: float) -> float:
        """All tries of a reply."""
        return max(Placed.longest_work_s(self, no_progress_timeout_s), self.timeout_s * (self.retries + 1))
