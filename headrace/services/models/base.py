"""What a loaded model is, and how a recipe makes one."""

from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """What a model's memory follows from."""

    parameters: int
    """Numbers in its weights, shared ones counted once."""
    layers: int
    hidden: int
    """Width between layers."""
    intermediate: int
    """Width within a layer's feed-forward part."""
    kv_heads: int
    head_size: int
    vocabulary: int

    @property
    def cached_per_token(self) -> int:
        """Numbers that the keys and values of a token are."""
        return 2 * self.layers * self.kv_heads * self.head_size


class Recipe(Protocol):
    """A model that headrace makes itself; a module with these functions."""

    def size(self) -> ModelSize:
        """Without loading it; imports nothing heavy."""
        ...

    def missing(self) -> str | None:
        """What has to be installed first, None if nothing; imports nothing heavy."""
        ...

    def folder(self) -> Path | None:
        """Where it lies in the Hugging Face format, made at the first call; None: it is drawn from a seed."""
        ...

    def load(self, *, dtype: str, seed: int) -> LoadedModel: ...

    def tokenizer(self) -> "PreTrainedTokenizerBase":
        """The tokenizer alone, without loading the weights."""
        ...
