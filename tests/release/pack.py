# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the archive of ansible-galaxy again so that the same commit gives the same bytes, with its bill of materials and checksums.

pack.py BUILT OUT EPOCH: the archive that ansible-galaxy built, the folder for the release, and the time of the commit in seconds. ansible-galaxy
gives members the times at which they were checked out or made, in the order of the file system.
"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import re
import sys
import tarfile
import uuid

#: Bytes that a release may have.
MOST = 1_500_000
#: For the order of files: tokens of a run, and bytes of the files that the next one is compared with.
_RUN, _NEAR = 6, 28_000
#: What belongs to a clone and to nobody who installs the collection.
NOT_RELEASED = (
    "tests/",
    "extensions/molecule/",
    "changelogs/fragments/",
    "docs/specs/",
    "docs/checklist.md",
    "CONTRIBUTING.md",
    "docs/docsite/rst/images/",
    ".ci/",
    ".git",
)


def likeness_order(contents: dict[str, bytes]) -> list[str]:
    """Names of files, each after those that it has most in common with: gzip finds what repeats within 32 KiB alone.

    What two files have in common are runs of six tokens; what is compared are the last files of so many bytes. In the order of their names the
    same files take two per cent more.
    """
    runs = {name: _runs(text) for name, text in contents.items()}
    left, order = sorted(contents), []
    while left:
        near: set[tuple[bytes, ...]] = set()
        size = 0
        for name in reversed(order):
            near |= runs[name]
            size += len(contents[name])
            if size > _NEAR:
                break
        shares = {name: len(runs[name] & near) / (len(runs[name]) + 60) for name in left}
        order.append(max(left, key=shares.__getitem__))
        left.remove(order[-1])
    return order


def _runs(text: bytes) -> set[tuple[bytes, ...]]:
    tokens = re.findall(rb"\w+|\W", text)
    return {tuple(tokens[place : place + _RUN]) for place in range(len(tokens) - _RUN)}


def repacked(built: bytes, epoch: int) -> bytes:
    """The archive with members of one time in an order of their contents alone, without an owner.

    MANIFEST.json and FILES.json come first, as installers read them, then the folders.
    """
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(built), mode="r:gz") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as target,
    ):
        members = {member.name: member for member in source.getmembers()}
        head = [name for name in ("MANIFEST.json", "FILES.json") if name in members]
        folders = sorted(name for name, member in members.items() if not member.isfile())
        files = {
            name: reader.read()
            for name, member in sorted(members.items())
            if name not in head and member.isfile() and (reader := source.extractfile(member))
        }
        for name in (*head, *folders, *likeness_order(files)):
            member = members[name]
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = (
                epoch,
                0,
                0,
                "",
                "",
                {},
            )
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    import zopfli.gzip  # the same format in five per cent fewer bytes

    return zopfli.gzip.compress(plain.getvalue(), numiterations=15)


def check(archive: bytes) -> list[str]:
    """What is wrong with an archive, as sentences."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as found:
        names = found.getnames()
    wrong = [f"{name} does not belong into a release" for name in names if name.startswith(NOT_RELEASED)]
    if len(archive) > MOST:
        wrong.append(f"it has {len(archive)} bytes; at most {MOST} may be")
    return wrong


def bill(archive: bytes, requirements: list[str], epoch: int) -> str:
    """The bill of materials as CycloneDX: the collection with its licence and checksum, and the packages that it runs with."""
    import datetime

    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output.json import JsonV1Dot6

    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as found:
        manifest = found.extractfile("MANIFEST.json")
        info = json.load(manifest)["collection_info"] if manifest else {}
    licences = LicenseFactory()
    collection = Component(
        name=f"{info['namespace']}.{info['name']}",
        version=info["version"],
        type=ComponentType.LIBRARY,
        bom_ref=f"{info['namespace']}.{info['name']}",
        licenses=[licences.make_from_string(one) for one in info["license"]],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(archive).hexdigest())],
    )
    packages = [
        Component(
            name=line.split(">")[0].split("=")[0].split("<")[0].strip(),
            description=line,
            type=ComponentType.LIBRARY,
            bom_ref=line,
        )
        for line in requirements
    ]
    bom = Bom(
        metadata=BomMetaData(
            component=collection, timestamp=datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
        ),
        components=packages,
    )
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(archive).hexdigest())
    bom.register_dependency(collection, packages)
    return JsonV1Dot6(bom).output_as_string(indent=1)


def main(built: str, out: str, epoch: str) -> int:
    """Write the release into a folder; the exit code is 1 where the archive is none."""
    source, folder = pathlib.Path(built), pathlib.Path(out)
    archive = repacked(source.read_bytes(), int(epoch))
    wrong = check(archive)
    for sentence in wrong:
        sys.stderr.write(f"{source.name}: {sentence}\n")
    needs = [
        line
        for line in (pathlib.Path(__file__).parents[2] / "meta" / "ee-requirements.txt").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    files = {
        source.name: archive,
        source.name.replace(".tar.gz", ".cdx.json"): bill(archive, ["ansible-core>=2.17", *needs], int(epoch)).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    (folder / "SHA256SUMS").write_text(sums)
    sys.stdout.write(f"{len(archive)} bytes\n{sums}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
