"""What a user may set on policies and services; a graph's nodes and the command line's help are made of it.

Plain data that imports nothing heavy, so that a dataflow is parsed and checked before torch is loaded.
A union is keyed on `kind`, and a bare string stands for `{kind: <string>}` with every default.
"""

from headrace.services.options.between import BranchOptions, JoinOptions
from headrace.services.options.data import (
    CopyData,
    Dataset,
    FileData,
    HuggingFaceData,
    JsonlData,
    ParquetData,
    ReasoningGymData,
    Written,
)
from headrace.services.options.eval import EvalOptions
from headrace.services.options.judge import JudgeOptions
from headrace.services.options.limits import Limits
from headrace.services.options.nodes import (
    CriticOptions,
    ParallelOptions,
    ReferenceOptions,
    RewardOptions,
    RolloutOptions,
    ScorerOptions,
    SourceOptions,
    TeacherOptions,
    TrainerOptions,
)
from headrace.services.options.openai import OpenaiOptions
from headrace.services.options.placed import Placed
from headrace.services.options.policy import (
    GreedyOptions,
    LoraOptions,
    OptimizerOptions,
    PolicyOptions,
    Schedule,
)
from headrace.services.options.queue import QueueOptions
from headrace.services.options.rows import RowFilterOptions, SinkOptions, TransformOptions
from headrace.services.options.trackers import (
    MlflowTracker,
    TensorboardTracker,
    Tracker,
    TrackioTracker,
    WandbTracker,
)
from headrace.services.options.verifiers import (
    CopyVerifier,
    MathVerifyVerifier,
    PythonVerifier,
    ReasoningGymVerifier,
    Verifier,
)
from headrace.services.options.vllm import VllmOptions

__all__ = [
    "BranchOptions",
    "CopyData",
    "CopyVerifier",
    "CriticOptions",
    "Dataset",
    "EvalOptions",
    "FileData",
    "GreedyOptions",
    "HuggingFaceData",
    "JoinOptions",
    "JsonlData",
    "JudgeOptions",
    "Limits",
    "LoraOptions",
    "MathVerifyVerifier",
    "MlflowTracker",
    "OpenaiOptions",
    "OptimizerOptions",
    "ParallelOptions",
    "ParquetData",
    "Placed",
    "PolicyOptions",
    "PythonVerifier",
    "QueueOptions",
    "ReasoningGymData",
    "ReasoningGymVerifier",
    "ReferenceOptions",
    "RewardOptions",
    "RolloutOptions",
    "RowFilterOptions",
    "Schedule",
    "ScorerOptions",
    "SinkOptions",
    "SourceOptions",
    "TeacherOptions",
    "TensorboardTracker",
    "Tracker",
    "TrackioTracker",
    "TrainerOptions",
    "TransformOptions",
    "Verifier",
    "VllmOptions",
    "WandbTracker",
    "Written",
]
