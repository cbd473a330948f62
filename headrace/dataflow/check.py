"""Everything that is wrong with a graph, found before anything starts.

Imports neither torch nor ray. Checks go in rounds, each on what the one before let pass: values, names,
tables, and then columns, figures, resources and the world outside all together.
"""

from headrace.dataflow.checks.adapters import check_adapters
from headrace.dataflow.checks.code import check_places
from headrace.dataflow.checks.columns import check_columns
from headrace.dataflow.checks.curricula import check_curricula
from headrace.dataflow.checks.data import check_outside
from headrace.dataflow.checks.deterministic import check_deterministic
from headrace.dataflow.checks.engines import check_engines
from headrace.dataflow.checks.figures import check_figures
from headrace.dataflow.checks.gpus import check_builds, check_gpus
from headrace.dataflow.checks.own import check_declared
from headrace.dataflow.checks.parallel import check_parallel
from headrace.dataflow.checks.placement import check_nodes, check_placement
from headrace.dataflow.checks.resources import check_resources, check_runtime
from headrace.dataflow.checks.rows import check_rows
from headrace.dataflow.checks.scorers import check_scorers
from headrace.dataflow.checks.servers import check_servers
from headrace.dataflow.checks.structure import check_policies, check_references, check_tables, check_together
from headrace.dataflow.checks.trackers import check_trackers
from headrace.dataflow.checks.training import check_training
from headrace.dataflow.language.problems import Problem, errors
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.language.tree import from_tree, to_tree
from headrace.dataflow.planning.cluster import Cluster
from headrace.dataflow.planning.ray_cluster import cluster_of


def check(spec: GraphSpec, *, cluster: Cluster | None = None) -> list[Problem]:
    """Errors and warnings; resources are checked only against a cluster that is given."""
    problems = check_structure(spec)
    if errors(problems):
        return problems
    problems += check_policies(spec)
    problems += check_together(spec)
    problems += check_places(spec)
    problems += check_columns(spec)
    problems += check_rows(spec)
    problems += check_figures(spec)
    problems += check_curricula(spec)
    problems += check_training(spec)
    problems += check_adapters(spec)
    problems += check_parallel(spec)
    problems += check_scorers(spec)
    problems += check_servers(spec)
    problems += check_engines(spec)
    problems += check_gpus(spec)
    problems += check_deterministic(spec)
    problems += check_runtime(spec)
    problems += check_placement(spec)
    problems += check_trackers(spec)
    problems += check_outside(spec)
    if cluster is not None:
        problems += check_resources(spec, cluster)
        problems += check_builds(spec, cluster)
        problems += check_nodes(spec, cluster)
    return problems


def check_here(spec: GraphSpec) -> list[Problem]:
    """As `check`, against the resources of this machine, or of the cluster that the graph names."""
    cluster, unknown = cluster_of(spec)
    return [*check(spec, cluster=None if unknown else cluster), *unknown]


def check_structure(spec: GraphSpec) -> list[Problem]:
    """Values, names and tables: what the other checks, the plan and the drawing rely on."""
    _, problems = from_tree(to_tree(spec))
    problems = problems or [*check_references(spec), *check_declared(spec)]
    return problems if errors(problems) else [*problems, *check_tables(spec)]
