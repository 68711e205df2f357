#include "protocol/droplet/message.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/bounds.h"
#include "base/check.h"
#include "wire/protobuf.h"

namespace sluice::droplet {
namespace {

using wire::bytes;
using wire::varint;

// As in droplet, only the low 32 bits of a number count, also of a key or a length.
using Reader = wire::ProtobufReader<uint32_t>;

enum RequestField : uint32_t {
  bucket_field = 1,
  id_field,
  count_field,
  reset_field,
  limits_field,
  type_field = 11
};
enum ResponseField : uint32_t { accept_field = 1, left_field };

// The most unknown groups nested within each other. Beyond it the bytes are not a request.
constexpr int groups_deep_max = 100;

// Negative values are sign-extended, so they take ten bytes.
uint64_t extended(int64_t value) {
  return static_cast<uint64_t>(value);
}

}  // namespace

bool read_droplet_request(std::string_view message, DropletRequest& request) {
  SLUICE_CHECK(message.size() <= base::bounds::websocket_message_bytes_max);
  request = {};
  bool has_bucket = false, has_id = false;
  for (Reader in(message); !in.at_end();) {
    uint32_t tag = 0;
    if (!in.read_number(tag)) return false;
    const uint32_t field = tag >> 3;
    if (field == bucket_field || field == id_field) {
      if ((tag & 7) != bytes || !in.read_text(field == bucket_field ? request.bucket : request.id))
        return false;
      (field == bucket_field ? has_bucket : has_id) = true;
    } else if (field >= count_field && field <= type_field) {
      uint32_t value = 0;
      if ((tag & 7) != varint || !in.read_number(value)) return false;
      if (field == count_field) {
        request.count = static_cast<int32_t>(value);
      } else if (field == reset_field) {
        request.reset = value != 0;
      } else if (field == type_field) {
        request.type = value;
      } else {
        request.limits[field - limits_field] = value;
      }
    } else if (!in.skip(tag, groups_deep_max)) {
      return false;
    }
  }
  return has_bucket && has_id;
}

void append_droplet_request(const DropletRequest& request, base::Buffer& out) {
  constexpr size_t number_bytes_max = 1 + 10;
  constexpr size_t numbers_bytes_max = (type_field - count_field + 1) * number_bytes_max;
  const size_t room = wire::text_bytes(bucket_field, request.bucket.size()) +
                      wire::text_bytes(id_field, request.id.size()) + numbers_bytes_max;
  char* const begin = out.prepare(room);
  wire::ProtobufWriter to(begin);
  to.text(bucket_field, request.bucket);
  to.text(id_field, request.id);
  if (request.count != 1) to.number(count_field, extended(request.count));
  if (request.reset) to.number(reset_field, 1);
  for (uint32_t i = 0; i < request.limits.size(); ++i)
    if (request.limits[i] != 0) to.number(limits_field + i, request.limits[i]);
  if (request.type != 0) to.number(type_field, request.type);
  out.commit(static_cast<size_t>(to.end() - begin));
}

bool read_droplet_response(std::string_view message, DropletResponse& response) {
  response = {};
  bool has_accept = false;
  for (Reader in(message); !in.at_end();) {
    uint32_t tag = 0, value = 0;
    if (!in.read_number(tag)) return false;
    const uint32_t field = tag >> 3;
    if (field < accept_field || field >= left_field + response.left.size()) {
      if (!in.skip(tag, groups_deep_max)) return false;
      continue;
    }
    if ((tag & 7) != varint || !in.read_number(value)) return false;
    if (field == accept_field) {
      has_accept = true;
      response.accept = value != 0;
    } else {
      response.left[field - left_field] = static_cast<int32_t>(value);
    }
  }
  return has_accept;
}

size_t write_droplet_response(bool accept, uint32_t slot_mask,
                              std::span<const limit::Decision> slots, char* out) {
  SLUICE_CHECK(slot_mask >> droplet_windows.size() == 0);
  SLUICE_CHECK(static_cast<size_t>(std::popcount(slot_mask)) == slots.size());
  wire::ProtobufWriter to(out);
  to.number(accept_field, accept);
  for (const limit::Decision& decision : slots) {
    const auto window = static_cast<uint32_t>(std::countr_zero(slot_mask));
    slot_mask &= slot_mask - 1;
    const int64_t shown =
        std::clamp<int64_t>(decision.remaining, std::numeric_limits<int32_t>::min(),
                            std::numeric_limits<int32_t>::max());
    to.number(left_field + window, extended(shown));
  }
  return static_cast<size_t>(to.end() - out);
}

}  // namespace sluice::droplet
