"""Messages of OTLP for Python: the fields that a test looks at, by their numbers, for protobuf's own classes."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _Field.TYPE_STRING, "bytes": _Field.TYPE_BYTES, "bool": _Field.TYPE_BOOL, "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32, "uint32": _Field.TYPE_UINT32, "fixed64": _Field.TYPE_FIXED64, "fixed32": _Field.TYPE_FIXED32,
    "sfixed64": _Field.TYPE_SFIXED64, "double": _Field.TYPE_DOUBLE,
}
# NUMBER: (NAME, TYPE), of a list with `*` in front of the type.
_MESSAGES = {
    "AnyValue": {1: ("string_value", "string"), 2: ("bool_value", "bool"), 3: ("int_value", "int64"),
                 4: ("double_value", "double")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "Resource": {1: ("attributes", "*KeyValue")},
    "Scope": {1: ("name", "string"), 2: ("version", "string")},
    "Status": {2: ("message", "string"), 3: ("code", "int32")},
    "Span": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes"), 3: ("trace_state", "string"), 4: ("parent_span_id", "bytes"),
             5: ("name", "string"), 6: ("kind", "int32"), 7: ("start", "fixed64"), 8: ("end", "fixed64"),
             9: ("attributes", "*KeyValue"), 15: ("status", "Status"), 16: ("flags", "fixed32")},
    "ScopeSpans": {1: ("scope", "Scope"), 2: ("spans", "*Span"), 3: ("schema_url", "string")},
    "ResourceSpans": {1: ("resource", "Resource"), 2: ("scope_spans", "*ScopeSpans"), 3: ("schema_url", "string")},
    "TraceRequest": {1: ("resource_spans", "*ResourceSpans")},
    "Number": {2: ("start", "fixed64"), 3: ("time", "fixed64"), 4: ("as_double", "double"), 6: ("as_int", "sfixed64"),
               7: ("attributes", "*KeyValue")},
    "Gauge": {1: ("points", "*Number")},
    "Sum": {1: ("points", "*Number"), 2: ("temporality", "int32"), 3: ("is_monotonic", "bool")},
    "HistogramPoint": {2: ("start", "fixed64"), 3: ("time", "fixed64"), 4: ("count", "fixed64"), 5: ("sum", "double"),
                       6: ("bucket_counts", "*fixed64"), 7: ("explicit_bounds", "*double"), 9: ("attributes", "*KeyValue")},
    "Histogram": {1: ("points", "*HistogramPoint"), 2: ("temporality", "int32")},
    "Metric": {1: ("name", "string"), 2: ("description", "string"), 3: ("unit", "string"), 5: ("gauge", "Gauge"),
               7: ("sum", "Sum"), 9: ("histogram", "Histogram")},
    "ScopeMetrics": {1: ("scope", "Scope"), 2: ("metrics", "*Metric"), 3: ("schema_url", "string")},
    "ResourceMetrics": {1: ("resource", "Resource"), 2: ("scope_metrics", "*ScopeMetrics"), 3: ("schema_url", "string")},
    "MetricsRequest": {1: ("resource_metrics", "*ResourceMetrics")},
    "PartialSuccess": {1: ("rejected", "int64"), 2: ("error_message", "string")},
    "Response": {1: ("partial_success", "PartialSuccess")},
}
# Fields of which a message has one, which is then there though it is 0.
_CHOICES = {"AnyValue": ("string_value", "bool_value", "int_value", "double_value"), "Number": ("as_double", "as_int")}
CUMULATIVE, SERVER, ERROR = 2, 2, 2


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package="otlp", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _CHOICES:
            message.oneof_decl.add(name="one")
        for number, (field, kind) in fields.items():
            single = kind.removeprefix("*")
            chosen = field in _CHOICES.get(name, ())
            made = message.field.add(name=field, number=number,
                                     label=_Field.LABEL_REPEATED if kind != single else _Field.LABEL_OPTIONAL)
            if chosen:
                made.oneof_index = 0
            if single in _TYPES:
                made.type = _TYPES[single]
            else:
                made.type, made.type_name = _Field.TYPE_MESSAGE, f".otlp.{single}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _pool()


def _message(name: str):
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"otlp.{name}"))


TraceRequest, MetricsRequest, Response = (_message(name) for name in ("TraceRequest", "MetricsRequest", "Response"))


def read(kind, text: bytes):
    """The message; one with fields that are not in the table above is an error."""
    message = kind.FromString(text)
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise ValueError(f"unknown fields in {kind.DESCRIPTOR.name}")
    return message


def values(attributes) -> dict[str, object]:
    """Attributes as a dictionary; a key that comes twice is an error."""
    found: dict[str, object] = {}
    for one in attributes:
        [(field, value)] = one.value.ListFields()
        if one.key in found:
            raise ValueError(f"{one.key} comes twice")
        found[one.key] = value
    return found
