"""What a data set is: a length, and for each index an entry that depends on it and the seed alone."""

from dataclasses import dataclass
from typing import Any, Protocol

from headrace.services.errors import ServiceError

Prompt = str | list[dict[str, Any]]
"""Text, or chat messages (`{"role": ..., "content": ...}`) for the model's chat template."""


class DatasetError(ServiceError):
    """A data set that cannot be opened, or an entry that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One prompt and what the verifier needs to score answers to it."""

    prompt: Prompt
    example: dict[str, Any]
    """Plain JSON."""


class Dataset(Protocol):
    def __len__(self) -> int:
        """Prompts per epoch."""
        ...

    def __getitem__(self, index: int) -> Example:
        """The entry at `index`, 0 <= index < len; always the same one."""
        ...
