#include "protocol/envoy/client_messages.h"

#include <string>

#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using wire::bytes;
using wire::protobuf_key;
using wire::varint;
using ResponseReader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;

// The most levels of nested unknown groups; a message with more is malformed.
constexpr int response_groups_deep_max = 100;

void append_unless_zero(uint32_t field, uint64_t value, std::string& to) {
  if (value != 0) wire::append_number(field, value, to);
}
void append_unless_empty(uint32_t field, std::string_view value, std::string& to) {
  if (!value.empty()) wire::append_text(field, value, to);
}

void append_wrapper(uint32_t field, uint64_t value, std::string& to) {
  std::string wrapper;
  append_unless_zero(1, value, wrapper);
  wire::append_text(field, wrapper, to);
}

void append_limit(const LimitOverride& limit, std::string& to) {
  std::string message;
  append_unless_zero(1, limit.requests_per_unit, message);
  // Negative numbers are sign-extended.
  append_unless_zero(2, static_cast<uint64_t>(int64_t{static_cast<int32_t>(limit.unit)}), message);
  if (limit.unit_multiplier) append_wrapper(3, *limit.unit_multiplier, message);
  wire::append_text(2, message, to);
}

void append_descriptor(const RateLimitRequest& request, const Descriptor& descriptor,
                       std::string& to) {
  std::string message;
  for (const Entry& entry : request.entries_of(descriptor)) {
    std::string pair;
    append_unless_empty(1, entry.key, pair);
    append_unless_empty(2, entry.value, pair);
    wire::append_text(1, pair, message);
  }
  if (descriptor.limit) append_limit(*descriptor.limit, message);
  if (descriptor.hits_addend) append_wrapper(3, *descriptor.hits_addend, message);
  append_unless_zero(4, descriptor.is_negative_hits ? 1 : 0, message);
  wire::append_text(2, message, to);
}

// Calls `read_field` with each key of `message`. False: the message is malformed.
template <class ReadField>
bool read_fields(std::string_view message, ReadField read_field) {
  for (ResponseReader in(message); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key) || !read_field(in, key)) return false;
  }
  return true;
}

template <class ReadMessage>
bool read_within(ResponseReader& in, ReadMessage read_message) {
  std::string_view body;
  return in.read_text(body) && read_message(body);
}

bool pass_over(ResponseReader& in, uint32_t key) {
  return in.skip(key, response_groups_deep_max);
}

template <class Number>  // keeps the low bits
bool read_low_bits(ResponseReader& in, Number& number) {
  uint64_t wide;
  if (!in.read_number(wide)) return false;
  number = static_cast<Number>(wide);
  return true;
}

bool read_text_copy(ResponseReader& in, std::string& text) {
  std::string_view view;
  if (!in.read_text(view)) return false;
  text = view;
  return true;
}

bool read_current_limit(std::string_view message, CurrentLimit& limit) {
  return read_fields(message, [&](ResponseReader& in, uint32_t key) {
    switch (key) {
      case protobuf_key(1, varint):
        return read_low_bits(in, limit.requests_per_unit);
      case protobuf_key(2, varint):
        return read_low_bits(in, limit.unit);
      case protobuf_key(3, bytes):
        return in.read_text(limit.name);
      case protobuf_key(4, bytes):
        return read_within(in, [&](std::string_view wrapper) {
          return read_fields(wrapper, [&](ResponseReader& within, uint32_t inner) {
            return inner == protobuf_key(1, varint) ? read_low_bits(within, limit.unit_multiplier)
                                                    : pass_over(within, inner);
          });
        });
      default:
        return pass_over(in, key);
    }
  });
}

bool read_duration(std::string_view message, int64_t& seconds) {
  return read_fields(message, [&](ResponseReader& in, uint32_t key) {
    return key == protobuf_key(1, varint) ? read_low_bits(in, seconds) : pass_over(in, key);
  });
}

bool read_status(std::string_view message, DescriptorStatus& status) {
  return read_fields(message, [&](ResponseReader& in, uint32_t key) {
    switch (key) {
      case protobuf_key(1, varint):
        return read_low_bits(in, status.code);
      case protobuf_key(2, bytes):
        if (!status.current_limit) status.current_limit.emplace();
        return read_within(in, [&](std::string_view body) {
          return read_current_limit(body, *status.current_limit);
        });
      case protobuf_key(3, varint):
        return read_low_bits(in, status.limit_remaining);
      case protobuf_key(4, bytes):
        if (!status.seconds_until_reset) status.seconds_until_reset = 0;
        return read_within(in, [&](std::string_view body) {
          return read_duration(body, *status.seconds_until_reset);
        });
      default:
        return pass_over(in, key);
    }
  });
}

bool read_header(std::string_view message, HeaderValue& header) {
  return read_fields(message, [&](ResponseReader& in, uint32_t key) {
    if (key == protobuf_key(1, bytes)) return in.read_text(header.key);
    if (key == protobuf_key(2, bytes)) return read_text_copy(in, header.value);
    return pass_over(in, key);
  });
}

}  // namespace

void append_request(const RateLimitRequest& request, base::Buffer& out) {
  std::string message;
  append_unless_empty(1, request.domain, message);
  for (const Descriptor& descriptor : request.descriptors)
    append_descriptor(request, descriptor, message);
  append_unless_zero(3, request.hits_addend, message);
  out.append(message);
}

bool read_response(std::string_view message, RateLimitResponse& response) {
  response.clear();
  if (message.size() > message_bytes_max) return false;
  return read_fields(message, [&](ResponseReader& in, uint32_t key) {
    switch (key) {
      case protobuf_key(1, varint):
        return read_low_bits(in, response.overall_code);
      case protobuf_key(2, bytes):
        return read_within(in, [&](std::string_view body) {
          return read_status(body, response.statuses.emplace_back());
        });
      case protobuf_key(3, bytes):
        return read_within(in, [&](std::string_view body) {
          return read_header(body, response.response_headers_to_add.emplace_back());
        });
      default:
        return pass_over(in, key);
    }
  });
}

}  // namespace sluice::envoy
