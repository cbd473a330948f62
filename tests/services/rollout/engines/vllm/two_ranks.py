"""A replica's vLLM of two ranks, for a test that kills it: says their ids and waits for its input to end."""

import json
import multiprocessing
import sys

from headrace.services.options import PolicyOptions, RolloutOptions, VllmOptions
from headrace.services.rollout.engines.vllm.engine import start_decoder

if __name__ == "__main__":
    options = RolloutOptions(engine="vllm", vllm=VllmOptions(tensor_parallel=2))
    decoder = start_decoder(options, PolicyOptions(model="tiny-copier"), seed=3, version=0)
    print(json.dumps([child.pid for child in multiprocessing.active_children()]), flush=True)
    sys.stdin.read()
    decoder.close()
