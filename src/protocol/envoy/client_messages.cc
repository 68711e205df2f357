#include "protocol/envoy/client_messages.h"

#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using wire::bytes;
using wire::protobuf_key;
using wire::varint;
using ResponseReader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;

// The most levels of nested unknown groups; a message with more is malformed.
constexpr int response_groups_deep_max = 100;

// Writes a message. A nested message is written separately first, because its length precedes it.
class Message {
 public:
  void number(uint32_t field, uint64_t value) {
    const size_t size = wire::number_bytes(field, value);
    wire::ProtobufWriter(out_.prepare(size)).number(field, value);
    out_.commit(size);
  }
  void optional_number(uint32_t field, uint64_t value) {
    if (value != 0) number(field, value);
  }
  void text(uint32_t field, std::string_view value) {
    const size_t size = wire::text_bytes(field, value.size());
    wire::ProtobufWriter(out_.prepare(size)).text(field, value);
    out_.commit(size);
  }
  void optional_text(uint32_t field, std::string_view value) {
    if (!value.empty()) text(field, value);
  }
  std::string_view view() const { return out_.view(); }

 private:
  base::Buffer out_;
};

void write_wrapper(uint32_t field, uint64_t value, Message& to) {
  Message wrapper;
  wrapper.optional_number(1, value);
  to.text(field, wrapper.view());
}

void write_limit(const LimitOverride& limit, Message& to) {
  Message message;
  message.optional_number(1, limit.requests_per_unit);
  // Negative numbers are sign-extended.
  message.optional_number(2, static_cast<uint64_t>(int64_t{static_cast<int32_t>(limit.unit)}));
  if (limit.unit_multiplier) write_wrapper(3, *limit.unit_multiplier, message);
  to.text(2, message.view());
}

void write_descriptor(const RateLimitRequest& request, const Descriptor& descriptor, Message& to) {
  Message message;
  for (const Entry& entry : request.entries_of(descriptor)) {
    Message pair;
    pair.optional_text(1, entry.key);
    pair.optional_text(2, entry.value);
    message.text(1, pair.view());
  }
  if (descriptor.limit) write_limit(*descriptor.limit, message);
  if (descriptor.hits_addend) write_wrapper(3, *descriptor.hits_addend, message);
  message.optional_number(4, descriptor.is_negative_hits ? 1 : 0);
  to.text(2, message.view());
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
  Message message;
  message.optional_text(1, request.domain);
  for (const Descriptor& descriptor : request.descriptors)
    write_descriptor(request, descriptor, message);
  message.optional_number(3, request.hits_addend);
  out.append(message.view());
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
