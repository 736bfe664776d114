# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of Services of type LoadBalancer, all Services of several clusters in one go (ccm 9).

Each cluster is planned first with nothing but reading. Only where something differs its lease is taken, our record is read again (and all
else where that changed, or where somebody else had the lease), and then the provider is asked, the ledger written, the Services, the back end,
and what nobody uses released.
"""

from __future__ import annotations

import base64
import time
import typing as t

from ..._io.settings_source import environment, read_text
from ..._kubernetes.client import Client, segment
from ..._kubernetes.clusters import Clusters, seconds_of
from ..._kubernetes.errors import KubeError
from ..._kubernetes.lease import Lease, LeaseHeld
from ..._loadbalancers.ledger import NAMESPACE
from ..._loadbalancers.reservations import check_uids, unproven
from ..._loadbalancers.settings import EMPTY
from ..._loadbalancers.setup import STATIC, Setup, parse_setups
from ..._plan.objects import field_manager
from ..._plan.plan import Plan
from ..._values.addresses import readable_address
from ..._values.gc_pause import gc_paused
from ..._values.refused import ValueRefused
from .events import forget, tell
from .read import cluster_uid
from .run import Proof, Report, parse_run_options
from .service_addresses import ServiceAddressReconciler

#: Key of the Secret in which the upstream controller keeps its settings.
SECRET_KEY = "cloud-sa.json"
LEASE = "multicluster-network-load-balancers"


class Failed(KubeError):
    """A provider or ledger error that fails one cluster."""


def run(
    request: t.Mapping[str, t.Any],
    check: bool = False,
    clusters: Clusters | None = None,
    only: t.Collection[str] | None = None,
) -> dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense.

    Of a caller that stays: ``release_spoken`` False releases nothing that our own speakers announce, whatever ``release`` is.
    ``clusters``: those of a caller that stays, instead of new ones. ``only``: the clusters to look after; of the others nothing is known.
    """
    manager = field_manager(request["fabric"])
    setups, clusters = open_clusters(request, clusters)
    setups = with_servers({name: setup for name, setup in setups.items() if only is None or name in only}, clusters)
    names = [name for name in sorted(setups) if name in clusters.clients]

    plans: dict[str, ServiceAddressReconciler] = {}

    def planned(one: ServiceAddressReconciler) -> Report:
        one.gather()
        plans[one.client.cluster] = one
        return one.plan()

    def applied(one: ServiceAddressReconciler) -> Report:
        lease = Lease(one.client, NAMESPACE, LEASE, manager)
        alone = _take(lease, float(request.get("lock_wait") or 0))
        try:
            one.gather(now(), plans.get(one.client.cluster) if alone else None)
            return one.apply(lease.check)
        finally:
            lease.release()

    def each(work: t.Callable[[ServiceAddressReconciler], Report]) -> t.Callable[[str, Client], Report]:
        def run_one(name: str, client: Client) -> Report:
            options = parse_run_options(request, name, setups[name].balancer.type == EMPTY)
            return work(ServiceAddressReconciler(client, setups[name], options, manager, proofs.get(name), time.time()))

        return lambda name, client: guarded(client, lambda: run_one(name, client))

    with gc_paused():
        with_provider = {
            str(entry["cluster"]) for entry in request["settings"] if (entry.get("provider") or STATIC) != STATIC
        }
        proofs = _proofs(clusters, setups, with_provider - set(setups))
        names = [name for name in names if name not in proofs or proofs[name].uid is not None]
        reports = clusters.read("plan addresses", each(planned), names)
        changed = [name for name in names if name in reports and reports[name].plan.changed]
        if not check:
            reports.update(clusters.write("apply addresses", changed, each(applied)))
            if request.get("state") in ("absent", "released") and request.get("release") is not False:
                for name, (dummy, why) in sorted(
                    clusters.write("take Events away", changed, lambda unused, client: forget(client)).items()
                ):
                    reports[name].plan.warnings += [f"{name}: {why}"] if why else []
            elif request.get("events"):
                telling = [name for name in reports if reports[name].notices]
                counts = clusters.write(
                    "tell Services", telling, lambda name, client: tell(client, reports[name].notices, manager, now())
                )
                for name, (count, why) in sorted(counts.items()):
                    reports[name].shown["events"] = count
                    reports[name].plan.warnings += [f"{name}: {why}"] if why else []
    result = result_of(reports, clusters, "load_balancers")
    result["stats"]["provider_calls"] = {name: reports[name].calls for name in sorted(reports)}
    return result


def _take(lease: Lease, wait: float) -> bool:
    """Take it; whether nobody else had it. Raises LeaseHeld and other KubeErrors."""
    try:
        lease.acquire()
    except LeaseHeld:
        if wait <= 0:
            raise
        lease.acquire(wait)
        return False
    return True


def open_clusters(
    request: t.Mapping[str, t.Any], clusters: Clusters | None = None
) -> tuple[dict[str, Setup], Clusters]:
    """The settings and the clients; both kinds of failures are in the clusters."""
    setups, failed = read_setups(request)
    clusters = clusters or Clusters(request["clusters"], seconds_of(request))
    clusters.failures += failed
    return setups, clusters


