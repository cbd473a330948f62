"""What a model of the Llama, Qwen2 or Qwen3 family is made of, read from its Hugging Face configuration.

Imports nothing heavy: it is for `check` too. What megatron-core would compute otherwise is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

FAMILIES = ("llama", "qwen2", "qwen3")
"""As a configuration's `model_type` names them."""
ROPE_TYPES = ("default", "linear", "llama3")
"""Those whose frequencies are fixed and whose attention is not rescaled."""
WAY_OUT = "; train it with backend: torch"
VOCABULARY_MULTIPLE = 128
"""A rank's share of the vocabulary is padded to a multiple of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes and switches that decide the parameters of a model."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    query_groups: int
    """Key and value heads."""
    head_size: int
    vocabulary: int
    norm_eps: float
    tied: bool
    """Whether the output layer's weight is the embedding's."""
    qkv_bias: bool
    qk_norm: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Of a whole configuration, as `config.to_dict()` gives it. Raises ValueError for another family."""
        if (problem := unsupported(config)) is not None:
            raise ValueError(problem)
        heads, hidden = config["num_attention_heads"], config["hidden_size"]
        family = _family(config)
        return cls(
            layers=config["num_hidden_layers"],
            hidden=hidden,
            intermediate=config["intermediate_size"],
            heads=heads,
            query_groups=config.get("num_key_value_heads") or heads,
            head_size=config.get("head_dim") or hidden // heads,
            vocabulary=config["vocab_size"],
            norm_eps=config["rms_norm_eps"],
            tied=config["tie_word_embeddings"],
            qkv_bias=family == "qwen2",
            qk_norm=family == "qwen3",
        )

    def check_layout(self, *, tp: int, pp: int) -> None:
        """Raises ValueError where `tp` x `pp` ranks cannot hold equal parts."""
        problem = indivisible(
            query_groups=self.query_groups, intermediate=self.intermediate, layers=self.layers, tp=tp, pp=pp
        )
        if problem is not None:
            raise ValueError(f"the model cannot be laid out: {problem}")

    def padded_vocabulary(self, tp: int) -> int:
        """Rows of the embedding over all `tp` ranks; those past `vocabulary` are zero and never scored."""
        unit = VOCABULARY_MULTIPLE * tp
        return -(-self.vocabulary // unit) * unit


def unsupported(config: Mapping[str, Any]) -> str | None:
    """None where the configuration is one that is computed exactly, else what is wrong and the ways out."""
    family = _family(config)
    if family not in FAMILIES:
        return f"its model_type is {family}, and {_listed(FAMILIES)} are supported{WAY_OUT}"
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    if rope_type not in ROPE_TYPES:
        return f"its rope type is {rope_type}, and {_listed(ROPE_TYPES)} are supported{WAY_OUT}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return f"it rotates part of a head (partial_rotary_factor), which is not supported{WAY_OUT}"
    if (activation := config.get("hidden_act", "silu")) != "silu":
        return f"its activation is {activation}, and silu is supported{WAY_OUT}"
    for key in ("attention_bias", "mlp_bias", "use_sliding_window"):
        if config.get(key):
            return f"its {key} is set, which is not supported{WAY_OUT}"
    return None


def indivisible(*, query_groups: int, intermediate: int, layers: int, tp: int, pp: int) -> str | None:
    """None where `tp` x `pp` ranks can hold equal parts, else what is wrong and the way out."""
    for counted, number, key, ranks in (
        ("key-value heads", query_groups, "tp", tp),
        ("feed-forward units", intermediate, "tp", tp),
        ("layers", layers, "pp", pp),
    ):
        if number % ranks:
            return (
                f"it has {number} {counted}, which {key}: {ranks} does not divide; choose a {key} that does"
            )
    return None


def _family(config: Mapping[str, Any]) -> str:
    return config.get("model_type", "not named")


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)
