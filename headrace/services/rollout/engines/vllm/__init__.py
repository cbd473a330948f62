"""The engine `vllm`: vLLM in this process, stepped by hand, so that nothing runs while its weights change."""
