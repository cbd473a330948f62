"""What a drill does to the queue's controller, the same in every runtime."""

from headrace.services.faults import Fault
from headrace.transferqueue import Controller


def disturb(controller: Controller, fault: Fault | None) -> None:
    """Raises UnknownName where nothing lies there to be damaged."""
    if fault is None:
        controller.fill(False)
    elif fault.kind == "full-disk":
        controller.fill(True)
    elif fault.kind == "corrupt":
        controller.damage()
