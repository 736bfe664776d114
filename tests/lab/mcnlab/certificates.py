# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate authority, a serving certificate and a service-account key per cluster, by openssl."""

from __future__ import annotations

import pathlib

from . import process

DAYS = "3650"


def ensure(folder: pathlib.Path, cluster: str, names: list[str], addresses: list[str]) -> None:
    """Write ca.crt, ca.key, server.crt, server.key, sa.key, sa.pub into ``folder`` unless they are there."""
    if (folder / "complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)

    def openssl(*words: object) -> None:
        process.run(["openssl", *words], cwd=folder)

    key = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    for name in ("ca", "server"):
        openssl("genpkey", *key, "-out", f"{name}.key")
    openssl("genrsa", "-out", "sa.key", "2048")
    openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
    (folder / "ca.cnf").write_text(
        "[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=ext\n"
        f"[dn]\nCN=lab {cluster} CA\n"
        "[ext]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign,digitalSignature\nsubjectKeyIdentifier=hash\n"
    )
    openssl("req", "-x509", "-new", "-key", "ca.key", "-days", DAYS, "-config", "ca.cnf", "-out", "ca.crt")
    alternatives = ",".join([f"DNS:{name}" for name in names] + [f"IP:{address}" for address in addresses])
    (folder / "server.cnf").write_text(
        "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n"
        f"authorityKeyIdentifier=keyid\nsubjectAltName={alternatives}\n"
    )
    openssl("req", "-new", "-key", "server.key", "-subj", f"/CN=kube-apiserver {cluster}", "-out", "server.csr")
    openssl(
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        DAYS,
        "-extfile",
        "server.cnf",
        "-out",
        "server.crt",
    )
    for file in folder.glob("*.key"):
        file.chmod(0o600)
    (folder / "complete").touch()


def client(folder: pathlib.Path, name: str, common_name: str, organization: str) -> None:
    """Write NAME.crt and NAME.key into ``folder`` unless they are there: a client that the folder's authority vouches for."""
    if (folder / f"{name}.crt").exists():
        return

    def openssl(*words: object) -> None:
        process.run(["openssl", *words], cwd=folder)

    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
    (folder / f"{name}.key").chmod(0o600)
    (folder / "client.cnf").write_text(
        "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=clientAuth\n"
    )
    openssl("req", "-new", "-key", f"{name}.key", "-subj", f"/O={organization}/CN={common_name}", "-out", f"{name}.csr")
    openssl(
        "x509",
        "-req",
        "-in",
        f"{name}.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        DAYS,
        "-extfile",
        "client.cnf",
        "-out",
        f"{name}.crt",
    )
