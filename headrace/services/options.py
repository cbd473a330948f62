"""What a user may set on each service; the graph's nodes and the command line's help are made from it.

Plain data that imports nothing heavy, so that a dataflow is parsed and checked before torch is loaded.
A union is keyed on `kind`, and a bare string stands for `{kind: <string>}` with every default.
"""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from headrace.algorithms.bounds import Count, Decay, Natural, NonNegative, Positive, Range, Share
from headrace.algorithms.budgets.options import BudgetOptions, FixedOptions, PythonBudgetOptions
from headrace.algorithms.curricula.options import PythonSamplerOptions, SamplerOptions, UniformOptions
from headrace.algorithms.filters import FilterOptions, PythonFilterOptions
from headrace.algorithms.options import AlgorithmOptions, PythonOptions
from headrace.algorithms.options.credit import PythonCredit
from headrace.algorithms.updates import Accumulate, PythonUpdate, UpdateOptions

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
class PolicyOptions:
    """A model: one that a trainer trains, a teacher or a critic."""

    model: str
    """A recipe's name (tiny-copier, smollm2-135m-instruct), a folder, or a hub id in the local cache."""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """Type of weights and activations."""
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    """How the weights are moved; without effect on a policy that no trainer names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Where the transfer queue keeps rows, and what they survive."""

    durability: Literal["memory", "disk"] = "memory"
    """In shared memory, gone with the launch; or in the run's queue/, from where every acknowledged row comes
    back after any death."""
    fsync: Literal["never", "batch", "always"] = "batch"
    """With disk, what a loss of power may take: all, the newest operations, or nothing acknowledged."""
    archive: bool = False
    """With disk, keep the rows that leave, for `headrace queue DIR --export`."""

    @property
    def durable(self) -> bool:
        return self.durability == "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyData:
    """Copy the letters: 'abca>' is to be answered with 'abca' and the end token."""

    kind: Literal["copy"] = "copy"
    letters: Count | tuple[Count, ...] = 4
    """Length of each word; a list: one domain for each length, taken in turn, the first being level 0."""
    alphabet: str = "abcdefghij"
    """Letters drawn from, uniformly."""
    size: Count = 1_000_000
    """Prompts per epoch; each is drawn from its index, so none is stored."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the words, one for each domain."""
        return self.letters if isinstance(self.letters, tuple) else (self.letters,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningGymData:
    """Procedural tasks of the `reasoning-gym` package, with their own verifiers."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    task: str | tuple[str, ...] = "basic_arithmetic"
    """Name of the task set; a list: one domain for each, taken in turn, the first being level 0."""
    size: Count = 2_000
    """Prompts per epoch, of all task sets together."""
    config: dict[str, Any] = field(default_factory=dict)
    """Keys of the task set's own configuration, e.g. {min_digits: 1}; of several, by the task's name."""
    system_prompt: str | None = None
    """System message put before each question; None: the model's own default."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the task sets, one for each domain."""
        return self.task if isinstance(self.task, tuple) else (self.task,)

    def config_of(self, task: str) -> dict[str, Any]:
        return self.config.get(task, {}) if isinstance(self.task, tuple) else self.config


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlData:
    """One prompt a line: an object with `prompt` (text, or chat messages); the rest goes to the verifier."""

    kind: Literal["jsonl"] = "jsonl"
    path: str
    """The file."""
    domain_key: str = "domain"
    """Key of a prompt's domain, for samplers that choose by it: numbers from the lowest up, names as they
    first come, the first being level 0."""
    pass_rate_key: str = "pass_rate"
    """Key of a prompt's pass rate under the initial policy, from 0 to 1, for what goes by a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyVerifier:
    """`exact_weight` for the whole word, the rest for the share of right positions; reports `exact`."""

    kind: Literal["copy"] = "copy"
    exact_weight: Share = 0.5
    """Part of the reward given for an exact answer only, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningGymVerifier:
    """The task set's own `score_answer`; `exact` is 1 where the score is 1."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    timeout_s: Positive = 10.0
    """Seconds one answer may take; beyond, the verifier's process is replaced and the row is invalid."""
    format_weight: Share = 0.0
    """Part of the reward given for an answer that has the asked form, from 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonVerifier:
    """A function of yours, `function(response: str, example: dict) -> float`, run in a process of its own."""

    kind: Literal["python"] = "python"
    function: str
    """Where it is: `module:function`, or `path/to/file.py:function`."""
    timeout_s: Positive = 10.0
    """Seconds one answer may take; beyond, the verifier's process is replaced and the row is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Keys that every node has."""

    replicas: Count = 1
    """Copies of the service, each a process of its own."""
    threads: Count | None = None
    """Compute threads of a replica; None: the cores, shared by the replicas that compute at the same time."""
    cpus: NonNegative = 0.0
    """Cores reserved for a replica on the cluster; 0: it shares."""
    gpus: NonNegative = 0.0
    """GPUs reserved for a replica on the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(Placed):
    """Writes prompts, one row per sample to come."""

    dataset: CopyData | ReasoningGymData | JsonlData
    """What the prompts are drawn from."""
    samples_per_prompt: Count = 8
    """G: answers asked for each prompt; the group over which advantages are normalised. With a budget, their
    mean: a step has prompts_per_step times as many to share out."""
    sampler: SamplerOptions = field(default_factory=UniformOptions)
    """Which prompt comes next."""
    budget: BudgetOptions = field(default_factory=FixedOptions)
    """How many samples each prompt of a step gets."""
    epochs: Count | None = None
    """Passes over the data; None: as many as the steps need."""
    shuffle: bool = True
    """Draw each epoch in its own order, from the run's seed."""
    ahead_steps: NonNegative | None = None
    """Prompts kept waiting beyond what the staleness admits, in steps; None: 2, or 1 where the sampler or the
    budget hears of answers. What it hears shows in a step that many, the staleness and two more later."""

    @property
    def hears(self) -> bool:
        """Whether answers change what is drawn."""
        return self.sampler.hears or self.budget.hears

    @property
    def waiting_steps(self) -> float:
        """`ahead_steps`, resolved."""
        if self.ahead_steps is None:
            return 1.0 if self.hears else 2.0
        return self.ahead_steps

    def is_fixed_order(self) -> bool:
        """Whether what is drawn follows from the position alone."""
        return isinstance(self.sampler, UniformOptions) and isinstance(self.budget, FixedOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions(Placed):
    """Generates answers with a policy's newest weights."""

    engine: Literal["torch", "fake"] = "torch"
    """What generates: a Hugging Face model in this process, or a scripted stand-in."""
    max_new_tokens: Count = 16
    """Longest answer, in tokens."""
    temperature: Positive = 1.0
    """Sampling temperature; log-probabilities are those of the tempered distribution."""
    max_concurrent: Count = 256
    """Sequences decoded at once by a replica."""
    over_new_weights: Literal["finish", "swap"] = "swap"
    """What samples in flight do when new weights arrive: finish on the old ones, or go on with the new."""
    fake: dict[str, Any] = field(default_factory=dict)
    """Script of the fake engine; see `services/rollout/engines/fake.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardOptions(Placed):
    """Scores answers: a value, invalid with a reason, or an error to retry."""

    verifier: CopyVerifier | ReasoningGymVerifier | PythonVerifier
    """What scores an answer."""
    max_error_rate: Share = 0.5
    """Share of scorings that may raise over the last 256 before the service gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenOptions(Placed):
    """A model that scores answers and never learns."""

    micro_batch_tokens: Count = 8192
    """Tokens per forward pass, prompts counted once per group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOptions(FrozenOptions):
    """Log-probabilities of the answers under the policy's initial weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherOptions(FrozenOptions):
    """Log-probabilities of the answers under a policy that no trainer trains, of the same tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticOptions(FrozenOptions):
    """Values of the answers' tokens under a token classifier of one label, which no trainer trains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerOptions(Placed):
    """Turns batches of whole groups into new versions of its policy."""

    algorithm: AlgorithmOptions
    """How a group's rewards become a loss."""
    prompts_per_step: Count = 32
    """Groups in one training step."""
    update: UpdateOptions = field(default_factory=Accumulate)
    """How a batch becomes optimizer steps; every batch makes one version."""
    filter: FilterOptions | None = None
    """Which groups are dropped and which answers are masked; None: all are trained on."""
    max_attempts: Count = 10
    """With a filter, batches of groups that a step may look at to fill itself; 10 is DAPO's."""
    when_used_up: Literal["stop", "train_smaller"] = "stop"
    """What follows when a step's attempts are used up: the run fails with the counts by reason, or what was
    accepted is trained on, if that is anything at all."""
    micro_batch_tokens: Count = 8192
    """Tokens per forward and backward pass, prompts counted once per group; no update depends on it."""
    checkpoint_every: Natural = 50
    """Steps between checkpoints; the last step always makes one. 0: only the last."""
    keep_checkpoints: Count = 2
    """Newest checkpoints kept."""


OWN_CLASSES = (
    PythonOptions,
    PythonCredit,
    PythonFilterOptions,
    PythonUpdate,
    PythonSamplerOptions,
    PythonBudgetOptions,
)
"""Options whose `path` is where a class of the user's stands."""
