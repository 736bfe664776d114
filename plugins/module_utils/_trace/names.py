# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a name, a Service or an address to what a source dials, and to the endpoints behind it: mirrors, imports, rewriting of names. Pure.

Rules of a Corefile are somebody's text, and their patterns are not run here: what we would have written is computed, and the file is only asked
whether it has a server block that rewrites the zone.
"""

from __future__ import annotations

import typing as t

from .._plan.seen_addresses import Seen
from .._services.coredns_merge import ServerBlock, server_blocks
from .._services.coredns_rules import DEFAULT_DOMAIN, GLOBAL_ZONE, Rule, rewrite_name, rewrite_rules, zone_of
from .._services.mcs.names import derived_name
from .._services.mirror_services import PREFIX_LABEL, is_mirror
from .._services.names import mirror_name
from .._values.refused import ValueRefused
from . import causes, ends
from .causes import place_text, printable
from .ends import End, Question
from .name_servers import DNS_NAMESPACE, Server, server_of
from .objects import Address, Backend, Cluster, Id, Port, Service

#: Dots below which a pod's resolver tries its search list first, as Kubernetes sets it.
NDOTS = 5
CLUSTERSET = "clusterset.local"
MIRROR_NAMESPACE = "sys-semaphore"
Fault = tuple[str, str, str]


class Settings(t.NamedTuple):
    """The inventory's settings of names. ``prefixes``: {cluster: service prefix} where they differ from the cluster's name."""

    mirror_namespace: str = MIRROR_NAMESPACE
    prefixes: t.Mapping[str, str] = {}
    domain: str = DEFAULT_DOMAIN
    clusterset: str = CLUSTERSET
    dns_namespace: str = DNS_NAMESPACE

    @classmethod
    def of(cls, given: t.Mapping[str, t.Any], dns_namespace: str = DNS_NAMESPACE) -> Settings:
        """Those of a module's options {mirror_namespace, prefixes, cluster_domain}, which may be empty."""
        return cls(
            given.get("mirror_namespace") or MIRROR_NAMESPACE,
            given.get("prefixes") or {},
            given.get("cluster_domain") or DEFAULT_DOMAIN,
            dns_namespace=dns_namespace,
        )


class Answer(t.NamedTuple):
    """``dials``: the addresses that the source uses; ``backends``: where its packets end, (address, port).

    ``asked``: of a name, what its resolver asks up to the one that there is.
    """

    kind: str
    cluster: str
    dials: tuple[Address, ...]
    port: int | None
    protocol: str
    backends: tuple[tuple[Address, int | None], ...]
    steps: tuple[t.Mapping[str, str], ...]
    faults: tuple[Fault, ...]
    asked: tuple[str, ...] = ()


