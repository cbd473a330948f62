"""What prompts are drawn from."""

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.algorithms.bounds import Count
from headrace.algorithms.by_path import DatasetPath, FilePath


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
class Written:
    """Prompts that somebody wrote down, each with what goes to the verifier."""

    prompt_key: str = "prompt"
    """Key of the prompt: text, chat messages, or token ids."""
    chat: bool = False
    """Ask text as a user's message, through the model's chat template."""
    system_prompt: str | None = None
    """System message put before each prompt; text is then a user's message. None: none."""
    domain_key: str = "domain"
    """Key of a prompt's domain, for samplers that choose by it: numbers from the lowest up, names as they
    first come, the first being level 0."""
    pass_rate_key: str = "pass_rate"
    """Key of a prompt's pass rate under the initial policy, from 0 to 1, for what goes by a profile."""

    @property
    def is_chat(self) -> bool:
        """Whether text becomes messages."""
        return self.chat or self.system_prompt is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlData(Written):
    """One prompt a line: an object with the prompt under a key; the rest goes to the verifier."""

    kind: Literal["jsonl"] = "jsonl"
    path: FilePath
    """The file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetData(Written):
    """One prompt a row of a Parquet file, read a row group at a time; the rest goes to the verifier."""

    kind: Literal["parquet"] = "parquet"
    path: FilePath
    """The file."""
    columns: tuple[str, ...] = ()
    """Columns that go to the verifier beside the prompt; none: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HuggingFaceData(Written):
    """One prompt a row of a data set of the `datasets` package; the rest goes to the verifier."""

    kind: Literal["datasets"] = "datasets"
    path: DatasetPath
    """A folder made by save_to_disk, a folder of data files, or the name of one in the local cache."""
    split: str | None = None
    """Split; None: the only one, or train."""
    subset: str | None = None
    """Configuration, where there are several; None: the only one."""
    columns: tuple[str, ...] = ()
    """Columns that go to the verifier beside the prompt; none: all."""


FileData = JsonlData | ParquetData | HuggingFaceData
Dataset = CopyData | ReasoningGymData | FileData
