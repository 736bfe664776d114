# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""Addresses of Services of type LoadBalancer, all Services of several clusters in one go (ccm 9).

Each cluster is planned first with nothing but reading. Only where something differs its lease is taken, everything is
read again, and then the provider is asked, the ledger written, the Services, the back end, and what nobody uses released.
"""

from __future__ import annotations

import base64
import time
import typing as t

from .._io.settings_source import environment, read_text
from .._kubernetes.client import Client, segment
from .._kubernetes.clusters import Clusters
from .._kubernetes.decode import gc_paused
from .._kubernetes.errors import KubeError
from .._kubernetes.lease import Lease
from .._loadbalancers.ledger import NAMESPACE
from .._loadbalancers.setup import Setup, parse_setups
from .._plan.objects import field_manager
from .._plan.plan import Plan
from .._values.refused import ValueRefused
from .load_balancers_run import Report, Run

#: Key of the Secret in which the original keeps its settings.
SECRET_KEY = "cloud-sa.json"
LEASE = "multicluster-network-load-balancers"


class Failed(KubeError):
    """What stops one cluster and is no word of its API server's: the provider's, or its own records'."""


def run(request: t.Mapping[str, t.Any], check: bool = False) -> t.Dict[str, t.Any]:
    """The module's result. ``request`` has the module's options. Raises ValueRefused for options that make no sense."""
    manager = field_manager(request["fabric"])
    setups = read_setups(request)
    clusters = Clusters(request["clusters"], request.get("timeout") or 120.0)
    unknown = sorted(set(setups) - {str(entry["name"]) for entry in request["clusters"]})
    if unknown:
        raise ValueRefused("unknown_cluster", "settings names {0}, to which clusters gives no access".format(", ".join(unknown)))
    names = [name for name in sorted(setups) if name in clusters.clients]

    def planned(name: str, client: Client) -> Report:
        return guarded(client, lambda: _look(client, setups[name], request, manager))

    def applied(name: str, client: Client) -> Report:
        return guarded(client, lambda: _do(client, setups[name], request, manager))

    with gc_paused():
        reports = clusters.read("plan addresses", planned, names)
        if not check:
            reports.update(clusters.write("apply addresses", [name for name in names if name in reports and reports[name].plan.changed], applied))
    whole = Plan()
    for name in sorted(reports):
        whole.extend(reports[name].plan)
        for error in reports[name].failed:
            clusters.fail(error)
    result = whole.result()
    result.update(
        load_balancers={name: reports[name].shown for name in sorted(reports)},
        failures=clusters.failures, stats=clusters.stats(), diff=whole.diff(), warnings=whole.warnings,
    )  # fmt: skip
    result["stats"]["provider_calls"] = {name: reports[name].calls for name in sorted(reports)}
    return result


def read_setups(request: t.Mapping[str, t.Any]) -> t.Dict[str, Setup]:
    """What every cluster's settings say, with its configuration file and the environment."""
    files: t.Dict[str, t.Optional[str]] = {}
    for entry in request["settings"]:
        if entry.get("config_file"):
            files[str(entry["cluster"])] = read_text(entry["config_file"])
        elif entry.get("config_secret"):
            files[str(entry["cluster"])] = _secret_text(request, str(entry["cluster"]), entry["config_secret"])
    env = environment(("METAL_", "PACKET_")) if request.get("use_environment") else {}
    return parse_setups(request["settings"], env, files)


def _secret_text(request: t.Mapping[str, t.Any], cluster: str, name: str) -> str:
    """The settings that the original keeps in a Secret. Raises ValueRefused ``config_parse``, which never quotes them."""
    entries = [entry for entry in request["clusters"] if str(entry["name"]) == cluster]
    clusters = Clusters(entries, request.get("timeout") or 120.0)
    path = "/api/v1/namespaces/{0}/secrets/{1}".format(NAMESPACE, segment(name))
    found = clusters.read("read the settings", lambda unused, client: client.get(path))
    for failure in clusters.failures:
        raise ValueRefused("config_parse", "the Secret {0}/{1} of {2} could not be read: {3}".format(NAMESPACE, name, cluster, failure["message"]))
    text = ((found.get(cluster) or {}).get("data") or {}).get(SECRET_KEY)
    try:
        return base64.b64decode(text or "", validate=True).decode("utf-8")
    except ValueError:
        raise ValueRefused("config_parse", "the Secret {0}/{1} of {2} holds no text in {3}".format(NAMESPACE, name, cluster, SECRET_KEY)) from None


def guarded(client: Client, work: t.Callable[[], t.Any]) -> t.Any:
    """Refusals that concern a whole cluster are failures of that cluster; the others go on."""
    try:
        return work()
    except ValueRefused as error:
        failed = Failed(client.cluster, "give addresses", error.message)
        failed.word = error.word
        raise failed from None


def _look(client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str) -> Report:
    return Run(client, setup, request, manager, dry=True).report()


def _do(client: Client, setup: Setup, request: t.Mapping[str, t.Any], manager: str) -> Report:
    lease = Lease(client, NAMESPACE, LEASE, manager)
    lease.acquire(float(request.get("lock_timeout") or 0))
    try:
        return Run(client, setup, request, manager, lease.check, _now()).report()
    finally:
        lease.release()


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
