# Copyright (c) 2026, multicluster.network authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a status document follows its schema, for every test that has one."""

from __future__ import annotations

import functools
import json
import pathlib

import jsonschema

FILE = pathlib.Path(__file__).resolve().parents[2] / "extensions" / "monitoring" / "fabric-status.schema.json"
#: Of longer lists, so many rows of either end are checked: those of one fabric are alike.
ROWS = 100


@functools.cache
def validator():
    """Of the schema; a schema that is none fails."""
    schema = json.loads(FILE.read_text("utf-8"))
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def problems(document):
    """What differs from the schema, as sentences."""
    short = {
        name: part
        if not isinstance(part, list) or len(part) <= 2 * ROWS or name == "history"
        else part[:ROWS] + part[-ROWS:]
        for name, part in json.loads(json.dumps(document)).items()
    }
    return [
        f"{'/'.join(map(str, one.absolute_path)) or 'document'}: {one.message[:300]}"
        for one in validator().iter_errors(short)
    ]
