#include "redis/cluster_map.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "base/bounds.h"
#include "base/hash.h"

namespace sluice::redis {

namespace {

// crc_tables[k][b]: the CRC of the byte b and k zero bytes after it. With four tables the bytes of
// a key are taken four at a time, which divides the time of a long key by three.
using CrcTables = std::array<std::array<uint16_t, 256>, 4>;
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (unsigned i = 0; i < 256; ++i) {
    unsigned crc = i << 8;
    for (std::array<uint16_t, 256>& table : tables) {
      for (int bit = 0; bit < 8; ++bit)
        crc = ((crc & 0x8000u) != 0 ? crc << 1 ^ 0x1021u : crc << 1) & 0xFFFFu;
      table[i] = static_cast<uint16_t>(crc);
    }
  }
  return tables;
}
constexpr CrcTables crc_tables = make_crc_tables();

uint16_t crc16(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  unsigned crc = 0;
  size_t i = 0;
  for (; i + 4 <= text.size(); i += 4)
    crc = static_cast<unsigned>(crc_tables[3][crc >> 8 ^ byte(i)] ^
                                crc_tables[2][(crc & 0xFFu) ^ byte(i + 1)] ^
                                crc_tables[1][byte(i + 2)] ^ crc_tables[0][byte(i + 3)]);
  for (; i < text.size(); ++i) crc = (crc << 8 & 0xFFFFu) ^ crc_tables[0][crc >> 8 ^ byte(i)];
  return static_cast<uint16_t>(crc);
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

uint16_t slot_of(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) & (slot_count - 1);
}

void append_tag(std::string& out, std::string_view actor) {
  constexpr std::string_view digits = "0123456789abcdef";
  const uint64_t hash = base::digest(actor);
  out += '{';
  for (int shift = 28; shift >= 0; shift -= 4) out += digits[hash >> shift & 15];
  out += '}';
}

std::string_view without_tag(std::string_view text) {
  if (text.size() < tag_size || text.front() != '{' || text[tag_size - 1] != '}') return text;
  const std::string_view digits = text.substr(1, tag_size - 2);
  return std::ranges::all_of(digits, is_hex) ? text.substr(tag_size) : text;
}

namespace {

// Slots from the first to the last.
struct SlotRange {
  uint16_t first = 0, last = 0;
  Node node;
  bool failed = false;
};

std::span<redisReply* const> elements_of(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, reply.elements};
}

std::string_view words_of(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_STATUS) return {};
  return {reply.str, static_cast<size_t>(reply.len)};
}

// A slot's number, or a port's.
std::optional<uint16_t> small_number(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_INTEGER || reply.integer < 0 || reply.integer > UINT16_MAX)
    return std::nullopt;
  return static_cast<uint16_t>(reply.integer);
}

template <class Integer>
std::optional<Integer> parse(std::string_view text) {
  Integer number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// An empty host means the host that was asked; `?` means that the host is not known.
std::string host_or(std::string_view text, const std::string& asked) {
  if (text.empty()) return asked;
  return text == "?" ? std::string() : std::string(text);
}

std::optional<ClusterMap> map_of(std::vector<SlotRange> ranges) {
  std::ranges::sort(ranges, {}, &SlotRange::first);
  ClusterMap map;
  map.owners.assign(slot_count, ClusterMap::no_owner);
  for (const SlotRange& range : ranges) {
    if (range.last >= slot_count || range.first > range.last) return std::nullopt;
    if (range.node.host.empty() || range.node.port == 0) continue;  // its address is not known
    auto at = std::ranges::find(map.primaries, range.node);
    if (at == map.primaries.end()) {
      if (map.primaries.size() == base::bounds::redis_primaries_max) return std::nullopt;
      at = map.primaries.insert(map.primaries.end(), range.node);
      if (range.failed) map.failed.push_back(range.node);
    }
    std::fill(map.owners.begin() + range.first, map.owners.begin() + range.last + 1,
              static_cast<uint16_t>(at - map.primaries.begin()));
  }
  return map;
}

// One of the `nodes` of a shard, given as names and values in turn.
struct ShardNode {
  Node node;
  bool primary = false, online = false, failed = false;
};

ShardNode read_shard_node(const redisReply& reply, const std::string& host, bool tls) {
  ShardNode out;
  const auto all = elements_of(reply);
  std::string_view endpoint, ip;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    const std::string_view name = words_of(*all[i]);
    const redisReply& value = *all[i + 1];
    if (name == "endpoint") endpoint = words_of(value);
    if (name == "ip") ip = words_of(value);
    if (name == (tls ? "tls-port" : "port")) out.node.port = small_number(value).value_or(0);
    if (name == "role") out.primary = words_of(value) == "master";
    if (name == "health") {
      out.online = words_of(value) == "online";
      out.failed = words_of(value).starts_with("fail");  // a node that is loading has not failed
    }
  }
  out.node.host = host_or(endpoint == "?" ? ip : endpoint, host);
  return out;
}

