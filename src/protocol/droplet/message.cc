#include "protocol/droplet/message.h"

#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/bounds.h"
#include "base/check.h"

namespace sluice::droplet {
namespace {

using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// A tag is a field's number and one of these in its low three bits.
enum WireType : uint32_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  group = 3,
  group_end = 4,
  fixed32 = 5
};

// Unknown groups within each other. Past it: not a request.
constexpr int groups_deep_max = 100;

// A length, and as many bytes. Of a length beyond 32 bits the low ones count, as of every number.
bool read_bytes(CodedInputStream& in, std::string_view& to) {
  uint32_t size = 0;
  if (!in.ReadVarint32(&size)) return false;
  const void* data = nullptr;
  int left = 0;
  in.GetDirectBufferPointerInline(&data, &left);
  if (size > static_cast<uint32_t>(left)) return false;
  to = {static_cast<const char*>(data), size};
  return in.Skip(static_cast<int>(size));
}

bool skip(CodedInputStream& in, uint32_t tag, int groups_left) {
  switch (tag & 7) {
    case varint: {
      uint64_t value = 0;
      return in.ReadVarint64(&value);
    }
    case fixed64:
      return in.Skip(8);
    case fixed32:
      return in.Skip(4);
    case bytes: {
      std::string_view ignored;
      return read_bytes(in, ignored);
    }
    case group: {
      if (groups_left == 0) return false;
      uint32_t inner = 0;
      while (in.ReadVarint32(&inner)) {
        if ((inner & 7) == group_end) return inner >> 3 == tag >> 3;
        if (!skip(in, inner, groups_left - 1)) return false;
      }
      return false;
    }
    default:
      return false;
  }
}

}  // namespace

bool read_droplet_request(std::string_view message, DropletRequest& request) {
  SLUICE_CHECK(message.size() <= base::bounds::websocket_message_bytes_max);
  request = {};
  const auto size = static_cast<int>(message.size());
  CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()), size);
  bool has_bucket = false, has_id = false;
  while (in.CurrentPosition() < size) {
    uint32_t tag = 0;
    if (!in.ReadVarint32(&tag)) return false;
    const uint32_t field = tag >> 3;
    if (field == 1 || field == 2) {
      if ((tag & 7) != bytes || !read_bytes(in, field == 1 ? request.bucket : request.id))
        return false;
      (field == 1 ? has_bucket : has_id) = true;
    } else if (field >= 3 && field <= 11) {
      uint32_t value = 0;
      if ((tag & 7) != varint || !in.ReadVarint32(&value)) return false;
      if (field == 3) {
        request.count = static_cast<int32_t>(value);
      } else if (field == 4) {
        request.reset = value != 0;
      } else if (field == 11) {
        request.type = value;
      } else {
        request.limits[field - 5] = value;
      }
    } else if (!skip(in, tag, groups_deep_max)) {
      return false;
    }
  }
  return has_bucket && has_id;
}

size_t write_droplet_response(bool accept, uint32_t slot_mask,
                              std::span<const limit::Decision> slots, char* out) {
  SLUICE_CHECK(slot_mask >> droplet_windows.size() == 0);
  SLUICE_CHECK(static_cast<size_t>(std::popcount(slot_mask)) == slots.size());
  auto* const begin = reinterpret_cast<uint8_t*>(out);
  uint8_t* at = begin;
  *at++ = 1 << 3 | varint;
  *at++ = accept;
  for (const limit::Decision& decision : slots) {
    const auto window = static_cast<uint32_t>(std::countr_zero(slot_mask));
    slot_mask &= slot_mask - 1;
    *at++ = static_cast<uint8_t>((window + 2) << 3 | varint);
    const int64_t shown =
        std::clamp<int64_t>(decision.remaining, std::numeric_limits<int32_t>::min(),
                            std::numeric_limits<int32_t>::max());
    at = CodedOutputStream::WriteVarint32SignExtendedToArray(static_cast<int32_t>(shown), at);
  }
  return static_cast<size_t>(at - begin);
}

}  // namespace sluice::droplet
