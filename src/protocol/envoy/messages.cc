#include "protocol/envoy/messages.h"

#include <array>
#include <cstring>
#include <string>

#include "base/utf8.h"
#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

using wire::bytes;
using wire::protobuf_key;
using wire::varint;
using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;

constexpr std::array<std::string_view, 8> unit_names{"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                                     "DAY",     "MONTH",  "YEAR",   "WEEK"};
constexpr std::array<std::string_view, 3> code_names{"UNKNOWN", "OK", "OVER_LIMIT"};

// Reads messages up to the first problem. A field that a message has twice counts as in protobuf:
// the last number or text is kept, messages are merged, lists are joined.
class MessageReader {
 public:
  explicit MessageReader(RateLimitRequest& request) : request_(request) {}

  ReadProblem problem() const { return problem_; }

  void read_request(std::string_view message) {
    read(message, [&](Reader& in, uint32_t key) {
      switch (key) {
        case protobuf_key(1, bytes):
          return read_utf8(in, request_.domain);
        case protobuf_key(2, bytes):
          return read_message(in, [&](std::string_view body) { read_descriptor(body); });
        case protobuf_key(3, varint):
          return read_number(in, request_.hits_addend);
        default:
          return in.skip(key, groups_deep_max);
      }
    });
  }

 private:
  // Calls `read_field` with each key of `message`.
  template <class ReadField>
  void read(std::string_view message, ReadField read_field) {
    for (Reader in(message); !in.at_end();) {
      uint32_t key;
      if (!in.read_key(key) || !read_field(in, key)) {
        set_problem(ReadProblem::malformed);
        return;
      }
    }
  }
  // Keeps the first problem. Returns false.
  bool set_problem(ReadProblem problem) {
    if (problem_ == ReadProblem::none) problem_ = problem;
    return false;
  }

  template <class ReadBody>
  bool read_message(Reader& in, ReadBody read_body) {
    std::string_view body;
    if (!in.read_text(body)) return false;
    read_body(body);
    return problem_ == ReadProblem::none;
  }
  bool read_utf8(Reader& in, std::string_view& text) {
    if (!in.read_text(text)) return false;
    return base::utf8::is_valid(text) || set_problem(ReadProblem::not_utf8);
  }
  template <class Number>  // keeps the low bits
  bool read_number(Reader& in, Number& number) {
    uint64_t wide;
    if (!in.read_number(wide)) return false;
    number = static_cast<Number>(wide);
    return true;
  }
  // A UInt64Value or a UInt32Value.
  template <class Number>
  bool read_wrapper(Reader& in, std::optional<Number>& number) {
    if (!number) number = 0;
    return read_message(in, [&](std::string_view message) {
      read(message, [&](Reader& within, uint32_t key) {
        return key == protobuf_key(1, varint) ? read_number(within, *number)
                                              : within.skip(key, groups_deep_max);
      });
    });
  }

  void read_descriptor(std::string_view message) {
    if (request_.descriptors.size() == request_descriptors_max) {
      set_problem(ReadProblem::too_large);
      return;
    }
    Descriptor descriptor;
    descriptor.first_entry = static_cast<uint32_t>(request_.entries.size());
    read(message, [&](Reader& in, uint32_t key) {
      switch (key) {
        case protobuf_key(1, bytes):
          if (++descriptor.entry_count > descriptor_entries_max ||
              request_.entries.size() == request_entries_max)
            return set_problem(ReadProblem::too_large);
          return read_message(in, [&](std::string_view body) { read_entry(body); });
        case protobuf_key(2, bytes):
          if (!descriptor.limit) descriptor.limit.emplace();
          return read_message(in,
                              [&](std::string_view body) { read_limit(body, *descriptor.limit); });
        case protobuf_key(3, bytes):
          return read_wrapper(in, descriptor.hits_addend);
        case protobuf_key(4, varint): {
          uint64_t flag;
          if (!in.read_number(flag)) return false;
          descriptor.is_negative_hits = flag != 0;
          return true;
        }
        default:
          return in.skip(key, groups_deep_max);
      }
    });
    request_.descriptors.push_back(descriptor);
  }

  void read_entry(std::string_view message) {
    Entry entry;
    read(message, [&](Reader& in, uint32_t key) {
      if (key == protobuf_key(1, bytes)) return read_utf8(in, entry.key);
      if (key == protobuf_key(2, bytes)) return read_utf8(in, entry.value);
      return in.skip(key, groups_deep_max);
    });
    request_.entries.push_back(entry);
  }

  void read_limit(std::string_view message, LimitOverride& limit) {
    read(message, [&](Reader& in, uint32_t key) {
      switch (key) {
        case protobuf_key(1, varint):
          return read_number(in, limit.requests_per_unit);
        case protobuf_key(2, varint): {
          uint32_t unit;
          if (!read_number(in, unit)) return false;
          limit.unit = static_cast<WireUnit>(static_cast<int32_t>(unit));
          return true;
        }
        case protobuf_key(3, bytes):
          return read_wrapper(in, limit.unit_multiplier);
        default:
          return in.skip(key, groups_deep_max);
      }
    });
  }

  RateLimitRequest& request_;
  ReadProblem problem_ = ReadProblem::none;
};

// Negative numbers are sign-extended, so they are ten bytes long.
uint64_t extended(int64_t value) {
  return static_cast<uint64_t>(value);
}
template <class Enumeration>
uint64_t number_of(Enumeration value) {
  return extended(static_cast<int32_t>(value));
}

// The bytes of a number or a text, which is left out if it has its default value.
size_t optional_number_bytes(uint32_t field, uint64_t value) {
  return value == 0 ? 0 : wire::number_bytes(field, value);
}
size_t optional_text_bytes(uint32_t field, std::string_view text) {
  return text.empty() ? 0 : wire::text_bytes(field, text.size());
}

// A writer of messages that leaves out default values.
class MessageWriter {
 public:
  explicit MessageWriter(char* at) : to_(at) {}

  void number(uint32_t field, uint64_t value) {
    if (value != 0) to_.number(field, value);
  }
  void text(uint32_t field, std::string_view text) {
    if (!text.empty()) to_.text(field, text);
  }
  void open(uint32_t field, size_t size) { to_.open(field, size); }
  char* end() const { return to_.end(); }

 private:
  wire::ProtobufWriter to_;
};

size_t multiplier_bytes(const CurrentLimit& limit) {
  return limit.unit_multiplier == 0 ? 0 : wire::number_bytes(1, limit.unit_multiplier);
}

size_t limit_bytes(const CurrentLimit& limit) {
  const size_t multiplier = multiplier_bytes(limit);
  return optional_number_bytes(1, limit.requests_per_unit) +
         optional_number_bytes(2, number_of(limit.unit)) + optional_text_bytes(3, limit.name) +
         (multiplier == 0 ? 0 : wire::text_bytes(4, multiplier));
}

size_t status_bytes(const DescriptorStatus& status) {
  size_t size = optional_number_bytes(1, number_of(status.code)) +
                optional_number_bytes(3, status.limit_remaining);
  if (status.current_limit) size += wire::text_bytes(2, limit_bytes(*status.current_limit));
  if (status.seconds_until_reset)
    size += wire::text_bytes(4, optional_number_bytes(1, extended(*status.seconds_until_reset)));
  return size;
}

size_t header_bytes(const HeaderValue& header) {
  return optional_text_bytes(1, header.key) + optional_text_bytes(2, header.value);
}

void write_status(const DescriptorStatus& status, MessageWriter& to) {
  to.number(1, number_of(status.code));
  if (status.current_limit) {
    const CurrentLimit& limit = *status.current_limit;
    to.open(2, limit_bytes(limit));
    to.number(1, limit.requests_per_unit);
    to.number(2, number_of(limit.unit));
    to.text(3, limit.name);
    if (const size_t size = multiplier_bytes(limit); size != 0) {
      to.open(4, size);
      to.number(1, limit.unit_multiplier);
    }
  }
  to.number(3, status.limit_remaining);
  if (status.seconds_until_reset) {
    const uint64_t seconds = extended(*status.seconds_until_reset);
    to.open(4, optional_number_bytes(1, seconds));
    to.number(1, seconds);
  }
}

}  // namespace

