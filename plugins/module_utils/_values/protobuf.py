# Copyright (c) 2026, multicluster.network authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Protobuf messages from a table of their fields, by the package google.protobuf: no generated code and no compiler of .proto files.

A table is ``{message: {field: (number, kind)}}``. A kind is string, bytes, uint32, int64, int32, bool or the name of a message of the
table, with ``*`` behind it where the field is repeated and ``?`` where a scalar can be *missing* as well as *empty*.
"""

from __future__ import annotations

import functools
import typing as t

Table = t.Mapping[str, t.Mapping[str, tuple[int, str]]]

#: A field's type, and its name in descriptors.
_SCALARS = {
    "string": "TYPE_STRING",
    "bytes": "TYPE_BYTES",
    "uint32": "TYPE_UINT32",
    "int64": "TYPE_INT64",
    "int32": "TYPE_INT32",
    "bool": "TYPE_BOOL",
}


class Schema:
    """The message classes of one package of protobuf; made when the first of them is needed. Raises ImportError without google.protobuf."""

    def __init__(self, package: str, table: Table) -> None:
        self.package, self.table = package, table

    @functools.cached_property
    def _classes(self) -> dict[str, t.Any]:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        kinds = descriptor_pb2.FieldDescriptorProto
        file = descriptor_pb2.FileDescriptorProto(
            name=self.package.replace(".", "/") + ".proto", package=self.package, syntax="proto3"
        )
        for name, fields in self.table.items():
            message = file.message_type.add(name=name)
            for field, (number, kind) in fields.items():
                plain = kind.rstrip("*?")
                row = message.field.add(name=field, number=number)
                row.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
                if plain in _SCALARS:
                    row.type = getattr(kinds, _SCALARS[plain])
                else:
                    row.type, row.type_name = kinds.TYPE_MESSAGE, f".{self.package}.{plain}"
                if kind.endswith("?"):
                    row.oneof_index, row.proto3_optional = len(message.oneof_decl), True
                    message.oneof_decl.add(name="_" + field)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file) if not hasattr(pool, "AddSerializedFile") else pool.AddSerializedFile(file.SerializeToString())
        found = {name: pool.FindMessageTypeByName(f"{self.package}.{name}") for name in self.table}
        # the first is of protobuf 3.22 and newer, the second of what Debian 12 has
        if hasattr(message_factory, "GetMessageClass"):
            return {name: message_factory.GetMessageClass(one) for name, one in found.items()}
        factory = message_factory.MessageFactory(pool)
        return {name: factory.GetPrototype(one) for name, one in found.items()}

    def make(self, name: str, **values: t.Any) -> t.Any:
        """A message."""
        return self._classes[name](**values)

    def read(self, name: str, raw: bytes) -> t.Any:
        """A message of its bytes. Raises ValueError for bytes that are none."""
        from google.protobuf.message import DecodeError

        try:
            return self._classes[name].FromString(raw)
        except DecodeError as error:
            raise ValueError(f"bytes are no {name}: {error}") from None
