"""Which Hugging Face tensors each parameter of each pipeline stage is made of, in the order of the model.

Invariant: every tensor that a Hugging Face model of this geometry publishes is in exactly one entry, besides
those that are copies of another stage's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from headrace.services.trainer.megatron.forms import Columns, Form, QueryGroups, Rows, Stacked, Whole
from headrace.services.trainer.megatron.geometry import Geometry

EMBEDDING = "model.embed_tokens.weight"
HEAD_NORMS = ("self_attention.q_layernorm.weight", "self_attention.k_layernorm.weight")
"""What each rank applies to its own heads, though all hold the same: their gradients are added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A parameter of megatron-core."""

    stage: int
    """Pipeline rank that holds it."""
    local: str
    """Its name there."""
    names: tuple[str, ...]
    """Of the Hugging Face tensors."""
    shapes: tuple[tuple[int, ...], ...]
    """Of each of them."""
    form: Form
    is_copy: bool = False
    """Whether it is the second of a tied pair: it follows the first and is not published."""

    @property
    def is_sharded(self) -> bool:
        """Whether tensor-parallel ranks hold different parts of it."""
        return not isinstance(self.form, Whole)

    def shard_shape(self, tp: int) -> tuple[int, ...]:
        """Of each rank's part."""
        like = [torch.empty(shape, device="meta") for shape in self.shapes]
        return tuple(self.form.split(like, tp, 0).shape)


def entries(geometry: Geometry, *, tp: int, pp: int) -> list[Entry]:
    """Of all stages; `tp` decides how far the vocabulary is padded."""
    found = [_vocabulary(geometry, tp, "embedding.word_embeddings.weight", EMBEDDING, stage=0)]
    per_stage = geometry.layers // pp
    for layer in range(geometry.layers):
        stage, local = divmod(layer, per_stage)
        prefix = f"decoder.layers.{local}."
        found += _layer(geometry, stage, prefix, f"model.layers.{layer}.")
    last = pp - 1
    found.append(_norm(last, "decoder.final_layernorm.weight", "model.norm.weight", geometry.hidden))
    output = "output_layer.weight"
    if not geometry.tied:
        found.append(_vocabulary(geometry, tp, output, "lm_head.weight", stage=last))
    elif last:
        found.append(_vocabulary(geometry, tp, output, EMBEDDING, stage=last, is_copy=True))
    return found


def _layer(geometry: Geometry, stage: int, prefix: str, theirs: str) -> Iterator[Entry]:
    def norm(local: str, name: str, size: int) -> Entry:
        return _norm(stage, prefix + local, theirs + name, size)

    yield norm("input_layernorm.weight", "input_layernorm.weight", geometry.hidden)
    yield from _attention(geometry, stage, f"{prefix}self_attention.", f"{theirs}self_attn.")
    yield norm("pre_mlp_layernorm.weight", "post_attention_layernorm.weight", geometry.hidden)
    yield Entry(
        stage=stage,
        local=f"{prefix}mlp.linear_fc1.weight",
        names=(f"{theirs}mlp.gate_proj.weight", f"{theirs}mlp.up_proj.weight"),
        shapes=((geometry.intermediate, geometry.hidden),) * 2,
        form=Stacked(),
    )
    yield Entry(
        stage=stage,
        local=f"{prefix}mlp.linear_fc2.weight",
        names=(f"{theirs}mlp.down_proj.weight",),
        shapes=((geometry.hidden, geometry.intermediate),),
        form=Columns(),
    )


def _attention(geometry: Geometry, stage: int, prefix: str, theirs: str) -> Iterator[Entry]:
    form = QueryGroups(geometry.heads, geometry.query_groups, geometry.head_size)
    rows = tuple(heads * geometry.head_size for heads in (form.heads, form.groups, form.groups))
    for kind, trailing in (("weight", (geometry.hidden,)), ("bias", ())):
        if kind == "weight" or geometry.qkv_bias:
            yield Entry(
                stage=stage,
                local=f"{prefix}linear_qkv.{kind}",
                names=tuple(f"{theirs}{each}_proj.{kind}" for each in "qkv"),
                shapes=tuple((number, *trailing) for number in rows),
                form=form,
            )
    if geometry.qk_norm:
        for each in "qk":
            local, name = f"{prefix}{each}_layernorm.weight", f"{theirs}{each}_norm.weight"
            yield _norm(stage, local, name, geometry.head_size)
    yield Entry(
        stage=stage,
        local=f"{prefix}linear_proj.weight",
        names=(f"{theirs}o_proj.weight",),
        shapes=((geometry.hidden, rows[0]),),
        form=Columns(),
    )


def _norm(stage: int, local: str, name: str, size: int) -> Entry:
    return Entry(stage=stage, local=local, names=(name,), shapes=((size,),), form=Whole())


def _vocabulary(
    geometry: Geometry, tp: int, local: str, name: str, *, stage: int, is_copy: bool = False
) -> Entry:
    return Entry(
        stage=stage,
        local=local,
        names=(name,),
        shapes=((geometry.vocabulary, geometry.hidden),),
        form=Rows(geometry.vocabulary, geometry.padded_vocabulary(tp)),
        is_copy=is_copy,
    )
