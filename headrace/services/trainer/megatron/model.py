"""A GPTModel of megatron-core that computes what the Hugging Face model of the same configuration does."""

from functools import partial
from typing import Any

import torch
from torch.nn.functional import silu
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from headrace.services.trainer.megatron.geometry import Geometry
from headrace.services.trainer.megatron.library import (
    GPTModel,
    TransformerConfig,
    get_gpt_layer_local_spec,
    initialize_rng_tracker,
    parallel_state,
    quiet,
)


def build(
    geometry: Geometry,
    config: PretrainedConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    recomputes: bool,
) -> Any:
    """This rank's part of the model, its weights not yet set; after `parallel_state` was initialised.

    `recomputes`: whether a layer keeps what enters it alone, and is computed again for its gradient.

    Over several pipeline stages a tied model holds its embedding twice, in the first and in the last stage;
    whoever trains it adds up their gradients.
    """
    initialize_rng_tracker(inference_rng_tracker=True)
    tp = parallel_state.get_tensor_model_parallel_world_size()
    pp = parallel_state.get_pipeline_model_parallel_world_size()
    with quiet():
        model = GPTModel(
            _transformer(geometry, dtype=dtype, tp=tp, pp=pp, recomputes=recomputes),
            get_gpt_layer_local_spec(qk_layernorm=geometry.qk_norm, normalization="RMSNorm"),
            vocab_size=geometry.padded_vocabulary(tp),
            max_sequence_length=config.max_position_embeddings,
            pre_process=parallel_state.is_pipeline_first_stage(),
            post_process=parallel_state.is_pipeline_last_stage(),
            share_embeddings_and_output_weights=geometry.tied and pp == 1,
            position_embedding_type="rope",
            rotary_base=_rope(config)["rope_theta"],
        )
    _scale_rope(model, config)
    if model.pre_process and config.pad_token_id is not None:
        model.embedding.word_embeddings.register_forward_hook(partial(_without_gradient, config.pad_token_id))
    return model.to(device=device, dtype=dtype)


def _transformer(geometry: Geometry, *, dtype: torch.dtype, tp: int, pp: int, recomputes: bool) -> Any:
    return TransformerConfig(
        num_layers=geometry.layers,
        hidden_size=geometry.hidden,
        ffn_hidden_size=geometry.intermediate,
        num_attention_heads=geometry.heads,
        num_query_groups=geometry.query_groups,
        kv_channels=geometry.head_size,
        normalization="RMSNorm",
        layernorm_epsilon=geometry.norm_eps,
        gated_linear_unit=True,
        activation_func=silu,
        add_bias_linear=False,
        add_qkv_bias=geometry.qkv_bias,
        qk_layernorm=geometry.qk_norm,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bf16=dtype == torch.bfloat16,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        perform_initialization=False,
        calculate_per_token_loss=True,
        variable_seq_lengths=pp > 1,
        moe_token_dispatcher_type="alltoall",
        cuda_graph_scope=[],
        recompute_granularity="full" if recomputes else None,
        recompute_method="uniform" if recomputes else None,
        recompute_num_layers=1 if recomputes else None,
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
    )


def _without_gradient(token: int, _: Any, looked_up: tuple[Any, ...], embedded: torch.Tensor) -> torch.Tensor:
    """The embedding of the padding token learns nothing of being read, as transformers has it."""
    return torch.where((looked_up[0] == token)[..., None], embedded.detach(), embedded)


def _scale_rope(model: Any, config: PretrainedConfig) -> None:
    """Gives the model the frequencies that transformers computes for a scaled rope."""
    kind = _rope(config).get("rope_type", "default")
    if kind != "default":
        rotary = model.rotary_pos_emb
        frequencies, _ = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
        rotary.inv_freq = frequencies.to(rotary.inv_freq.device)


def _rope(config: PretrainedConfig) -> dict[str, Any]:
    return config.rope_parameters
