# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a former owner when what we own is taken out of it."""

from __future__ import annotations

import typing as t

from ansible_collections.multicluster.network.plugins.module_utils._plan.sole_owner import (
    NOBODY,
    sole_record,
    taken_paths,
    transferred,
)

OWN = {
    "manager": "us",
    "operation": "Apply",
    "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:x": {}}},
}


def test_a_map_of_which_nothing_is_left_goes_too() -> None:
    """A server reads a map with nothing in it as all that is in it, and puts our labels back on record for the other."""
    theirs = {
        "manager": "before-first-apply",
        "operation": "Update",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:annotations": {".": {}, "f:b": {}}},
            "f:spec": {".": {}, "f:x": {}},
        },
    }
    made = sole_record({"metadata": {"managedFields": [OWN, theirs]}}, "us")
    assert made == [OWN, dict(theirs, fieldsV1={"f:metadata": {"f:annotations": {".": {}, "f:b": {}}}})]
    assert sole_record({"metadata": {"managedFields": made}}, "us") is None


def test_a_map_of_which_something_is_left_stays() -> None:
    theirs = {
        "manager": "m",
        "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:c": {}}}},
    }
    made = sole_record({"metadata": {"managedFields": [OWN, theirs]}}, "us")
    assert made == [OWN, dict(theirs, fieldsV1={"f:metadata": {"f:labels": {".": {}, "f:c": {}}}})]


def test_only_the_paths_that_are_named_are_taken() -> None:
    theirs = {
        "manager": "ccm",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:a/b": {}, "f:c": {}}}},
    }
    status = dict(theirs, manager="kubelet", subresource="status")
    made = taken_paths(
        {"metadata": {"managedFields": [theirs, status, OWN]}}, "us", [("metadata", "annotations", "a/b")]
    )
    assert made == [
        dict(theirs, fieldsV1={"f:metadata": {"f:annotations": {".": {}, "f:c": {}}}}),
        status,
        OWN,
        {
            "manager": "us",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:annotations": {"f:a/b": {}}}},
        },
    ]
    assert taken_paths({"metadata": {"managedFields": made}}, "us", [("metadata", "annotations", "a/b")]) is None


def owned(entry: t.Mapping[str, t.Any]) -> bool:
    return entry.get("manager") == "us"


def test_what_is_passed_on_is_the_heirs() -> None:
    """Together with what is on record for the heir already, and the rest stays as it is; then there is nothing left to hand over."""
    mine = {
        "manager": "us",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:x": {}}},
    }
    status = dict(mine, subresource="status", fieldsV1={"f:status": {"f:y": {}}})
    theirs = dict(mine, manager="kubectl", fieldsV1={"f:spec": {"f:z": {}}})
    before = dict(mine, manager=NOBODY, fieldsV1={"f:spec": {"f:w": {}}})
    made = transferred({"metadata": {"managedFields": [mine, theirs, status, before]}}, owned)
    assert made == [theirs, dict(before, fieldsV1={"f:spec": {"f:x": {}, "f:w": {}}}), dict(status, manager=NOBODY)]
    assert transferred({"metadata": {"managedFields": made}}, owned) is None
    assert transferred({"metadata": {}}, owned) is None


def test_part_of_an_object_can_be_passed_on() -> None:
    tree = {"f:metadata": {"f:annotations": {".": {}, "f:a": {}, "f:b": {}}}}
    entry = {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": tree}
    made = transferred({"metadata": {"managedFields": [entry]}}, owned, "them", "Apply", lambda leaf: leaf[-1] == "f:a")
    assert made == [
        dict(entry, fieldsV1={"f:metadata": {"f:annotations": {".": {}, "f:b": {}}}}),
        dict(entry, manager="them", fieldsV1={"f:metadata": {"f:annotations": {"f:a": {}}}}),
    ]
    assert (
        transferred({"metadata": {"managedFields": made}}, owned, "them", "Apply", lambda leaf: leaf[-1] == "f:a")
        is None
    )
