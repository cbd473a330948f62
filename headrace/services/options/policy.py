"""A model and how its weights are moved."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from headrace.algorithms.bounds import Count, Decay, Natural, NonNegative, Positive, Range, Share

Dtype = Literal["float32", "float64", "bfloat16"]
Schedule = Literal["constant", "linear", "cosine", "quadratic", "wsd", "inverse_sqrt", "greedy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyOptions:
    """GreedyLR (arXiv 2512.14527): the rate starts at lr and rises while the loss falls, and the reverse."""

    factor: Annotated[float, Range(gt=0, lt=1)] = 0.95
    """The rate is divided by it when the loss falls, and multiplied when it does not."""
    patience: Natural = 0
    """Losses in a row that are let pass before the rate moves."""
    threshold: NonNegative = 0.0
    """What a loss must fall by to count as fallen."""
    window: Count = 1
    """Losses of optimizer steps that are averaged before they are compared."""
    lowest: NonNegative = 0.0
    """Least learning rate, at most lr."""
    highest: Positive = 1.0
    """Greatest learning rate, at least lr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerOptions:
    """AdamW and its learning-rate schedule."""

    lr: NonNegative = 1e-3
    """Peak learning rate."""
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    """Decay of the gradient's and the squared gradient's moving averages."""
    eps: Positive = 1e-8
    """Added to the root of the second moment."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay, per step and unit of learning rate."""
    max_grad_norm: Positive = 1.0
    """Global gradient norm above which the gradient is scaled down."""
    schedule: Schedule = "constant"
    """Course of the learning rate after the warm-up; linear, cosine, quadratic and wsd end at `floor`."""
    warmup_steps: Natural = 0
    """Optimizer steps of linear warm-up."""
    floor: Share = 0.0
    """Share of lr that a decay ends at, one step after the last."""
    decay_share: Annotated[float, Range(gt=0, le=1)] = 0.2
    """With wsd, last share of the steps after the warm-up over which the rate decays, by 1 - sqrt."""
    greedy: GreedyOptions = field(default_factory=GreedyOptions)
    """With greedy, how the rate answers to the loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraOptions:
    """LoRA (arXiv 2106.09685): low-rank adapters, which alone are trained and published."""

    rank: Count = 8
    """Width of an adapter."""
    alpha: Positive = 16.0
    """An adapter's output is multiplied by alpha / rank."""
    target_modules: tuple[str, ...] = ()
    """Last names of the layers that get one, such as q_proj; none: every linear layer but the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """A model: one that a trainer trains, a teacher or a critic."""

    model: str
    """A recipe's name (tiny-copier, smollm2-135m-instruct), a folder, or a hub id in the local cache."""
    dtype: Dtype | None = None
    """Type of weights and activations; None: bfloat16 where every node that runs the model has gpus, else
    float32."""
    seed: Natural | None = None
    """Of a recipe's weights, which are drawn; None: the run's. One model and seed give the same weights."""
    staleness: Annotated[float, Range(ge=0, infinite=True)] | None = None
    """How far this policy's generation may run ahead of its learning, in batches; None: the run's."""
    freeze: tuple[tuple[Natural, Natural], ...] = ()
    """Steps, from the first to before the second, in which the weights stay as they are; each still takes its
    batch and makes a version."""
    lora: LoraOptions | None = None
    """Adapters that are trained in place of the weights; None: all weights are."""
    gradient_checkpointing: bool = False
    """Keep only what enters each layer for the gradient and compute the rest again: less memory, about a
    third more time, the same gradient. Without effect on a policy that no trainer names."""
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    """How the weights are moved; without effect on a policy that no trainer names."""

    @property
    def precision(self) -> Dtype:
        """`dtype`, resolved: the plan has set it where there are GPUs."""
        return self.dtype or "float32"
