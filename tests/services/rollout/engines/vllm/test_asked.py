"""What vLLM is asked for: how samples are drawn, how its engine is set up, and what it serves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headrace.services.models import load
from headrace.services.models.pretrained import saved_stop_token_ids
from headrace.services.options import RolloutOptions, VllmOptions
from headrace.services.rollout.engines.base import Request, Sampling
from headrace.services.rollout.engines.vllm.engine import engine_fields
from headrace.services.rollout.engines.vllm.folder import saved_model
from headrace.services.rollout.engines.vllm.parameters import sampling_fields, stream_seed
from headrace.services.rollout.engines.vllm.shape import ModelShape


def test_a_sample_is_drawn_untruncated_and_ends_at_our_stop_tokens_alone() -> None:
    sampling = Sampling(temperature=1.2, max_new_tokens=16, stop_token_ids=(1, 7))
    request = Request(uid=0, group=0, prompt_ids=np.array([3]), seed=5)
    assert sampling_fields(sampling, request, drawn=6) == {
        "temperature": 1.2,
        "top_p": 1.0,
        "top_k": 0,
        "max_tokens": 10,
        "seed": stream_seed(5, 6),
        "stop_token_ids": [1, 7],
        "ignore_eos": True,
        "logprobs": 0,
        "detokenize": False,
    }
    assert sampling_fields(sampling, replace(request, max_new_tokens=1), drawn=0)["max_tokens"] == 1


def test_seeds_fit_into_63_bits_and_differ_by_sample_and_by_where_it_goes_on() -> None:
    seeds = [stream_seed(seed, drawn) for seed, drawn in [(0, 0), (0, 3), (1 << 40, 0), ((1 << 64) - 1, 0)]]
    assert len(set(seeds)) == 4
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert stream_seed(5, 2) == stream_seed(5, 2)


def test_on_a_cpu_the_cache_has_its_size_and_nothing_is_compiled() -> None:
    options = RolloutOptions(engine="vllm", max_concurrent=32, vllm=VllmOptions(cpu_cache_gib=0.5))
    assert engine_fields(options, Path("/models/m"), dtype="float32", longest=512, gpu=False) == {
        "model": "/models/m",
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "dtype": "float32",
        "max_model_len": 512,
        "max_num_seqs": 32,
        "logprobs_mode": "processed_logprobs",
        "async_scheduling": False,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "enforce_eager": True,
        "tensor_parallel_size": 1,
        "distributed_executor_backend": "uni",
        "kv_cache_memory_bytes": 536_870_912,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 2048,
    }


def test_on_gpus_the_model_is_shared_by_ranks_in_processes_of_their_own() -> None:
    options = RolloutOptions(engine="vllm", gpus=2, vllm=VllmOptions(tensor_parallel=2))
    fields = engine_fields(options, Path("/m"), dtype="bfloat16", longest=512, gpu=True)
    assert fields["gpu_memory_utilization"] == 0.9
    assert (fields["tensor_parallel_size"], fields["distributed_executor_backend"]) == (2, "mp")
    assert fields["enforce_eager"] is False
    assert "kv_cache_memory_bytes" not in fields


def test_a_drawn_model_lies_in_a_folder_as_long_as_it_is_read(tmp_path: Path) -> None:
    with saved_model("tiny-copier", dtype="float32", seed=3) as saved:
        assert saved.stop_token_ids == (1,)
        assert sorted(path.name for path in saved.folder.iterdir()) == [
            "config.json",
            "generation_config.json",
            "model.safetensors",
        ]
        shape = ModelShape(saved.folder, dtype="float32", longest=None)
    assert not saved.folder.exists()
    assert (shape.vocabulary, shape.longest) == (13, 2048)
    own = load("tiny-copier", dtype="float32", seed=3)
    own.model.save_pretrained(tmp_path)
    own.tokenizer.save_pretrained(tmp_path)
    assert saved_stop_token_ids(tmp_path) == (1,)
    with saved_model(str(tmp_path), dtype="float32", seed=3) as saved:
        assert (saved.folder, saved.stop_token_ids) == (tmp_path, (1,))


def test_weights_are_checked_by_name_and_a_tied_tensor_is_given_under_its_first_name() -> None:
    model = load("tiny-copier", dtype="float32", seed=3).model
    with saved_model("tiny-copier", dtype="float32", seed=3) as saved:
        shape = ModelShape(saved.folder, dtype="float32", longest=100)
    assert shape.longest == 100
    weights = dict(model.state_dict())
    head = weights.pop("lm_head.weight")
    shape.check(weights)
    del weights["model.embed_tokens.weight"]
    with pytest.raises(ValueError, match=r"missing: model\.embed_tokens\.weight, lm_head\.weight"):
        shape.check(weights)
    weights["lm_head.weight"] = head
    shape.check(weights)
    assert torch.equal(shape.named(weights)["model.embed_tokens.weight"], head)