std::string_view unit_name(WireUnit unit) {
  const auto number = static_cast<uint32_t>(unit);
  return number < unit_names.size() ? unit_names[number] : std::string_view();
}

std::string_view code_name(Code code) {
  const auto number = static_cast<uint32_t>(code);
  return number < code_names.size() ? code_names[number] : std::string_view();
}

uint32_t grpc_code(ReadProblem problem) {
  switch (problem) {
    case ReadProblem::none:
      return 0;
    case ReadProblem::too_large:
      return 8;  // RESOURCE_EXHAUSTED
    default:
      return 13;  // INTERNAL
  }
}

std::string_view message_for(ReadProblem problem) {
  switch (problem) {
    case ReadProblem::none:
      return "";
    case ReadProblem::malformed:
      return "grpc: error unmarshalling request: not a protobuf message";
    case ReadProblem::not_utf8:
      return "grpc: error unmarshalling request: string field contains invalid UTF-8";
    default:
      return "the request has more than 4194304 bytes, 1024 descriptors, 16384 entries, or 256 "
             "entries in a descriptor";
  }
}

ReadProblem read_request(std::string_view message, RateLimitRequest& request) {
  request.clear();
  if (message.size() > message_bytes_max) return ReadProblem::too_large;
  MessageReader reader(request);
  reader.read_request(message);
  return reader.problem();
}

