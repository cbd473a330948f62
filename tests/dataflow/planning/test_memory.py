from dataclasses import replace
from typing import Any

from headrace.dataflow import Graph
from headrace.dataflow.check import check
from headrace.dataflow.checks.resources import check_shared_memory
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.cluster import Cluster, this_machine
from headrace.dataflow.planning.footprint import MIB
from headrace.dataflow.planning.memory import in_words, memory
from headrace.services.options import ParallelOptions, QueueOptions, VllmOptions

NUMBERS = 526_592
"""Parameters of tiny-copier."""


def graph(*, runtime: str = "ray", every: int | None = None, **policy: Any) -> GraphSpec:
    """`every`: of an eval; None: the graph has none."""
    built = Graph("copy", steps=10, runtime=runtime)
    actor = built.policy("actor", model="tiny-copier", **policy)
    prompts = built.source("prompts", dataset={"kind": "copy", "letters": 3}, samples_per_prompt=4)
    answers = built.rollout(prompts, policy=actor, max_new_tokens=5, replicas=2)
    scores = built.reward(answers, verifier={"kind": "python", "function": "a.b:score"})
    built.trainer(actor, inputs=[answers, scores], algorithm="grpo", prompts_per_step=8)
    if every is not None:
        data = {"kind": "copy", "letters": 3}
        built.eval(actor, dataset=data, verifier={"kind": "python", "function": "a.b:score"}, every=every)
    return built.spec()


def test_a_trainer_has_weights_gradients_and_two_moments_of_the_weights_type() -> None:
    for dtype, width in (("float32", 4), ("float64", 8)):
        parts = memory(graph(dtype=dtype)).replicas["learn"]
        assert (parts["weights"], parts["gradients"]) == (NUMBERS * width, NUMBERS * width)
        assert parts["moments"] == 2 * NUMBERS * width
        assert "copies" not in parts


def test_a_trainer_of_bfloat16_has_all_but_the_weights_in_float32() -> None:
    parts = memory(graph(dtype="bfloat16")).replicas["learn"]
    assert (parts["weights"], parts["copies"]) == (NUMBERS * 2, NUMBERS * 4)
    assert (parts["gradients"], parts["moments"]) == (NUMBERS * 4, 2 * NUMBERS * 4)


def test_adapters_alone_have_gradients_and_moments() -> None:
    """Rank 4: 8 * 128 + 3 * (128 + 512) widths in each of 2 layers."""
    parts = memory(graph(lora={"rank": 4})).replicas["learn"]
    adapters = 2 * 4 * (8 * 128 + 3 * (128 + 512))
    assert (parts["weights"], parts["gradients"]) == (NUMBERS * 4, adapters * 4)
    assert parts["moments"] == 2 * adapters * 4


def test_a_snapshot_copies_what_is_trained_its_float32_copies_and_moments_unless_steps_wait() -> None:
    adapters = 2 * 4 * (8 * 128 + 3 * (128 + 512))
    copied = [
        memory(each).replicas["learn"]["snapshot"]
        for each in (graph(), graph(dtype="bfloat16"), graph(lora={"rank": 4}))
    ]
    assert copied == [NUMBERS * (4 + 8), NUMBERS * (2 + 4 + 8), adapters * (4 + 8)]
    built = graph()
    learn = built.nodes["learn"]
    waiting = replace(learn, options=replace(learn.options, checkpoint_async=False))
    assert "snapshot" not in memory(replace(built, nodes={**built.nodes, "learn": waiting})).replicas["learn"]


def test_layers_computed_again_keep_what_enters_them_and_one_at_a_time_the_rest() -> None:
    """192 tokens as below, of which 160 have logits."""
    kept = 192 * (8 * 128 + 4 * 512) * 4 + 192 * 128 * 4 * 2
    parts = memory(graph(gradient_checkpointing=True)).replicas["learn"]
    assert parts["activations"] == kept + 3 * 160 * 13 * 4


def test_a_trainers_activations_are_those_of_a_whole_step_where_it_fits_one_pass() -> None:
    """8 prompts of 4 tokens and 32 answers of 5: 192 tokens through 2 layers, 160 with logits of 13."""
    kept = 192 * 2 * (8 * 128 + 4 * 512) * 4
    assert memory(graph()).replicas["learn"]["activations"] == kept + 3 * 160 * 13 * 4


def test_a_rollout_keeps_keys_and_values_of_what_may_be_decoded_at_once() -> None:
    """At staleness 0, 32 rows of 5 tokens and 8 prompts of 4; 512 numbers for each token."""
    parts = memory(graph()).replicas["answers"]
    assert parts["cache"] == (32 * 5 + 8 * 4) * 512 * 4
    assert set(parts) == {"process", "weights", "cache", "activations"}


