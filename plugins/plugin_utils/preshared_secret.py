# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: may change at any time.
"""The secret from which preshared keys derive. It is read on the controller when it is needed, and is in no option, no result and no plan."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.multicluster.network.plugins.module_utils._mesh.semaphore.preshared import read_secret
from ansible_collections.multicluster.network.plugins.module_utils._plan.mesh_plan import MeshPlan
from ansible_collections.multicluster.network.plugins.module_utils._values.keys import encode_key, fingerprint
from ansible_collections.multicluster.network.plugins.module_utils._values.refused import ValueRefused

VARIABLE = "preshared_secret"
_MISSING = (
    "preshared keys are in use, or asked for by preshared: true, and preshared_secret is not set; keep it in a vault in group_vars/all until "
    "rotate_keys has turned them off [bad_preshared_secret]"
)
_OTHER = (
    "{0}: its preshared_secret is another one than that of the run, so its pairs would get no session; set it once, in group_vars/all "
    "[bad_preshared_secret]"
)


def identity(action: ActionBase, variables: t.Mapping[str, t.Any]) -> str:
    """The fingerprint of the secret. Raises ValueError where there is none that can be used."""
    return fingerprint(encode_key(_read(action, variables)))


def of_host(action: ActionBase, variables: t.Mapping[str, t.Any], mesh: MeshPlan, host: str) -> bytes:
    """The secret, as a host of the plan has it; empty where no preshared key is in use. Raises ValueError where it is another one than that of the run."""
    if not mesh.preshared_used:
        return b""
    secret = _read(action, variables)
    if mesh.preshared_id and fingerprint(encode_key(secret)) != mesh.preshared_id:
        raise ValueError(_OTHER.format(host))
    return secret


def _read(action: ActionBase, variables: t.Mapping[str, t.Any]) -> bytes:
    given = action._templar.template(variables.get(VARIABLE))
    if given in (None, ""):
        raise ValueError(_MISSING)
    try:
        return read_secret(given)
    except ValueRefused as error:
        raise ValueError(f"{error.message} [{error.reason}]") from None
