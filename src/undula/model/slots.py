"""Plans of scans along a tree: where a scan over links in depth-first order finds the states of their parents."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SlotPlan:
    """Where a depth-first scan finds the states of parents.

    In depth-first order the parent of a link is the link before it, except after a leaf. Only the states of links with
    further children to come must be kept; there are few at a time (none in a chain), and they live in `count` slots.
    Slot 0 is the link before. `read[l]` is the slot that holds the parent's state, `write[l]` the slot in which link
    l's own state must be kept (0: nowhere); `root_write` is the root's.
    """

    count: int
    read: np.ndarray
    write: np.ndarray
    root_write: int

    @staticmethod
    def of(parents: np.ndarray) -> "SlotPlan":
        n = len(parents) + 1
        last_child = {p: l for l, p in enumerate(parents, start=1) if l != p + 1}  # last use beyond the next link
        slot_of: dict[int, int] = {}
        free: list[int] = []
        count = 0
        read, write = np.zeros(n, int), np.zeros(n, int)
        for l in range(n):
            if l > 0 and (parent := int(parents[l - 1])) != l - 1:
                read[l] = slot_of[parent]
                if last_child[parent] == l:
                    free.append(slot_of.pop(parent))
            if l in last_child:
                if not free:
                    count += 1
                    free.append(count)
                slot_of[l] = write[l] = free.pop()
        return SlotPlan(count, read[1:], write[1:], int(write[0]))
