"""What a loaded model is, and how a recipe makes one."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A causal LM or a value model in eval mode with its tokenizer; the caller owns both."""

    model: "PreTrainedModel" = field(repr=False)
    tokenizer: "PreTrainedTokenizerBase" = field(repr=False)
    stop_token_ids: tuple[int, ...]
    """Ids that end an answer; masks are made from lengths, never from these."""


class Recipe(Protocol):
    """A model that headrace makes itself; a module with these three functions."""

    def missing(self) -> str | None:
        """What has to be installed first, None if nothing; imports nothing heavy."""
        ...

    def load(self, *, dtype: str, seed: int) -> LoadedModel: ...

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The tokenizer alone, without loading the weights."""
        ...
