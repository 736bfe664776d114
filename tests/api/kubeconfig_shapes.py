# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shapes of kubeconfig files as they are found in the wild, each for one running API server."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
import pathlib
import textwrap
import typing as t

import yaml

Dict = dict[str, t.Any]


@dataclasses.dataclass
class World:
    """What shapes refer to: the server's URL and CA, tokens of two users, a client certificate, a CONNECT proxy, ways to the server."""

    folder: pathlib.Path
    url: str
    ca: str
    token: str
    other: str
    certificate: str
    key: str
    other_ca: str
    proxy: str
    ipv6: str
    prefix: str


def b64(text: str) -> str:
    """As kubeconfigs have it."""
    return base64.b64encode(text.encode()).decode()


def wrapped(text: str, width: int = 64, end: str = "\n") -> str:
    """Base64 as the program base64 prints it."""
    return end.join(textwrap.wrap(b64(text), width)) + end


def shapes(w: World) -> dict[str, bytes]:
    """Name -> the bytes of the file. Files that they name are made in the world's folder."""
    port = w.url.rsplit(":", 1)[1]

    def config(
        cluster: Dict | None = None, user: Dict | None = None, context: Dict | None = None, **top: t.Any
    ) -> Dict:
        """The plain one with changes; a value of ... takes the key away."""
        made: Dict = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": w.url, "certificate-authority-data": b64(w.ca)}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": w.token}}],
        }
        for part, more in (
            (made["clusters"][0]["cluster"], cluster),
            (made["users"][0]["user"], user),
            (made["contexts"][0]["context"], context),
            (made, top),
        ):
            for key, value in (more or {}).items():
                part[key.replace("__", "-")] = value
                if value is ...:
                    del part[key.replace("__", "-")]
        return made

    def text(made: Dict) -> str:
        return yaml.safe_dump(made, sort_keys=False, width=100000)

    def certified(**more: t.Any) -> Dict:
        return config(
            user={"token": ..., "client-certificate-data": b64(w.certificate), "client-key-data": b64(w.key), **more}
        )

    files = {
        "ca.crt": w.ca,
        "client.crt": w.certificate,
        "client.key": w.key,
        "token": w.token,
        "token-lf": w.token + "\n",
        "token-crlf": w.token + "\r\n",
        "token-blank-line": w.token + "\n\n",
        "token-blank-first": "\n" + w.token + "\n",
        "token-spaces": "  " + w.token + "  \n",
        "token-empty": "",
        "token-two": w.token + "\n" + w.token + "\n",
        "token-bom": "\ufeff" + w.token,
        "sub/ca.crt": w.ca,
    }
    for name, content in files.items():
        path = w.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode())
    program = w.folder / "credential"
    printed = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": w.token},
    }
    program.write_text(f"#!/bin/sh\necho '{json.dumps(printed)}'\n")
    program.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(program), "interactiveMode": "Never"}
    commented = "Subject: CN=x\nIssuer: CN=x\n# a comment\n" + w.ca + "# the end\n"
    plain = text(config())
    second = config()
    second["users"].append({"name": "other", "user": {"token": w.other}})
    second["contexts"].append({"name": "second", "context": {"cluster": "k", "user": "other"}})
    here = str(w.folder)

    def twice(plural: str, first: bool) -> Dict:
        made = config()
        again = copy.deepcopy(made[plural][0])
        made[plural].insert(0 if first else 1, again)
        return made

    raw: dict[str, t.Any] = {
        # the text
        "yaml": plain,
        "json": json.dumps(config()),
        "json-indented": json.dumps(config(), indent=2),
        "json-tabs": json.dumps(config(), indent="\t"),
        "json-one-line-feed": json.dumps(config()) + "\n\n",
        "json-escapes": json.dumps(config()).replace("https://", "https:\\/\\/"),
        "bom": "\ufeff" + plain,
        "bom-json": "\ufeff" + json.dumps(config()),
        "utf16": plain.encode("utf-16"),
        "crlf": plain.replace("\n", "\r\n"),
        "cr": plain.replace("\n", "\r"),
        "tabs": plain.replace("  ", "\t"),
        "tab-at-the-end": plain.replace("kind: Config\n", "kind: Config\t\n"),
        "blanks-at-the-end": plain.replace("\n", "   \n"),
        "blank-lines": plain.replace("\n", "\n\n"),
        "comments": "# first\n" + plain.replace("kind: Config\n", "kind: Config # Config\n") + "# last\n",
        "document-start": "---\n" + plain,
        "document-start-and-end": "---\n" + plain + "...\n",
        "document-separator-at-the-end": plain + "---\n",
        "document-separator-and-comment": plain + "---\n# nothing\n",
        "two-separators": "---\n---\n" + plain,
        "yaml-directive": "%YAML 1.2\n---\n" + plain,
        "same-document-twice": plain + "---\n" + plain,
        "other-document-second": plain + "---\nkind: Secret\n",
        "other-document-first": "kind: Secret\n---\n" + plain,
        "no-line-feed-at-the-end": plain.rstrip("\n"),
        "flow-style": yaml.safe_dump(config(), default_flow_style=True, width=100000),
        "all-quoted": yaml.safe_dump(config(), default_style='"', width=100000),
        "single-quoted": yaml.safe_dump(config(), default_style="'", width=100000),
        "indented-lists": plain.replace("\n- ", "\n  - ").replace("\n  cluster:", "\n    cluster:"),
        "sorted": yaml.safe_dump(config(), sort_keys=True, width=100000),
        "narrow-lines": yaml.safe_dump(config(), sort_keys=False, width=40),
        "anchor-unused": plain.replace("- name: u\n", "- &user\n  name: u\n"),
        "anchor-and-alias": plain.replace("current-context: c", "current-context: &c c").replace(
            "- name: c\n", "- name: *c\n"
        ),
        "merge-key": plain.replace("kind: Config\n", f"kind: Config\nx-common: &common\n  token: {w.token}\n").replace(
            f"  user:\n    token: {w.token}", "  user:\n    <<: *common"
        ),
        "tag-str": plain.replace("token: ", "token: !!str "),
        "tag-of-python": plain.replace("kind: Config", "kind: !!python/name:os.system Config"),
        "tag-own": plain.replace("kind: Config", "kind: !mine Config"),
        "binary-ca": plain.replace("certificate-authority-data: ", "certificate-authority-data: !!binary "),
        "empty": "",
        "only-comment": "# nothing\n",
        "null": "null\n",
        "list": "- 1\n",
        "string": "kubeconfig\n",
        "unfinished-quote": plain + "x: 'a\n",
        "control-character": plain + "# \x07\n",
        "high-letters": plain + "# \u00fc\u20ac\U0001f600\n",
        "not-utf8": plain.encode() + b"# \xff\xfe\n",
        "ansible-vault": "$ANSIBLE_VAULT;1.1;AES256\n3132\n",
        "duplicate-key-same": plain + "kind: Config\n",
        "duplicate-key-last-wins": plain.replace("current-context: c\n", "current-context: none\n")
        + "current-context: c\n",
        # the document
        "no-apiversion": config(apiVersion=...),
        "no-kind": config(kind=...),
        "neither": config(apiVersion=..., kind=...),
        "empty-apiversion-and-kind": config(apiVersion="", kind=""),
        "null-apiversion-and-kind": config(apiVersion=None, kind=None),
        "other-kind": config(kind="Secret"),
        "other-apiversion": config(apiVersion="v2"),
        "preferences": config(preferences={}),
        "preferences-null": config(preferences=None),
        "preferences-colors": config(preferences={"colors": True}),
        "extensions": config(extensions=[{"name": "x", "extension": {"a": 1}}]),
        "unknown-top-key": config(unknown={"a": [1, 2]}),
        "unknown-cluster-key": config(cluster={"x-unknown": "a"}),
        "unknown-user-key": config(user={"x-unknown": 5}),
        "minikube-extensions": config(
            cluster={"extensions": [{"name": "cluster_info", "extension": {"provider": "minikube.sigs.k8s.io"}}]}
        ),
        "namespace": config(context={"namespace": "kube-system"}),
        "namespace-null": config(context={"namespace": None}),
        "two-contexts": second,
        "two-contexts-second": {**second, "current-context": "second"},
        "current-context-missing": config(current__context=...),
        "current-context-empty": config(current__context=""),
        "current-context-null": config(current__context=None),
        "current-context-unknown": config(current__context="nope"),
        "context-without-user": config(context={"user": ...}),
        "context-with-unknown-user": config(context={"user": "nope"}),
        "context-without-cluster": config(context={"cluster": ...}),
        "context-with-unknown-cluster": config(context={"cluster": "nope"}),
        "contexts-null": config(contexts=None),
        "contexts-empty": config(contexts=[]),
        "contexts-mapping": config(contexts={"c": {"cluster": "k", "user": "u"}}),
        "contexts-with-null-entry": config(contexts=[None, {"name": "c", "context": {"cluster": "k", "user": "u"}}]),
        "other-context-broken": config(
            contexts=[{"name": "c", "context": {"cluster": "k", "user": "u"}}, {"name": "d", "context": None}]
        ),
        "other-context-without-name": config(
            contexts=[{"context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}]
        ),
        "users-null": config(users=None),
        "clusters-null": config(clusters=None),
        "clusters-missing": config(clusters=...),
        "user-null": config(users=[{"name": "u", "user": None}]),
        "user-empty": config(users=[{"name": "u", "user": {}}]),
        "user-without-key": config(users=[{"name": "u"}]),
        "duplicate-cluster": twice("clusters", False),
        "duplicate-user": twice("users", False),
        "duplicate-context": twice("contexts", False),
        "duplicate-user-other-first": config(
            users=[{"name": "u", "user": {"token": w.other}}, {"name": "u", "user": {"token": w.token}}]
        ),
        "duplicate-other-user": config(
            users=[{"name": "u", "user": {"token": w.token}}, {"name": "x", "user": {}}, {"name": "x", "user": {}}]
        ),
        "number-as-name-quoted": text(config())
        .replace("current-context: c", "current-context: '1'")
        .replace("- name: c", "- name: '1'"),
        "number-as-name": text(config())
        .replace("current-context: c", "current-context: 1")
        .replace("- name: c", "- name: 1"),
        "yes-as-name": text(config())
        .replace("current-context: c", "current-context: yes")
        .replace("- name: c", "- name: yes"),
        "name-with-signs": text(config())
        .replace("current-context: c", "current-context: arn:aws:eks:eu-west-1:1:cluster/a@b")
        .replace("- name: c", "- name: arn:aws:eks:eu-west-1:1:cluster/a@b"),
        "name-with-blank": text(config())
        .replace("current-context: c", "current-context: my cluster")
        .replace("- name: c", "- name: my cluster"),
        # the server
        "trailing-slash": config(cluster={"server": w.url + "/"}),
        "two-trailing-slashes": config(cluster={"server": w.url + "//"}),
        "upper-case-scheme": config(cluster={"server": w.url.replace("https", "HTTPS")}),
        "no-scheme": config(cluster={"server": w.url[8:]}),
        "scheme-unknown": config(cluster={"server": w.url.replace("https", "tcp")}),
        "server-missing": config(cluster={"server": ...}),
        "server-empty": config(cluster={"server": ""}),
        "server-number": config(cluster={"server": 5}),
        "server-with-blank": config(cluster={"server": w.url + " "}),
        "server-with-line-feed": config(cluster={"server": w.url + "\n"}),
        "server-with-query": config(cluster={"server": w.url + "/?a=b"}),
        "server-with-user": config(cluster={"server": w.url.replace("//", "//a:b@")}),
        "server-by-name": config(cluster={"server": "https://localhost:" + port}),
        "server-by-name-with-dot": config(cluster={"server": "https://localhost.:" + port}),
        "server-bad-port": config(cluster={"server": "https://127.0.0.1:99999"}),
        "server-port-text": config(cluster={"server": "https://127.0.0.1:https"}),
        "server-ipv6": config(cluster={"server": w.ipv6, "tls-server-name": "kubernetes.default"}),
        "server-ipv6-zone": config(
            cluster={"server": w.ipv6.replace("::1", "::1%25lo"), "tls-server-name": "kubernetes.default"}
        ),
        "server-path-prefix": config(cluster={"server": w.prefix + "/prefix", "certificate-authority-data": ...}),
        "server-path-prefix-slash": config(
            cluster={"server": w.prefix + "/prefix/", "certificate-authority-data": ...}
        ),
        "plain-http": config(cluster={"server": w.prefix + "/prefix"}),
        "other-ca": config(cluster={"certificate-authority-data": b64(w.other_ca)}),
        "no-ca": config(cluster={"certificate-authority-data": ...}),
        "ca-empty": config(cluster={"certificate-authority-data": ""}),
        "ca-null": config(cluster={"certificate-authority-data": None}),
        "ca-wrapped": config(cluster={"certificate-authority-data": wrapped(w.ca)}),
        "ca-wrapped-crlf": config(cluster={"certificate-authority-data": wrapped(w.ca, 76, "\r\n")}),
        "ca-wrapped-block": plain.replace(": " + b64(w.ca), ": |\n" + textwrap.indent(wrapped(w.ca), " " * 6)),
        "ca-wrapped-folded": plain.replace(": " + b64(w.ca), ": >-\n" + textwrap.indent(wrapped(w.ca), " " * 6)),
        "ca-wrapped-plain": plain.replace(": " + b64(w.ca), ":\n" + textwrap.indent(wrapped(w.ca), " " * 6)),
        "ca-with-blanks": config(cluster={"certificate-authority-data": wrapped(w.ca, 64, " ")}),
        "ca-without-padding": config(
            cluster={"certificate-authority-data": b64(w.ca + "\n" * ((1 - len(w.ca)) % 3)).rstrip("=")}
        ),
        "ca-no-base64": config(cluster={"certificate-authority-data": "***"}),
        "ca-no-pem": config(cluster={"certificate-authority-data": b64("no certificate")}),
        "ca-pem-as-is": config(cluster={"certificate-authority-data": w.ca}),
        "ca-with-comments": config(cluster={"certificate-authority-data": b64(commented)}),
        "ca-crlf": config(cluster={"certificate-authority-data": b64(w.ca.replace("\n", "\r\n"))}),
        "ca-without-last-line-feed": config(cluster={"certificate-authority-data": b64(w.ca.rstrip())}),
        "ca-indented-pem": config(cluster={"certificate-authority-data": b64(textwrap.indent(w.ca, "  "))}),
        "ca-two": config(cluster={"certificate-authority-data": b64(w.other_ca + w.ca)}),
        "ca-twice": config(cluster={"certificate-authority-data": b64(w.ca + w.ca)}),
        "ca-with-key": config(cluster={"certificate-authority-data": b64(w.key + w.ca)}),
        "ca-trusted-certificate": config(
            cluster={"certificate-authority-data": b64(w.ca.replace(" CERT", " TRUSTED CERT"))}
        ),
        "ca-file": config(cluster={"certificate-authority-data": ..., "certificate-authority": here + "/ca.crt"}),
        "ca-file-relative": config(cluster={"certificate-authority-data": ..., "certificate-authority": "ca.crt"}),
        "ca-file-relative-dot": config(
            cluster={"certificate-authority-data": ..., "certificate-authority": "./sub/../sub/ca.crt"}
        ),
        "ca-file-home": config(cluster={"certificate-authority-data": ..., "certificate-authority": "~/ca.crt"}),
        "ca-file-missing": config(cluster={"certificate-authority-data": ..., "certificate-authority": here + "/nope"}),
        "ca-data-and-file": config(cluster={"certificate-authority": here + "/ca.crt"}),
        "ca-data-and-missing-file": config(cluster={"certificate-authority": here + "/nope"}),
        "insecure": config(cluster={"certificate-authority-data": ..., "insecure-skip-tls-verify": True}),
        "insecure-text": config(cluster={"certificate-authority-data": ..., "insecure-skip-tls-verify": "true"}),
        "insecure-false": config(cluster={"insecure-skip-tls-verify": False}),
        "insecure-and-ca": config(cluster={"insecure-skip-tls-verify": True}),
        "insecure-null": config(cluster={"insecure-skip-tls-verify": None}),
        "tls-server-name": config(cluster={"tls-server-name": "kubernetes.default"}),
        "tls-server-name-wrong": config(cluster={"tls-server-name": "other.example"}),
        "tls-server-name-empty": config(cluster={"tls-server-name": ""}),
        "proxy-url": config(cluster={"proxy-url": w.proxy}),
        "proxy-url-slash": config(cluster={"proxy-url": w.proxy + "/"}),
        "proxy-url-dead": config(cluster={"proxy-url": "http://127.0.0.1:1"}),
        "proxy-url-empty": config(cluster={"proxy-url": ""}),
        "proxy-url-no-scheme": config(cluster={"proxy-url": w.proxy[7:]}),
        "disable-compression": config(cluster={"disable-compression": True}),
        # the user
        "token-wrong": config(user={"token": "wrong-token"}),
        "token-empty": config(user={"token": ""}),
        "token-null": config(user={"token": None}),
        "token-number": config(user={"token": 12345}),
        "token-with-line-feed": config(user={"token": w.token + "\n"}),
        "token-with-blank": config(user={"token": w.token + " "}),
        "token-block": plain.replace("token: " + w.token, "token: |\n      " + w.token),
        "token-block-stripped": plain.replace("token: " + w.token, "token: |-\n      " + w.token),
        "token-folded": plain.replace("token: " + w.token, "token: >-\n      " + w.token),
        "token-next-line": plain.replace("token: " + w.token, "token:\n      " + w.token),
        "token-with-bearer": config(user={"token": "Bearer " + w.token}),
        "token-file-home": config(user={"token": ..., "tokenFile": "~/token"}),
        "token-file-missing": config(user={"token": ..., "tokenFile": here + "/nope"}),
        "token-file-relative": config(user={"token": ..., "tokenFile": "token"}),
        "token-and-file": config(user={"token": w.other, "tokenFile": here + "/token"}),
        "token-and-missing-file": config(user={"tokenFile": here + "/nope"}),
        "certificate": certified(),
        "certificate-wrapped": config(
            user={"token": ..., "client-certificate-data": wrapped(w.certificate), "client-key-data": wrapped(w.key)}
        ),
        "certificate-files": config(
            user={"token": ..., "client-certificate": here + "/client.crt", "client-key": here + "/client.key"}
        ),
        "certificate-files-relative": config(
            user={"token": ..., "client-certificate": "client.crt", "client-key": "client.key"}
        ),
        "certificate-and-key-file": config(
            user={"token": ..., "client-certificate-data": b64(w.certificate), "client-key": here + "/client.key"}
        ),
        "certificate-data-and-file": certified(**{"client-certificate": here + "/nope", "client-key": here + "/nope"}),
        "certificate-without-key": certified(**{"client-key-data": ...}),
        "key-without-certificate": certified(**{"client-certificate-data": ...}),
        "key-without-certificate-but-token": config(user={"client-key-data": b64(w.key)}),
        "certificate-key-mismatch": certified(**{"client-certificate-data": b64(w.other_ca)}),
        "certificate-with-comments": certified(**{"client-certificate-data": b64("# comment\n" + w.certificate)}),
        "certificate-crlf": certified(**{"client-certificate-data": b64(w.certificate.replace("\n", "\r\n"))}),
        "certificate-and-token": certified(token=w.token),
        "certificate-no-pem": certified(**{"client-certificate-data": b64("no certificate")}),
        "password": config(user={"token": ..., "username": "tester", "password": "hunter2"}),
        "password-and-token": config(user={"username": "tester", "password": "hunter2"}),
        "password-empty-and-token": config(user={"username": "", "password": ""}),
        "exec": config(user={"token": ..., "exec": run}),
        "exec-relative": config(user={"token": ..., "exec": {**run, "command": "./credential"}}),
        "exec-args-null-env-null": config(
            user={"token": ..., "exec": {**run, "args": None, "env": None, "provideClusterInfo": False}}
        ),
        "exec-without-apiversion": config(user={"token": ..., "exec": {"command": str(program)}}),
        "exec-other-apiversion": config(
            user={"token": ..., "exec": {**run, "apiVersion": "client.authentication.k8s.io/v1"}}
        ),
        "exec-missing": config(user={"token": ..., "exec": {**run, "command": here + "/nope"}}),
        "exec-null": config(user={"exec": None}),
        "exec-and-token": config(user={"exec": run, "token": w.other}),
        "exec-and-certificate": certified(exec=run),
        "auth-provider": config(
            user={"token": ..., "auth-provider": {"name": "oidc", "config": {"id-token": w.token}}}
        ),
        "auth-provider-null": config(user={"auth-provider": None}),
        "impersonation": config(user={"as": "somebody", "as-groups": ["system:masters"]}),
        "impersonation-groups-alone": config(user={"as-groups": ["system:masters"]}),
        "impersonation-empty": config(user={"as": "", "as-groups": []}),
        "impersonation-extra": config(
            user={"as": "somebody", "as-groups": ["system:masters"], "as-user-extra": {"reason": ["a"]}}
        ),
        "impersonation-extra-null": config(user={"as-user-extra": None}),
    }
    for name in sorted(files):
        if name.startswith("token"):
            raw["file-" + name] = config(user={"token": ..., "tokenFile": here + "/" + name})
    return {
        name: made if isinstance(made, bytes) else (made if isinstance(made, str) else text(made)).encode()
        for name, made in raw.items()
    }
