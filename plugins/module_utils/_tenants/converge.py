# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One pass over everything: two sets of objects in, the writes of every object out (8); and passes over two stores until nothing is left to write,
the loop that the module, check mode and the tests share."""

from __future__ import annotations

import typing as t

from .._plan.object_plan import Key
from .._plan.plan import Refusal
from .._values.refused import ValueRefused, quoted
from .deletion import leaving_routings, plan_collection, plan_deletion, plan_leaving, plan_orphans
from .fields import deleting, get, uid
from .interfaces import plan_interface, plan_virtual_ip
from .links import network_state
from .load_balancers import plan_load_balancer, plan_nat_gateway
from .networks import plan_network
from .object_turn import ACTIONS, APPLY, CREATE, PATCH, PATCH_STATUS, REMOVE, Condition, ObjectTurn, Step
from .options import APINET, KINDS, LOAD_BALANCER, NAT_GATEWAY, NETWORK, NETWORK_INTERFACE, SOURCE, VIRTUAL_IP, Options
from .store import NOT_FOUND, MemoryStore, Store, StoreError
from .view import Index, NotRead, View

_PLANS: dict[str, t.Callable[[ObjectTurn], None]] = {
    NETWORK: plan_network,
    VIRTUAL_IP: plan_virtual_ip,
    LOAD_BALANCER: plan_load_balancer,
    NAT_GATEWAY: plan_nat_gateway,
}


def _kind(view: View, kind: str, now: str) -> t.Iterator[ObjectTurn]:
    try:
        sources = view.mapped(kind)
    except NotRead:
        return  # nothing is known about this kind, so nothing is done about it
    try:
        index = Index(view) if kind == NETWORK_INTERFACE else None
    except NotRead as error:
        index = None
        for source in sources:
            turn = ObjectTurn(view, kind, source)
            turn.fail("source_incomplete", str(error))
            yield turn
        return
    for source in sources:
        yield _one(view, kind, source, index, now)
    try:
        if view.options.leaving and kind == LOAD_BALANCER:
            yield from leaving_routings(view)
        extra = [*plan_collection(view, kind), *plan_orphans(view, kind)]
    except NotRead:
        return
    yield from extra


def _one(view: View, kind: str, source: dict[str, t.Any], index: Index | None, now: str) -> ObjectTurn:
    turn = ObjectTurn(view, kind, source)
    try:
        if not uid(source):
            turn.fail("uid_missing", "the object has no uid")
        elif deleting(source):
            plan_deletion(turn, index)
        elif view.options.leaving:
            plan_leaving(turn)
        else:
            turn.finalize()
            if index is not None:
                plan_interface(turn, index, now)
            else:
                _PLANS[kind](turn)
    except NotRead as error:
        turn.refuse("source_incomplete", str(error))
        if kind == NETWORK and error.side == APINET and not deleting(source):
            # as after a refused write: a network that was not ready yet is reported so, one that was stays so
            turn.status({"state": network_state(get(source, "status", "state"), False)})
    except ValueRefused as error:
        turn.refuse(error.reason, error.message)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        # an object that no schema has checked must not stop the others
        turn.refuse("malformed", f"the object cannot be read: {quoted(error)}")
    return turn


#: Passes of one call (8.2).
PASS_LIMIT = 5


class Outcome(t.NamedTuple):
    """What one call did to one object: ``action`` is one of ACTIONS.

    ``source``: the source object, which for a collected twin is the one that its labels name.
    """

    kind: str
    key: Key
    action: str
    reasons: list[Condition]
    failures: list[Condition]
    source: Key | None = None


class Done(t.NamedTuple):
    """One write that changed something, and the object before and after it (None: not there)."""

    subject: Key
    step: Step
    before: dict[str, t.Any] | None
    after: dict[str, t.Any] | None


class Result(t.NamedTuple):
    """What a call did. ``unread``: (side, kind) of lists that failed; a caller must report them as failures."""

    outcomes: list[Outcome]
    done: list[Done]
    passes: int
    settled: bool
    refused: list[Refusal]
    unread: frozenset[tuple[str, str]] = frozenset()

    @property
    def failed(self) -> list[Outcome]:
        """Objects that failed in the last pass."""
        return [outcome for outcome in self.outcomes if outcome.action == "failed"]


Planner = t.Callable[[View], list[ObjectTurn]]
#: The stage that checks claims (``claims.apply_claims``).
CheckClaims = t.Callable[[View], list[Refusal]]
#: Performs steps that do not depend on each other; answers each with the object, None (gone) or a StoreError.
Perform = t.Callable[[list[tuple[Step, t.Mapping[str, t.Any]]]], list[t.Any]]


def converge(
    view: View, now: str, perform: Perform, keep: CheckClaims | None = None, limit: int = PASS_LIMIT
) -> Result:
    """Map pass after pass over what was read and what our own writes answered. ``keep``: the module always gives it."""
    return _mapped(view, now, keep, lambda plan: run_passes(view, plan, perform, limit))


def predict(view: View, now: str, keep: CheckClaims | None = None) -> Result:
    """What the first pass of a mapping would do, for check mode."""
    return _mapped(view, now, keep, lambda plan: predict_pass(view, plan))


def _mapped(view: View, now: str, keep: CheckClaims | None, run: t.Callable[[Planner], Result]) -> Result:
    refused: list[Refusal] = []

    def plan(current: View) -> list[ObjectTurn]:
        if keep is not None:
            refused[:] = keep(current)
        # the turn of every selected object and of every twin without one
        turns: list[ObjectTurn] = []
        for kind in KINDS:
            if kind in current.options.kinds:
                turns.extend(_kind(current, kind, now))
        return turns

    return run(plan)._replace(refused=refused, unread=view.unread)


def predict_pass(view: View, plan: Planner) -> Result:
    """What the first pass would do, by the same code over copies in memory (8.8).

    Only one pass, since what the network side would hand out, and the uids that later writes need, are not known.
    """
    stores = {side: MemoryStore(view.objects(side), prefix="unknown") for side in (SOURCE, APINET)}
    copied = View(stores[SOURCE].all(), stores[APINET].all(), view.options, view.unread)
    return run_passes(copied, plan, one_by_one(stores, view.options), 1)


def run_passes(view: View, plan: Planner, run: Perform, limit: int = PASS_LIMIT) -> Result:
    """Plan and write until a pass writes nothing, or the limit is reached."""
    actions: dict[tuple[str, Key], str] = {}
    done: list[Done] = []
    for number in range(1, limit + 1):
        turns = plan(view)
        wrote, failures = _do(turns, view, run)
        for turn, entry in wrote:
            done.append(entry)
            place = (turn.kind, turn.key)
            actions[place] = max(actions.get(place, "unchanged"), entry.step.action, key=ACTIONS.index)
        if not wrote or number == limit:
            break
    outcomes = [_outcome(turn, actions, failures.get(id(turn), [])) for turn in turns]
    seen = {(outcome.kind, outcome.key) for outcome in outcomes}
    gone = [
        Outcome(kind, key, action, [], []) for (kind, key), action in sorted(actions.items()) if (kind, key) not in seen
    ]
    return Result(outcomes + gone, done, number, not wrote, [])


def _outcome(turn: ObjectTurn, actions: t.Mapping[tuple[str, Key], str], refused: list[Condition]) -> Outcome:
    failures = turn.failed + refused
    action = "failed" if failures else "pending" if turn.pending else actions.get((turn.kind, turn.key), "unchanged")
    return Outcome(turn.kind, turn.key, action, turn.pending, failures, turn.source)


def _do(
    turns: t.Sequence[ObjectTurn], view: View, run: Perform
) -> tuple[list[tuple[ObjectTurn, Done]], dict[int, list[Condition]]]:
    """The writes of a pass, phase after phase; a failed write ends the turn of its object only, after the phase."""
    wrote: list[tuple[ObjectTurn, Done]] = []
    failures: dict[int, list[Condition]] = {}
    stopped: set[int] = set()
    for phase in sorted({step.phase for turn in turns for step in turn.steps}):
        batch = [
            (turn, step) for turn in turns for step in turn.steps if step.phase == phase and id(turn) not in stopped
        ]
        for part in _apart(batch):
            for (turn, step), answer in zip(part, run([(step, _body(step, view)) for _work, step in part])):
                if isinstance(answer, StoreError):
                    failures.setdefault(id(turn), []).append(Condition(answer.reason, answer.message))
                    if step.stops:
                        stopped.add(id(turn))
                    other = step.otherwise
                    if other is not None:
                        second = run([(other, _body(other, view))])[0]
                        if not isinstance(second, StoreError):
                            wrote.extend((turn, entry) for entry in _note(turn, view, other, second))
                else:
                    wrote.extend((turn, entry) for entry in _note(turn, view, step, answer))
    return wrote, failures


def _apart(batch: t.Sequence[tuple[ObjectTurn, Step]]) -> t.Iterator[list[tuple[ObjectTurn, Step]]]:
    """Parts in which no object is written twice, so that each part may run at once."""
    rest = list(batch)
    while rest:
        seen: set[t.Any] = set()
        part: list[t.Any] = []
        later: list[t.Any] = []
        for item in rest:
            places = {(item[1].side, item[1].key), id(item[0])}
            (later if places & seen else part).append(item)
            seen |= places
        yield part
        rest = later


def _body(step: Step, view: View) -> t.Mapping[str, t.Any]:
    """The body with its preconditions: the object that was compared, and no later one of its name."""
    if step.verb not in (PATCH, PATCH_STATUS):
        return step.body
    meta = dict(step.body.get("metadata") or {})
    if step.uid:
        meta["uid"] = step.uid
    known = view.now(step.side, step.key)
    if step.guarded and known is not None and known.get("metadata", {}).get("resourceVersion"):
        meta["resourceVersion"] = known["metadata"]["resourceVersion"]
    return dict(step.body, metadata=meta)


def _note(turn: ObjectTurn, view: View, step: Step, answer: t.Any) -> list[Done]:
    """Keep the view up to date; one entry when the server's state changed."""
    before = view.now(step.side, step.key)
    if answer is None:
        view.drop(step.side, step.key)
        return [Done(turn.key, step, before, None)] if before is not None else []
    view.put(step.side, answer)
    versions = [(obj or {}).get("metadata", {}).get("resourceVersion") for obj in (before, answer)]
    same = versions[0] == versions[1] and versions[0] is not None
    return [] if same else [Done(turn.key, step, before, answer)]


def one_by_one(stores: t.Mapping[str, Store], options: Options) -> Perform:
    def run(steps: list[tuple[Step, t.Mapping[str, t.Any]]]) -> list[t.Any]:
        return [perform_step(stores[step.side], step, body, options) for step, body in steps]

    return run


def perform_step(store: Store, step: Step, body: t.Mapping[str, t.Any], options: Options) -> t.Any:
    """One write; a StoreError is an answer. What is gone already needs neither deletion nor release."""
    try:
        if step.verb == APPLY:
            return store.apply(body, options.profile.field_manager)
        if step.verb == CREATE:
            return store.create(body)
        if step.verb == REMOVE:
            return store.delete(step.key, step.uid)
        return store.patch(step.key, body, step.verb == PATCH_STATUS)
    except StoreError as error:
        gone = error.reason == NOT_FOUND and step.action in ("deleted", "released")
        return None if gone else error