class Names:
    """Asks for one source cluster at a time, from the objects of all."""

    def __init__(
        self,
        clusters: t.Mapping[str, Cluster],
        settings: Settings | t.Mapping[str, t.Any] = Settings(),
        seen: Seen | None = None,
    ) -> None:
        """seen: at which addresses clusters see pods of others."""
        self.clusters, self.seen = clusters, seen or Seen()
        self.settings = settings if isinstance(settings, Settings) else Settings(**settings)
        self._steps: list[t.Mapping[str, str]] = []

    def ask(self, question: Question, source: str, namespace: str) -> Answer:
        """What a source in a namespace of a cluster gets."""
        self._steps = []
        here = self.clusters.get(source)
        end = question.target
        if here is None:
            return self._none(causes.NAME_UNKNOWN, source, f"cluster {source} could not be read")
        if end.kind == ends.ADDRESS:
            return self._address(question, here)
        if end.kind == ends.NAME:
            return self._name(question, here, namespace)
        if end.kind == ends.IMPORT:
            return self._import(question, here, (end.namespace, end.name), str(end))
        return self._service(question, here, end)

    def server(self, cluster: str) -> Server | None:
        """The DNS server that a cluster's pods ask; None where no Service is one."""
        here = self.clusters.get(cluster)
        return server_of(here, self.settings.dns_namespace) if here is not None else None

    # -- answers -------------------------------------------------------------------------------------------------------

    def _step(self, what: str, text: str) -> None:
        self._steps.append({"what": what, "text": text})

    def _none(self, cause: str, where: str, message: str) -> Answer:
        return Answer("", where, (), None, "", (), tuple(self._steps), ((cause, where, message),))

    def _address(self, question: Question, here: Cluster) -> Answer:
        end = question.target
        if end.address is None:
            raise TypeError("an end that is an address has one")
        key = (end.address.version, int(end.address))
        for cluster in [here, *(other for name, other in sorted(self.clusters.items()) if name != here.name)]:
            for service in cluster.services.values():
                if key in service.outer or (key in service.addresses and cluster.name == here.name):
                    self._step("address", f"{end.address} is {cluster.name} Service {service.namespace}/{service.name}")
                    return self._dial(question, cluster, service, None, (key,))
        return Answer(
            ends.ADDRESS,
            here.name,
            (key,),
            question.port,
            question.protocol,
            ((key, question.port),),
            tuple(self._steps),
            (),
        )

    def _service(self, question: Question, here: Cluster, end: End) -> Answer:
        """A Service, as a source in another cluster reaches it: by its mirror, or by the import."""
        key = (end.namespace, end.name)
        there = self.clusters.get(end.cluster)
        if there is None:
            return self._none(causes.NAME_UNKNOWN, end.cluster, f"there is no cluster {end.cluster} that could be read")
        service = there.services.get(key)
        if service is None:
            if key in there.imports:
                return self._import(question, here, key, str(end))
            what = "Service" if end.kind == ends.SERVICE else "pod or Service"
            return self._none(
                causes.NAME_UNKNOWN, there.name, "cluster {0} has no {1} {2}/{3}".format(there.name, what, *key)
            )
        if there.name == here.name:
            return self._dial(question, here, service, None)
        mirror = self._mirror(here, there.name, key)
        if mirror is None:
            if key in here.imports:
                return self._import(question, here, key, str(end))
            name = mirror_name(self._prefix(there.name), *key).name
            text = "cluster {0} has no mirror of {1} {2}/{3}: there is no Service {4}/{5}".format(
                here.name, there.name, *key, self.settings.mirror_namespace, name
            )
            return self._none(causes.MIRROR_MISSING, here.name, text)
        self._step(
            "mirror", "{0} {1}/{2} is mirrored as {3}/{4}".format(there.name, *key, mirror.namespace, mirror.name)
        )
        return self._dial(question, here, mirror, (there, service))

    def _prefix(self, cluster: str) -> str:
        return self.settings.prefixes.get(cluster) or cluster

    def _mirror(self, here: Cluster, remote: str, key: Id) -> Service | None:
        """The Service that mirrors another cluster's: in the namespace of mirrors, else wherever one of that name and label is."""
        name = mirror_name(self._prefix(remote), *key).name
        found = here.services.get((self.settings.mirror_namespace, name))
        if found is not None:
            return found
        return next(
            (one for one in here.services.values() if one.name == name and is_mirror(one.labels, self._prefix(remote))),
            None,
        )

    def _source_of(self, here: Cluster, mirror: Service) -> tuple[Cluster, Service] | None:
        """The Service that a mirror is of."""
        prefix = mirror.labels.get(PREFIX_LABEL)
        if not is_mirror(mirror.labels) or prefix is None:
            return None
        for name, cluster in sorted(self.clusters.items()):
            if name == here.name or self._prefix(name) != prefix:
                continue
            for (namespace, service), found in cluster.services.items():
                if mirror_name(prefix, namespace, service).name == mirror.name:
                    return cluster, found
        return None

    def _import(self, question: Question, here: Cluster, key: Id, label: str) -> Answer:
        """A ServiceImport of the source's cluster."""
        found = here.imports.get(key)
        if found is None:
            there = sorted(name for name, cluster in self.clusters.items() if key in cluster.imports)
            cause = causes.MIRROR_MISSING if there else causes.NAME_UNKNOWN
            return self._none(cause, here.name, "cluster {0} has no ServiceImport {1}/{2}".format(here.name, *key))
        derived = here.services.get((key[0], derived_name(*key)))
        self._step("import", "{0} is ServiceImport {1}/{2} of cluster {3}".format(printable(label), *key, here.name))
        if derived is None:
            text = "ServiceImport {0}/{1} of cluster {2} has no Service {3} behind it".format(
                *key, here.name, derived_name(*key)
            )
            return self._none(causes.MIRROR_STALE, here.name, text)
        return self._dial(question, here, derived, None)

    # -- a Service -----------------------------------------------------------------------------------------------------

    def _dial(
        self,
        question: Question,
        cluster: Cluster,
        service: Service,
        of: tuple[Cluster, Service] | None,
        dials: tuple[Address, ...] = (),
    ) -> Answer:
        """What is behind a Service. of: the cluster and Service that it mirrors."""
        label = f"{service.namespace}/{service.name} of cluster {cluster.name}"
        if service.external:
            return self._none(
                causes.NOT_EXPLAINED, cluster.name, f"Service {label} is another name for {printable(service.external)}"
            )
        port = chosen_port(question, service)
        if port is None:
            have = ", ".join(f"{one.port}/{one.protocol}" for one in service.ports) or "none"
            asked = f"port for {question.protocol}"
            if question.port is not None:
                asked = f"port {question.port}/{ends.UPPER[question.protocol]}"
            return self._none(
                causes.PORT_NOT_IN_SERVICE, cluster.name, f"Service {label} has no {asked}; it has {printable(have)}"
            )
        behind = cluster.behind.get((service.namespace, service.name), ())
        ready = behind_port(behind, port)
        of = of or self._source_of(cluster, service)
        if of is not None:
            stale = self._stale(label, ready, of, port)
            if stale is not None:
                return self._none(causes.MIRROR_STALE, cluster.name, stale)
        if not ready:
            waiting = len({one.address for one in behind if not one.ready})
            text = (
                f"Service {label} has no endpoint that is ready{(f', and {waiting} that are not' if waiting else '')}"
            )
            where = cluster.name
            if of is not None:
                where = of[0].name
                text += f"; nor has {of[1].namespace}/{of[1].name} of cluster {of[0].name}, which it mirrors"
            return self._none(causes.NO_ENDPOINTS, where, text)
        self._step("service", f"Service {label}, port {port.port}, has {len(ready)} endpoints")
        found = dials or service.addresses or tuple(dict.fromkeys(one.address for one in ready))
        number = ready[0].port if service.headless else port.port
        protocol = {"TCP": ends.TCP, "UDP": ends.UDP}.get(port.protocol, ends.TCP)
        rows = tuple((one.address, one.port) for one in ready)
        return Answer(ends.SERVICE, cluster.name, found, number, protocol, rows, tuple(self._steps), ())

    def _stale(self, label: str, ready: t.Sequence[Backend], of: tuple[Cluster, Service], port: Port) -> str | None:
        """How a mirror differs from its source so that packets may go where nobody is."""
        cluster, service = of
        theirs = next((one for one in service.ports if (one.port, one.protocol) == (port.port, port.protocol)), None)
        if theirs is None:
            return f"Service {label} has port {port.port}, which {service.namespace}/{service.name} of cluster {cluster.name} has not any more"
        if {"endpointslices", "endpoints"} <= cluster.unread:
            return None
        right = {
            self.seen.address(cluster.name, one.address)
            for one in behind_port(cluster.behind.get((service.namespace, service.name), ()), theirs)
        }
        here = {one.address for one in ready}
        gone = sorted(here - right)
        if gone:
            return "Service {0} still leads to {1}, which {2}/{3} of cluster {4} has not".format(
                label, ", ".join(place_text(*one) for one in gone[:5]), service.namespace, service.name, cluster.name
            )
        if right and not here:
            return f"Service {label} has no endpoint, and {service.namespace}/{service.name} of cluster {cluster.name} has {len(right)}"
        return None

    # -- names ---------------------------------------------------------------------------------------------------------

    def _name(self, question: Question, here: Cluster, namespace: str) -> Answer:
        """A name as a pod's resolver asks it: its search list first where the name has few dots. The first that is there counts."""
        name, domain = question.target.name, self.settings.domain
        asked = [name.rstrip(".")]
        if not name.endswith("."):
            search = ["svc." + domain, domain]
            search = [namespace + ".svc." + domain, *search] if namespace else []
            more = [f"{name}.{suffix}" for suffix in search]
            asked = more + asked if name.count(".") < NDOTS else asked + more
        first: Answer | None = None
        for index, one in enumerate(asked):
            answer = self._absolute(question, here, one)
            if answer is None:
                continue
            if not answer.faults or answer.faults[0][0] != causes.NAME_UNKNOWN:
                return answer._replace(asked=tuple(asked[: index + 1]))
            first = first if first is not None and first.cluster else answer
        if first is not None:
            return first
        text = f"{name} is in no zone of cluster {here.name} that objects tell of; trace its address"
        return self._none(causes.NAME_UNKNOWN, here.name, text)

    def _absolute(self, question: Question, here: Cluster, name: str) -> Answer | None:
        """One whole name; None for one that is in none of our zones."""
        domain = self.settings.domain
        if name.endswith(".svc." + domain):
            return self._local(question, here, name, name[: -len(".svc." + domain)])
        zone = next((one for one in self._zones(here) if name.endswith(".svc." + one)), None)
        if zone is None:
            return None
        inner = name[: -len(".svc." + zone)]
        if not self._serves(here, zone, zone not in (self.settings.clusterset, zone_of(here.name))):
            text = "the Corefile of cluster {0} has no server block that {1} {2}, so that {3} has no answer".format(
                here.name,
                "answers" if zone in (self.settings.clusterset, zone_of(here.name)) else "rewrites",
                zone,
                name,
            )
            return self._none(causes.REWRITE_MISSING, here.name, text)
        if zone == self.settings.clusterset:
            parts = inner.split(".")
            if len(parts) < 2:
                return self._none(causes.NAME_UNKNOWN, here.name, f"{name} is no name of a ServiceImport")
            return self._import(question, here, (parts[-1], parts[-2]), name)
        if zone == zone_of(here.name):
            return self._local(question, here, name, inner)
        try:
            became = rewrite_name(self._rules(here), name)
        except ValueRefused as error:
            return self._none(causes.NOT_EXPLAINED, here.name, error.message)
        if became.name is None:
            return self._none(causes.NAME_UNKNOWN, here.name, f"{name} is no name of a Service")
        self._step("name", f"{name} is rewritten to {became.name}")
        rewritten = became.name.rstrip(".")
        inner_name = rewritten[: -len(".svc." + domain)]
        parts = inner.split(".")
        mirror = here.services.get((inner_name.split(".")[-1], inner_name.split(".")[-2]))
        if mirror is None:
            there = self.clusters.get(zone[len("cluster.") :])
            known = there is not None and (parts[-1], parts[-2]) in there.services
            cause = causes.MIRROR_MISSING if known or there is None else causes.NAME_UNKNOWN
            text = f"{name} leads to Service {'/'.join(reversed(inner_name.split('.')[-2:]))} of cluster {here.name}, which is not there"
            if cause == causes.NAME_UNKNOWN:
                text = f"cluster {zone[len('cluster.') :]} has no Service {parts[-1]}/{parts[-2]}"
            return self._none(cause, here.name, text)
        return self._dial(question, here, mirror, None)

    def _local(self, question: Question, here: Cluster, name: str, inner: str) -> Answer:
        parts = inner.split(".")
        service = here.services.get((parts[-1], parts[-2])) if len(parts) >= 2 else None
        if service is None:
            what = "/".join(reversed(parts[-2:]))
            return self._none(causes.NAME_UNKNOWN, here.name, f"{name}: cluster {here.name} has no Service {what}")
        self._step("name", f"{name} is Service {service.namespace}/{service.name} of cluster {here.name}")
        return self._dial(question, here, service, None)

    def _zones(self, here: Cluster) -> list[str]:
        others = [zone_of(name) for name in sorted(self.clusters, key=lambda name: (-len(name), name))]
        return [*others, zone_of(GLOBAL_ZONE), self.settings.clusterset]

    def _rules(self, here: Cluster) -> list[Rule]:
        others = [name for name in self.clusters if name != here.name]
        return rewrite_rules(
            others, self.settings.mirror_namespace, True, dict(self.settings.prefixes), self.settings.domain
        )

    def _serves(self, here: Cluster, zone: str, rewrites: bool) -> bool:
        """Whether the cluster's Corefile has a block of the zone, with a rewrite where one is needed; unknown counts as yes."""
        if here.corefile is None:
            self._step("corefile", f"the Corefile of cluster {here.name} was not read")
            return True
        try:
            blocks = server_blocks(here.corefile)
        except ValueRefused:
            return False
        for block in blocks:
            if zone in _zones_of(block):
                return not rewrites or "rewrite" in block.directives
        for block in blocks:
            if "" not in _zones_of(block):
                continue
            if rewrites:  # by a rule that the user wrote: its server decides what becomes of a name
                return any(zone in token.replace("\\", "") for line in block.lines if "name" in line for token in line)
            if any(
                line[0] == "kubernetes" and zone in {token.rstrip(".") for token in line[1:]} for line in block.lines
            ):
                return True
        # another owner's block may answer the zone of imports by an option of its plugin
        return zone == self.settings.clusterset and any(
            line[0] == "multicluster" and (len(line) == 1 or zone in {token.rstrip(".") for token in line[1:]})
            for block in blocks
            for line in block.lines
        )


def _zones_of(block: ServerBlock) -> set[str]:
    """The zones of a server block, "" for the root."""
    return {address.rpartition("://")[2].partition(":")[0].rstrip(".") for address in block.addresses}


def chosen_port(question: Question, service: Service) -> Port | None:
    """The port of a Service that is asked for; its first where none is."""
    if question.port is None:
        rows = [one for one in service.ports if not question.given or one.protocol == ends.UPPER[question.protocol]]
        return rows[0] if rows else None
    return next(
        (one for one in service.ports if one.port == question.port and one.protocol == ends.UPPER[question.protocol]),
        None,
    )


def behind_port(behind: t.Sequence[Backend], port: Port) -> list[Backend]:
    """The ready endpoints behind a port of a Service: they share its name."""
    found = [one for one in behind if one.ready and one.protocol == port.protocol and one.port_name == port.name]
    return found or [one for one in behind if one.ready and one.port is None]