def test_every_replica_is_a_process_and_a_verifier_of_ones_own_another() -> None:
    found = memory(graph())
    assert found.processes == {
        **{"launcher": 1, "queue": 1, "ray": 8},
        **{"prompts": 1, "answers": 2, "scores": 2, "learn": 1},
    }
    assert found.total_processes == 16
    assert found.replicas["scores"] == {"process": 115 * MIB, "verifier": 20 * MIB}


def test_the_local_runtime_is_one_process_and_an_existing_cluster_has_its_own() -> None:
    assert memory(graph(runtime="local")).processes == {
        **{"launcher": 1, "prompts": 0, "answers": 0, "scores": 1, "learn": 0}
    }
    assert "process" not in memory(graph(runtime="local")).replicas["learn"]
    elsewhere = memory(replace(graph(), ray_address="10.0.0.1:6379"))
    assert "ray" not in {*elsewhere.processes, *elsewhere.beside} and not elsewhere.on_one_machine


def test_three_versions_of_trained_weights_and_the_rows_are_in_shared_memory() -> None:
    found = memory(graph())
    assert found.beside["weights of actor"] == 3 * NUMBERS * 4
    assert found.prompt_tokens == {"prompts": 4}
    aligned = 5 * (4 + 4 + 4 + 1)
    row = 256 + 4 * 4 + 64 + aligned + 64 + 1 + 8 + 64 + 64
    assert found.beside["rows of prompts"] == 96 * row
    durable = replace(graph(), queue=QueueOptions(durability="disk"))
    assert memory(durable).beside["rows of prompts"] == 96 * 256


def test_a_version_for_each_replica_that_reads_it_in_place_may_be_in_shared_memory_too() -> None:
    """Two rollouts on CPUs by the engine torch; on GPUs, and by vLLM, they have copies."""
    spec = graph()
    beside = sum(size for name, size in memory(spec).beside.items() if " of " in name)
    assert memory(spec).shared_bytes == beside + 2 * NUMBERS * 4
    for change in ({"gpus": 1.0}, {"engine": "vllm"}):
        node = spec.nodes["answers"]
        changed = replace(node, options=replace(node.options, **change))
        assert memory(replace(spec, nodes={**spec.nodes, "answers": changed})).shared_bytes == beside


def test_of_a_policy_with_adapters_those_alone_are_in_shared_memory() -> None:
    """Three versions of them, and one for each of two rollouts."""
    found = memory(graph(lora={"rank": 4}))
    adapters = 2 * 4 * (8 * 128 + 3 * (128 + 512)) * 4
    assert found.beside["weights of actor"] == 3 * adapters
    assert found.shared_bytes == 5 * adapters + found.beside["rows of prompts"]


def test_the_versions_that_an_eval_keeps_aside_are_in_shared_memory_too() -> None:
    """Of 10 steps: 0, 2, ... are more than the four that it keeps at most, 0 and 10 are two."""
    for every, kept in ((2, 4), (10, 2)):
        found = memory(graph(every=every))
        assert found.beside["weights of actor"] == (3 + kept) * NUMBERS * 4
        in_place = 2 + 1
        assert found.shared_bytes == (3 + kept + in_place) * NUMBERS * 4 + found.beside["rows of prompts"]


def test_what_a_model_has_on_a_card_is_not_the_hosts_but_its_weights_are_loaded_there() -> None:
    spec, found = graph(), memory(graph())
    nodes = {
        name: replace(spec.nodes[name], options=replace(spec.nodes[name].options, gpus=gpus))
        for name, gpus in (("answers", 0.5), ("learn", 2.0))
    }
    learn = nodes["learn"]
    nodes["learn"] = replace(learn, options=replace(learn.options, parallel=ParallelOptions(dp=2)))
    placed = memory(replace(spec, nodes={**spec.nodes, **nodes}))
    assert found.on_gpus == {}
    width = placed.on_gpus["answers"]["weights"]
    assert placed.replicas["answers"] == {"process": 325 * MIB, "weights": width}
    assert placed.replicas["learn"] == {
        **{"process": 325 * MIB, "weights": width, "snapshot": 7 * width},
        "ranks": 325 * MIB + width,
    }
    assert set(placed.on_gpus) == {"answers", "learn"}
    assert set(placed.on_gpus["learn"]) >= {"weights", "gradients", "moments", "activations"}
    assert "process" not in placed.on_gpus["answers"] and placed.on_gpus["answers"]["cache"] > 0


