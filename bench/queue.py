"""Our transfer queue against TransferQueue 0.1.11: same rows, same batches, in turn, two cores.

    python bench/queue.py --turns 1 --rounds 5

Prints a table, and as the last line one JSON object; `ratios` holds ours over the peer's (for latencies
theirs over ours): above 1 ours is better; each is the median over the turns.
"""

import sys
import sysconfig
from importlib.machinery import SourceFileLoader

if __name__ == "__main__":
    from queue_main import main

    sys.exit(main())

# Scripts of this folder find it before the standard library's module of that name, and are given that one.
_standard = SourceFileLoader("queue", f"{sysconfig.get_path('stdlib')}/queue.py")
_standard.exec_module(sys.modules[__name__])
