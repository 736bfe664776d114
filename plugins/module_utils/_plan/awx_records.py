# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX objects as records: which kinds there are, what of them is owned, what differs. Pure."""

from __future__ import annotations

import json
import typing as t

from .._values.refused import ValueRefused, quoted

Data = dict[str, t.Any]
#: Ends the description of every object that was loaded: how it is known again.
MARK = " [multicluster.network]"
#: How many slices a sliced job has where nobody sets it.
SLICES = 2


class Kind(t.NamedTuple):
    """``path`` of the list; ``refs`` field -> kind of the object that it names; ``once``: fields only set when it is made."""

    name: str
    path: str
    title: str
    in_organization: bool
    refs: t.Mapping[str, str]
    once: frozenset[str] = frozenset()


#: In the order in which they are made; the reverse is how they go.
KINDS: tuple[Kind, ...] = (
    Kind("credential_types", "/credential_types/", "credential type", False, {}),
    Kind("execution_environments", "/execution_environments/", "execution environment", True, {}),
    Kind("projects", "/projects/", "project", True, {}),
    Kind("inventories", "/inventories/", "inventory", True, {}),
    Kind(
        "inventory_sources",
        "/inventory_sources/",
        "inventory source",
        False,
        {
            "inventory": "inventories",
            "source_project": "projects",
            "execution_environment": "execution_environments",
            "credential": "credentials",
        },
    ),
    Kind(
        "job_templates",
        "/job_templates/",
        "job template",
        False,
        {"inventory": "inventories", "project": "projects", "execution_environment": "execution_environments"},
    ),
    Kind("workflow_job_templates", "/workflow_job_templates/", "workflow", True, {}),
    Kind(
        "schedules",
        "/schedules/",
        "schedule",
        False,
        {"unified_job_template": "job_templates"},
        frozenset(("enabled", "rrule")),
    ),
)
#: Fields of the data that are no fields of the object: they are calls of their own.
_APART = frozenset(("survey", "credentials", "optional_credentials", "nodes"))
#: Fields that AWX keeps as text of JSON or YAML.
_TEXTS = frozenset(("extra_vars", "variables", "source_vars"))


class Record(t.NamedTuple):
    """One desired object: plain ``fields``, ``refs`` field -> name, and what is set by calls of its own."""

    kind: Kind
    name: str
    fields: Data
    refs: dict[str, str]
    survey: Data | None
    credentials: list[str]
    optional: list[str]
    nodes: list[Data]


def records(
    data: t.Mapping[str, t.Any], surveys: t.Mapping[str, Data], site: t.Mapping[str, t.Mapping[str, t.Any]]
) -> list[Record]:
    """The desired objects in the order of KINDS. ``site``: kind -> fields that every object of it gets,
    and slices: {count: how many a sliced job has}. Raises ValueRefused."""
    unknown = sorted(set(data) - {kind.name for kind in KINDS})
    if unknown:
        raise ValueRefused("awx_kind_unknown", f"data names {', '.join(map(quoted, unknown))}")
    slices = (site.get("slices") or {}).get("count", SLICES)
    if not isinstance(slices, int) or isinstance(slices, bool) or slices < 1:
        raise ValueRefused(
            "awx_slices", f"awx_load_slices is how many slices a job has, 1 or more, not {quoted(slices)}"
        )
    found = []
    for kind in KINDS:
        for row in data.get(kind.name) or ():
            if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
                raise ValueRefused("awx_name_missing", f"a {kind.title} has no name")
            fields = dict(row, **site.get(kind.name, {}))
            if fields.pop("sliced", False):
                fields["job_slice_count"] = slices
            found.append(_record(kind, fields, surveys))
    return found


def _record(kind: Kind, row: Data, surveys: t.Mapping[str, Data]) -> Record:
    survey = row.get("survey")
    if survey is not None and survey not in surveys:
        raise ValueRefused(
            "awx_survey_unknown", f"{kind.title} {quoted(row['name'])}: there is no survey {quoted(survey)}"
        )
    if kind.name == "schedules":
        row = dict(row, unified_job_template=row.pop("job_template"))
    fields = {
        name: json.dumps(value, sort_keys=True) if name in _TEXTS and not isinstance(value, str) else value
        for name, value in row.items()
        if name not in _APART and name not in kind.refs
    }
    fields["description"] = str(fields.get("description", "")) + MARK
    if kind.name in ("job_templates", "workflow_job_templates"):
        fields["survey_enabled"] = survey is not None
    refs = {name: str(row[name]) for name in kind.refs if row.get(name)}
    desired = surveys[survey] if survey is not None else None
    return Record(
        kind,
        row["name"],
        fields,
        refs,
        desired,
        list(row.get("credentials") or ()),
        list(row.get("optional_credentials") or ()),
        list(row.get("nodes") or ()),
    )


def is_owned(row: t.Mapping[str, t.Any]) -> bool:
    """Whether an object of AWX was loaded by us."""
    return str(row.get("description") or "").endswith(MARK)


def differing(record: Record, ids: t.Mapping[str, t.Any], actual: t.Mapping[str, t.Any]) -> Data:
    """Fields to write on an object that is there. ``ids``: field -> id of what it refers to (None: not known before it is made)."""
    found: Data = {}
    for name, value in record.fields.items():
        if name not in record.kind.once and not same(name, value, actual.get(name)):
            found[name] = value
    for name, value in ids.items():
        if actual.get(name) != value:
            found[name] = value
    return found


def same(name: str, desired: t.Any, actual: t.Any) -> bool:
    """Whether a field already has the desired value. Texts of JSON are equal by what they mean; AWX fills in defaults of inputs."""
    if name in _TEXTS:
        try:
            return bool(json.loads(desired or "{}") == json.loads(actual or "{}"))
        except (TypeError, ValueError):
            return bool(desired == actual)
    if isinstance(desired, dict) and isinstance(actual, dict):
        return all(same("", value, actual.get(key)) for key, value in desired.items()) and not set(actual) - set(
            desired
        )
    if isinstance(desired, list) and isinstance(actual, list):
        return len(desired) == len(actual) and all(
            same(
                "",
                one,
                {k: v for k, v in other.items() if k in one}
                if isinstance(one, dict) and isinstance(other, dict)
                else other,
            )
            for one, other in zip(desired, actual)
        )
    return bool(desired == actual)


def same_survey(desired: t.Mapping[str, t.Any], actual: t.Any) -> bool:
    """Whether a template has this survey."""
    return isinstance(actual, dict) and all(
        same("", desired[name], actual.get(name)) for name in ("name", "description", "spec")
    )
