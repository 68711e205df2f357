#include "protocol/envoy/metadata_value.h"

#include <algorithm>
#include <cstdint>

#include "wire/protobuf.h"

namespace sluice::envoy {
namespace {

// Fields of Struct, of an entry of its map, of ListValue, and of Value.
enum StructField : uint32_t { struct_entry = 1 };
enum EntryField : uint32_t { entry_key = 1, entry_value = 2 };
enum ListField : uint32_t { list_item = 1 };
enum ValueField : uint32_t {
  null_value = 1,
  number_value = 2,
  string_value = 3,
  bool_value = 4,
  struct_value = 5,
  list_value = 6
};

size_t depth_of(const MetadataValue& value) {
  if (const auto* const map = std::get_if<MetadataMap>(&value.data)) return metadata_depth(*map);
  const auto* const list = std::get_if<MetadataList>(&value.data);
  if (list == nullptr) return 0;
  size_t below = 0;
  for (const MetadataValue& item : *list) below = std::max(below, depth_of(item));
  return below + 1;
}

// The message of a value.
std::string message_of(const MetadataValue& value) {
  std::string to;
  if (const auto* const truth = std::get_if<bool>(&value.data)) {
    wire::append_number(bool_value, *truth, to);
  } else if (const auto* const number = std::get_if<double>(&value.data)) {
    wire::append_double(number_value, *number, to);
  } else if (const auto* const text = std::get_if<std::string>(&value.data)) {
    wire::append_text(string_value, *text, to);
  } else if (const auto* const list = std::get_if<MetadataList>(&value.data)) {
    std::string items;
    for (const MetadataValue& item : *list) wire::append_text(list_item, message_of(item), items);
    wire::append_text(list_value, items, to);
  } else if (const auto* const map = std::get_if<MetadataMap>(&value.data)) {
    wire::append_text(struct_value, struct_of(*map), to);
  } else {
    wire::append_number(null_value, 0, to);
  }
  return to;
}

}  // namespace

const MetadataValue* find_member(const MetadataMap& map, std::string_view key) {
  const auto at = std::ranges::find(map, key, &MetadataMap::value_type::first);
  return at == map.end() ? nullptr : &at->second;
}

size_t metadata_depth(const MetadataMap& map) {
  size_t below = 0;
  for (const auto& [key, value] : map) below = std::max(below, depth_of(value));
  return below + 1;
}

void merge_metadata(const MetadataMap& from, MetadataMap& into) {
  for (const auto& member : from) {
    const auto at = std::ranges::find(into, member.first, &MetadataMap::value_type::first);
    if (at == into.end()) {
      into.push_back(member);
      continue;
    }
    const auto* const more = std::get_if<MetadataMap>(&member.second.data);
    auto* const there = std::get_if<MetadataMap>(&at->second.data);
    if (more != nullptr && there != nullptr) merge_metadata(*more, *there);
  }
}

std::string struct_of(const MetadataMap& map) {
  std::string to;
  for (const auto& [key, value] : map) {
    std::string entry;
    wire::append_text(entry_key, key, entry);
    wire::append_text(entry_value, message_of(value), entry);
    wire::append_text(struct_entry, entry, to);
  }
  return to;
}

}  // namespace sluice::envoy