void append_response(const RateLimitResponse& response, base::Buffer& out) {
  std::string metadata;
  if (response.dynamic_metadata) metadata = struct_of(*response.dynamic_metadata);
  size_t size = optional_number_bytes(1, number_of(response.overall_code));
  for (const DescriptorStatus& status : response.statuses)
    size += wire::text_bytes(2, status_bytes(status));
  for (const HeaderValue& header : response.response_headers_to_add)
    size += wire::text_bytes(3, header_bytes(header));
  if (response.dynamic_metadata) size += wire::text_bytes(6, metadata.size());

  MessageWriter to(out.prepare(size));
  to.number(1, number_of(response.overall_code));
  for (const DescriptorStatus& status : response.statuses) {
    to.open(2, status_bytes(status));
    write_status(status, to);
  }
  for (const HeaderValue& header : response.response_headers_to_add) {
    to.open(3, header_bytes(header));
    to.text(1, header.key);
    to.text(2, header.value);
  }
  if (response.dynamic_metadata) {
    to.open(6, metadata.size());
    std::memcpy(to.end(), metadata.data(), metadata.size());
  }
  out.commit(size);
}

ReadProblem read_health_request(std::string_view message, std::string_view& service) {
  service = {};
  if (message.size() > message_bytes_max) return ReadProblem::too_large;
  for (Reader in(message); !in.at_end();) {
    uint32_t key;
    if (!in.read_key(key)) return ReadProblem::malformed;
    if (key != protobuf_key(1, bytes)) {
      if (!in.skip(key, groups_deep_max)) return ReadProblem::malformed;
      continue;
    }
    if (!in.read_text(service)) return ReadProblem::malformed;
    if (!base::utf8::is_valid(service)) return ReadProblem::not_utf8;
  }
  return ReadProblem::none;
}

void append_health_response(HealthStatus status, base::Buffer& out) {
  const size_t size = optional_number_bytes(1, number_of(status));
  MessageWriter to(out.prepare(size));
  to.number(1, number_of(status));
  out.commit(size);
}

}  // namespace sluice::envoy
