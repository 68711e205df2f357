#include "protocol/resp/reply_value.h"

namespace sluice::resp {
namespace {

using wire::RespItem;

bool build(wire::RespItems& items, RespValue& value, unsigned depth) {
  RespItem item;
  if (depth > resp_depth_max || !items.next(item)) return false;
  while (item.kind == RespItem::Kind::attributes) {
    RespValue left_out;
    for (size_t i = 0; i < 2 * item.count; ++i)
      if (!build(items, left_out, depth + 1)) return false;
    if (!items.next(item)) return false;
  }
  value = {item.kind, std::string(item.text), item.number, item.real, {}};
  const bool is_map = item.kind == RespItem::Kind::map;
  if (!is_map && item.kind != RespItem::Kind::list) return true;
  value.items.resize(is_map ? 2 * item.count : item.count);
  for (RespValue& one : value.items)
    if (!build(items, one, depth + 1)) return false;
  return true;
}

}  // namespace

std::optional<RespValue> resp_value(std::string_view bytes) {
  wire::RespItems items(bytes);
  RespValue value;
  if (!build(items, value, 0)) return std::nullopt;
  return value;
}

}  // namespace sluice::resp
