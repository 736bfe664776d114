# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs of a cluster and a Service, or a set of pods, of another one that a plan takes apart: by classes, with a limit. Pure.

Lost is what can answer and would not be reached any more. A Service or pod that was deleted, or an owner's own choice of clusters, is no loss.
"""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key, Write
from .._plan.plan import Plan, Refusal

Data = dict[str, t.Any]
#: Reason of runs that stop, and of objects that the reconciler leaves as they are.
PAIRS_LOST = "pairs_lost"
#: Lines of the screen.
MOST_LINES = 10
_STOPPED = (
    "this run would lose {0} of clusters and what they reach in others (max_lost_pairs is {1}), so it stops before its first write: {2}. "
    "Correct the inventory or the Services, or confirm with confirm_lost: [{3}] [{4}]"
)
_KEPT = "it stays as it is, because {0}; confirm with confirm_lost: [{1}]"


class Loss(t.NamedTuple):
    """One pair. cause: a reason. source, target: clusters, in the direction of packets. example: (cluster, or what it has; what would be lost).

    local: the cluster that is written. label: the object there. keys: all that would have to stay for it.
    """

    cause: str
    source: str
    target: str
    example: tuple[str, str]
    local: str
    label: str
    keys: frozenset[Key]
    message: str

    @property
    def name(self) -> str:
        """The class."""
        return "/".join((self.cause, self.source, self.target))


class PairsLost(ValueError):
    """A run that stops. ``reachability``: as judged."""

    def __init__(self, reachability: Data) -> None:
        super().__init__(reachability["message"])
        self.reachability = reachability


def classes(losses: t.Iterable[Loss]) -> list[Data]:
    """[{class, kind, cause, from, to, cluster, pairs, example: {from, to}, first_hop, message}], the largest first. cluster: the one that is written."""
    found: dict[str, Data] = {}
    for loss in losses:
        row = found.setdefault(
            loss.name,
            {
                "class": loss.name,
                "kind": "lost",
                "cause": loss.cause,
                "from": loss.source,
                "to": loss.target,
                "cluster": loss.local,
                "pairs": 0,
                "example": {"from": _plain(loss.example[0]), "to": _plain(loss.example[1])},
                "first_hop": _plain(loss.label),
                "message": _plain(loss.message),
            },
        )
        row["pairs"] += 1
    return sorted(found.values(), key=lambda row: (-row["pairs"], row["class"]))


def _plain(text: str) -> str:
    """A text of a cluster, as part of a message that becomes an argument of a task: no template, nothing that moves a cursor."""
    return (text if text.isprintable() else ascii(text)).replace("{", "\\x7b")


def judged(losses: t.Sequence[Loss], most: int | None, confirmed: t.Collection[str]) -> Data:
    """{lost, classes, stops: [class], lines, message}. most: pairs that may be lost without confirmation, None or negative for any number."""
    rows = classes(losses)
    over = [row for row in rows if row["class"] not in confirmed]
    count = sum(row["pairs"] for row in over)
    stops = [row["class"] for row in over] if most is not None and 0 <= most < count else []
    shown = [_line(row) for row in rows[:MOST_LINES]]
    if len(rows) > MOST_LINES:
        shown[-1] = f"{len(rows) - MOST_LINES + 1} more classes of lost pairs are in the result"
    message = ""
    if stops:
        named = ", ".join(f'"{name}"' for name in stops[:MOST_LINES])
        message = _STOPPED.format(
            _pairs(count), most, "; ".join(_line(row) for row in over[:MOST_LINES]), named, PAIRS_LOST
        )
    lost = sum(row["pairs"] for row in rows)
    return {"lost": lost, "classes": rows, "stops": stops, "lines": shown, "message": message}


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count:,} pairs"


def _line(row: t.Mapping[str, t.Any]) -> str:
    example = row["example"]
    pairs = _pairs(row["pairs"])
    return (
        f"lost {pairs} [{row['class']}], {example['from']} to {example['to']} by {row['first_hop']}: {row['message']}"
    )


def leave(losses: t.Iterable[Loss], stops: t.Collection[str], whole: Plan, writes: dict[str, list[Write]]) -> None:
    """Take the writes of what would be lost out of a plan, and name it among what is refused."""
    keys: dict[str, set[Key]] = {}
    for loss in losses:
        if loss.name in stops:
            keys.setdefault(loss.local, set()).update(loss.keys)
            text = _KEPT.format(_plain(loss.message), f'"{loss.name}"')
            whole.refused.append(Refusal(_plain(loss.label), PAIRS_LOST, text))
    for local, left in keys.items():
        gone = {id(write.change) for write in writes.get(local, ()) if write.key in left}
        writes[local] = [write for write in writes.get(local, ()) if write.key not in left]
        whole.changes = [change for change in whole.changes if id(change) not in gone]


def counts(request: t.Mapping[str, t.Any]) -> bool:
    """Whether a run with these options has a limit, or shows what it would take apart. Who takes something away by ``state`` asks for it."""
    return request.get("max_lost_pairs") is not None and request.get("state", "present") == "present"


def limited(
    losses: t.Sequence[Loss],
    request: t.Mapping[str, t.Any],
    whole: Plan,
    writes: dict[str, list[Write]],
    check: bool,
    hold: bool,
) -> Data:
    """{reachability: as judged} for the result of a run; empty without a limit. request: with max_lost_pairs and confirm_lost.

    Where more would be lost: check mode warns, with hold the objects are left as they are. Otherwise it raises PairsLost.
    """
    if not counts(request):
        return {}
    reach = judged(losses, request["max_lost_pairs"], request.get("confirm_lost") or ())
    if check:
        whole.warnings += reach["lines"]
        if reach["stops"]:
            whole.warnings.append("a run stops before its first write, see max_lost_pairs and confirm_lost")
    elif reach["stops"]:
        if not hold:
            raise PairsLost(reach)
        leave(losses, reach["stops"], whole, writes)
    return {"reachability": reach}
