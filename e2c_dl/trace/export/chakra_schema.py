"""The messages of a Chakra execution trace, as far as one is written: MLCommons' et_def.proto, by number.

Source: github.com/mlcommons/chakra, schema/protobuf/et_def.proto (package ChakraProtoMsg).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from e2c_dl.trace.model import Collective


class NodeType(IntEnum):
    """What a node is."""

    METADATA = 1
    COMPUTE = 4
    SEND = 5
    RECEIVE = 6
    COLLECTIVE = 7


COMM_TYPES = {
    Collective.ALL_REDUCE: 0,
    Collective.REDUCE: 1,
    Collective.ALL_GATHER: 2,
    Collective.GATHER: 3,
    Collective.SCATTER: 4,
    Collective.BROADCAST: 5,
    Collective.ALL_TO_ALL: 6,
    Collective.REDUCE_SCATTER: 7,
    Collective.BARRIER: 9,
}
"""CollectiveCommType; it has none for OTHER."""

_FIELD = descriptor_pb2.FieldDescriptorProto
_INT32, _INT64, _UINT64, _BOOL, _STRING = (
    _FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT64, _FIELD.TYPE_BOOL, _FIELD.TYPE_STRING,
)  # fmt: skip
_MESSAGES: dict[str, tuple[tuple[str, int, Any, bool], ...]] = {  # name -> (field, number, type, repeated)
    "AttributeProto": (
        ("name", 1, _STRING, False),
        ("int32_val", 7, _INT32, False),
        ("int64_val", 9, _INT64, False),
        ("bool_val", 27, _BOOL, False),
        ("string_val", 29, _STRING, False),
    ),
    "GlobalMetadata": (("version", 1, _STRING, False), ("attr", 2, ".ChakraProtoMsg.AttributeProto", True)),
    "Node": (
        ("id", 1, _UINT64, False),
        ("name", 2, _STRING, False),
        ("type", 3, _INT32, False),  # an enum: the same on the wire
        ("ctrl_deps", 4, _UINT64, True),
        ("data_deps", 5, _UINT64, True),
        ("start_time_micros", 6, _UINT64, False),
        ("duration_micros", 7, _UINT64, False),
        ("attr", 10, ".ChakraProtoMsg.AttributeProto", True),
    ),
}


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="e2c_dl_chakra.proto", package="ChakraProtoMsg", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            one = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = _FIELD.TYPE_MESSAGE, kind
            else:
                one.type = kind
    _oneof(file.message_type[0])
    pool = descriptor_pool.DescriptorPool()  # its own: Chakra's package may be loaded, too
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}") for name in _MESSAGES)
    return {one.name: message_factory.GetMessageClass(one) for one in found}


def _oneof(attribute: descriptor_pb2.DescriptorProto) -> None:
    """Its value is one of the fields, so that 0 and False are written, too."""
    attribute.oneof_decl.add(name="value")
    for field in attribute.field:
        if field.name != "name":
            field.oneof_index = 0


_BY_NAME = _classes()
Attribute, Metadata, Node = _BY_NAME["AttributeProto"], _BY_NAME["GlobalMetadata"], _BY_NAME["Node"]
