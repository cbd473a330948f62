"""The paths, in the order in which they are tried: what later ones are made of comes first."""

from bench.gpu_check.path import Path

OWN = "bench.gpu_check"
PATHS = (
    Path(name="torch_scores", call=f"{OWN}.scoring:scores", limit_s=40),
    Path(name="torch_engine", call=f"{OWN}.scoring:engine_float32", limit_s=40),
    Path(name="torch_engine_bfloat16", call=f"{OWN}.scoring:engine_bfloat16", limit_s=40),
    Path(name="torch_engine_new_weights", call=f"{OWN}.scoring:new_weights", limit_s=40),
    Path(name="torch_trainer", call=f"{OWN}.training:steps", limit_s=40),
    Path(name="torch_trainer_bfloat16", call=f"{OWN}.training:bfloat16_copies", limit_s=40),
    Path(name="torch_trainer_same_bits", call=f"{OWN}.training:same_bits", limit_s=40),
    Path(name="checkpoint", call=f"{OWN}.training:checkpoint", limit_s=40),
    Path(name="group_of_one", call=f"{OWN}.ranks:group_of_one", limit_s=60),
    Path(name="weights", call=f"{OWN}.weights:rates", limit_s=60),
    Path(name="megatron", call=f"{OWN}.ranks:megatron", limit_s=60, needs=("megatron.core",)),
    Path(name="run_torch", call=f"{OWN}.runs:torch", limit_s=120),
    Path(name="vllm_engine", call=f"{OWN}.vllm:engine", limit_s=120, needs=("vllm",)),
    Path(name="vllm_new_weights", call=f"{OWN}.vllm:new_weights", limit_s=120, needs=("vllm",)),
    Path(
        name="run_vllm_megatron",
        call=f"{OWN}.runs:vllm_megatron",
        limit_s=150,
        needs=("vllm", "megatron.core"),
    ),
)
