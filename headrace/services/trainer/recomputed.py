"""Gradient checkpointing: a layer keeps what enters it, and computes the rest again for its gradient.

The layers alone are put into training mode, which is what makes them do so; the modules within stay as they
were, so that no dropout begins and the gradient is the one without it.
"""

from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer


def keep_inputs_only(model: PreTrainedModel) -> None:
    """In place, on a model in eval mode. Raises ValueError for a model that has no layers of this kind."""
    layers = [part for part in model.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers or not model.supports_gradient_checkpointing:
        raise ValueError(
            f"{type(model).__name__} cannot compute its layers again for the gradient; set "
            "gradient_checkpointing: false"
        )
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    for layer in layers:
        layer.training = True