// Adds the slots of a shard. False: the reply is not a shard.
bool add_shard(std::vector<SlotRange>& ranges, const redisReply& reply, const std::string& host,
               bool tls) {
  const auto all = elements_of(reply);
  std::span<redisReply*const> slots, nodes;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    if (words_of(*all[i]) == "slots") slots = elements_of(*all[i + 1]);
    if (words_of(*all[i]) == "nodes") nodes = elements_of(*all[i + 1]);
  }
  if (all.empty() || slots.size() % 2 != 0) return false;
  std::optional<ShardNode> primary;
  for (const redisReply* const one : nodes) {
    ShardNode node = read_shard_node(*one, host, tls);
    // During a failover there may be two primaries.
    if (node.primary && (!primary || node.online)) primary = std::move(node);
  }
  for (size_t i = 0; i + 1 < slots.size(); i += 2) {
    const auto first = small_number(*slots[i]), last = small_number(*slots[i + 1]);
    if (!first || !last) return false;
    if (primary) ranges.push_back({*first, *last, primary->node, primary->failed});
  }
  return true;
}

}  // namespace

size_t ClusterMap::covered() const {
  return owners.size() -
         static_cast<size_t>(std::count(owners.begin(), owners.end(), uint16_t{no_owner}));
}

std::optional<ClusterMap> read_shards(const redisReply& reply, const std::string& host, bool tls) {
  if (reply.type != REDIS_REPLY_ARRAY) return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const redisReply* const shard : elements_of(reply))
    if (!add_shard(ranges, *shard, host, tls)) return std::nullopt;
  return map_of(std::move(ranges));
}

std::optional<ClusterMap> read_slots(const redisReply& reply, const std::string& host) {
  if (reply.type != REDIS_REPLY_ARRAY) return std::nullopt;
  std::vector<SlotRange> ranges;
  for (const redisReply* const one : elements_of(reply)) {
    const auto parts = elements_of(*one);
    if (parts.size() < 3) return std::nullopt;
    const auto first = small_number(*parts[0]), last = small_number(*parts[1]);
    const auto node = elements_of(*parts[2]);  // the primary stands first
    if (!first || !last || node.size() < 2) return std::nullopt;
    ranges.push_back(
        {*first, *last, {host_or(words_of(*node[0]), host), small_number(*node[1]).value_or(0)}});
  }
  return map_of(std::move(ranges));
}

ClusterState read_state(std::string_view info) {
  ClusterState state;
  while (!info.empty()) {
    const size_t end = std::min(info.find('\n'), info.size());
    std::string_view line = info.substr(0, end);
    info.remove_prefix(std::min(end + 1, info.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line == "cluster_state:ok") state.ok = true;
    constexpr std::string_view epoch = "cluster_current_epoch:";
    if (line.starts_with(epoch))
      state.epoch = parse<uint64_t>(line.substr(epoch.size())).value_or(0);
  }
  return state;
}

std::optional<Redirect> redirect_of(std::string_view error, const std::string& host) {
  Redirect redirect;
  if (error.starts_with("MOVED ")) {
    error.remove_prefix(6);
  } else if (error.starts_with("ASK ")) {
    redirect.ask = true;
    error.remove_prefix(4);
  } else {
    return std::nullopt;
  }
  const size_t blank = error.find(' '), colon = error.rfind(':');
  if (blank == std::string_view::npos || colon == std::string_view::npos || colon < blank)
    return std::nullopt;
  const auto slot = parse<uint16_t>(error.substr(0, blank));
  const auto port = parse<uint16_t>(error.substr(colon + 1));
  if (!slot || *slot >= slot_count || !port || *port == 0) return std::nullopt;
  redirect.slot = *slot;
  redirect.node = {host_or(error.substr(blank + 1, colon - blank - 1), host), *port};
  return redirect;
}

std::optional<ClusterMap> moved(const ClusterMap& map, const Redirect& redirect) {
  const Node* const owner = map.owner_of(redirect.slot);
  if (redirect.node.host.empty() || (owner != nullptr && *owner == redirect.node))
    return std::nullopt;
  ClusterMap next = map;
  if (next.owners.empty()) next.owners.assign(slot_count, ClusterMap::no_owner);
  auto at = std::ranges::find(next.primaries, redirect.node);
  if (at == next.primaries.end()) {
    if (next.primaries.size() == base::bounds::redis_primaries_max) return std::nullopt;
    at = next.primaries.insert(next.primaries.end(), redirect.node);
  }
  next.owners[redirect.slot] = static_cast<uint16_t>(at - next.primaries.begin());
  return next;
}

}  // namespace sluice::redis