def test_the_total_counts_each_replica_and_what_is_beside_them() -> None:
    found = memory(graph())
    services = sum(found.of_service(name) * (2 if name == "answers" else 1) for name in found.replicas)
    assert found.total_bytes == services + sum(found.beside.values())


def test_a_model_of_unknown_size_is_named_and_not_counted() -> None:
    spec = graph()
    spec = replace(spec, policies={"actor": replace(spec.policies["actor"], model="no/such-model")})
    found = memory(spec)
    assert found.unknown_models == ("no/such-model",)
    assert found.replicas["learn"] == {"process": 325 * MIB}


def test_check_warns_of_a_run_that_the_machine_has_too_little_memory_for() -> None:
    spec = graph()
    there = Cluster(cpus=2.0, gpus=0.0, cores=2, memory_bytes=1 << 30)
    (problem,) = [each for each in check(spec, cluster=there) if "reckoned" in each.wrong]
    assert problem.severity == "warning"
    assert problem.path == ("nodes", "answers")
    assert problem.wrong == (
        f"the run is reckoned to need {in_words(memory(spec).total_bytes)}, the machine has 1.0 GiB; most of "
        "it a replica of 'answers': process 325 MiB, weights 2 MiB, activations 0 MiB, cache 0 MiB"
    )
    enough = replace(there, memory_bytes=1 << 40)
    assert not [each for each in check(spec, cluster=enough) if "reckoned" in each.wrong]


def test_check_warns_of_weights_and_rows_that_shared_memory_is_too_small_for() -> None:
    """Three versions of 2,106,368 bytes and two that rollouts hold: 10 MiB."""
    spec = graph()
    there = Cluster(cpus=2.0, gpus=0.0, cores=2, shared_bytes=8 << 20)
    (problem,) = [each for each in check(spec, cluster=there) if "/dev/shm" in each.wrong]
    assert (problem.severity, problem.path) == ("warning", ("nodes",))
    assert problem.wrong == (
        "shared memory is reckoned to take 10 MiB, /dev/shm has 8 MiB: weights of actor 6 MiB, rows of "
        "prompts 0 MiB, and the versions that replicas hold 4 MiB"
    )
    nodes = {name: node for name, node in spec.nodes.items() if name != "answers"}
    copying = replace(spec.nodes["answers"], options=replace(spec.nodes["answers"].options, engine="vllm"))
    (none_held,) = check_shared_memory(replace(spec, nodes={**nodes, "answers": copying}), 1 << 20)
    assert none_held.wrong.endswith("/dev/shm has 1 MiB: weights of actor 6 MiB, rows of prompts 0 MiB")
    assert not [e for e in check(spec, cluster=replace(there, shared_bytes=1 << 30)) if "/dev/shm" in e.wrong]


def test_this_machine_has_memory() -> None:
    found = this_machine().memory_bytes
    assert found is not None and found > 64 * MIB


def test_each_rank_of_a_trainer_is_a_process_with_all_that_its_first_has_but_the_snapshot() -> None:
    """Shards make it less: what is reckoned is the most."""
    built = graph()
    alone, learn = memory(built), built.nodes["learn"]
    options = replace(learn.options, parallel=ParallelOptions(dp=3))
    found = memory(replace(built, nodes={**built.nodes, "learn": replace(learn, options=options)}))
    assert (found.processes["learn"], alone.processes["learn"]) == (3, 1)
    first = alone.replicas["learn"]
    assert found.replicas["learn"]["ranks"] == 2 * (sum(first.values()) - first["snapshot"])


def test_vllm_with_adapters_keeps_what_they_are_added_to_beside_its_weights_and_its_cache() -> None:
    """GPUs hold the weights and the cache; the machine's memory then holds neither."""
    spec = graph(lora={"rank": 4})
    assert by_vllm(spec) == {"weights": NUMBERS * 4, "copies": NUMBERS * 4, "cache": 1 << 30}
    assert by_vllm(spec, gpus=1.0) == {"copies": NUMBERS * 4, "ranks": 730 * MIB}
    assert by_vllm(graph(), gpus=2.0, vllm=VllmOptions(tensor_parallel=2)) == {"ranks": 2 * 730 * MIB}


def by_vllm(spec: GraphSpec, **placed: Any) -> dict[str, int]:
    """What a rollout's replica by vLLM takes beside its process."""
    node = spec.nodes["answers"]
    options = replace(node.options, engine="vllm", **placed)
    parts = memory(replace(spec, nodes={**spec.nodes, "answers": replace(node, options=options)})).replicas
    return {name: size for name, size in parts["answers"].items() if name != "process"}