def result_of(reports: t.Mapping[str, Report], clusters: Clusters, key: str) -> dict[str, t.Any]:
    """The module's result; ``key``: under which it has what it shows of each cluster."""
    whole = Plan()
    for name in sorted(reports):
        whole.extend(reports[name].plan)
        for error in reports[name].failed:
            clusters.fail(error)
    return {**clusters.result(whole), key: {name: reports[name].shown for name in sorted(reports)}}


def with_servers(setups: t.Mapping[str, Setup], clusters: Clusters) -> dict[str, Setup]:
    """The setups with the API servers' addresses reserved too, where they are no Service's of the cluster's own pool (a hosted control plane)."""
    servers: dict[str, list[str]] = {}
    for name, host in zip(clusters.clients, clusters.server_hosts()):
        address = readable_address(host)
        if address is not None:  # not a name
            servers["API server of cluster " + name] = [str(address)]
    found = {}
    for name, setup in setups.items():
        theirs = {label: texts for label, texts in servers.items() if texts[0] not in setup.pool}
        found[name] = setup._replace(reserved=setup.reserved.plus(theirs))
    return found


def _proofs(clusters: Clusters, setups: t.Mapping[str, Setup], failed: t.Collection[str]) -> dict[str, Proof]:
    """What proves who owns which reservations, for every cluster with a provider; none where the provider is the inventory's pool.

    Only where several share what tags can show is anything asked. A cluster that is refused or did not answer has no UID in its proof.
    """
    shared = [name for name in sorted(setups) if not setups[name].static and setups[name].balancer.enabled]
    pinned = {name: setups[name].cluster_uid for name in shared if setups[name].cluster_uid}
    if len(shared) + len(failed) < 2 and not pinned:
        return {}

    answers = clusters.read(
        "read its UID",
        lambda unused, client: cluster_uid(client),
        [name for name in shared if name in clusters.clients],
    )
    refused = check_uids(answers, pinned)
    for name, error in sorted(refused.items()):
        clusters.fail(_failed(name, error))
    unreachable = {name for name in [*shared, *failed] if name not in answers}
    found = {name: Proof(None, None) for name in shared}
    found.update(
        (name, Proof(answers[name], unproven(name, unreachable, pinned))) for name in answers if name not in refused
    )
    return found


def read_setups(request: t.Mapping[str, t.Any]) -> tuple[dict[str, Setup], list[dict[str, t.Any]]]:
    """Every cluster's settings, with its configuration file and the environment; and the failures of those clusters with settings
    that cannot be used, which are left out while the others go on."""
    texts: dict[str, str | None] = {}
    claims: set[str] = set()
    refused: dict[str, ValueRefused] = {}
    known = {str(entry["name"]) for entry in request["clusters"]}
    for entry in request["settings"]:
        name = str(entry["cluster"])
        try:
            if name not in known:
                raise ValueRefused("unknown_cluster", "settings names it, and clusters gives no access to it")
            if entry.get("config_file"):
                texts[name] = read_text(entry["config_file"])
            elif entry.get("config_secret"):
                claims.add(name)
                texts[name] = _secret_text(request, name, entry["config_secret"])
        except ValueRefused as error:
            refused[name] = error
    env = environment(("METAL_", "PACKET_")) if request.get("use_environment") else {}
    setups, refused = parse_setups(request["settings"], env, texts, claims, refused)
    return setups, [_failed(name, error, "read the settings").failure() for name, error in sorted(refused.items())]


def _secret_text(request: t.Mapping[str, t.Any], cluster: str, name: str) -> str:
    """The settings that the upstream controller keeps in a Secret. Raises ValueRefused ``config_parse``, which never quotes them."""
    entries = [entry for entry in request["clusters"] if str(entry["name"]) == cluster]
    clusters = Clusters(entries, seconds_of(request))
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{segment(name)}"
    found = clusters.read("read the settings", lambda unused, client: client.get(path))
    for failure in clusters.failures:
        raise ValueRefused(
            "config_parse", f"the Secret {NAMESPACE}/{name} of {cluster} could not be read: {failure['message']}"
        )
    text = ((found.get(cluster) or {}).get("data") or {}).get(SECRET_KEY)
    try:
        return base64.b64decode(text or "", validate=True).decode("utf-8")
    except ValueError:
        raise ValueRefused(
            "config_parse", f"the Secret {NAMESPACE}/{name} of {cluster} holds no text in {SECRET_KEY}"
        ) from None


def guarded(client: Client, work: t.Callable[[], t.Any]) -> t.Any:
    """Refusals that concern a whole cluster are failures of that cluster; the others go on."""
    try:
        return work()
    except ValueRefused as error:
        raise _failed(client.cluster, error) from None


def _failed(cluster: str, error: ValueRefused, operation: str = "give addresses") -> Failed:
    failed = Failed(cluster, operation, error.message)
    failed.reason = error.reason
    return failed


def now() -> str:
    """For people: RFC 3339, UTC, seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
