"""What is run: the graph in YAML or Python, its checks, plan, launch and command line."""

from headrace.dataflow.graph import Graph
from headrace.dataflow.language.problems import GraphError, Problem
from headrace.dataflow.language.spec import GraphSpec, NodeSpec

__all__ = ["Graph", "GraphError", "GraphSpec", "NodeSpec", "Problem"]
