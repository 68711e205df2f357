#include "protocol/envoy/metadata_value.h"

#include <algorithm>
#include <bit>
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

size_t entry_bytes(std::string_view key, size_t value_size) {
  return wire::text_bytes(entry_key, key.size()) + wire::text_bytes(entry_value, value_size);
}

// The size of a value's message; `inner`: the size of its list or map.
size_t value_bytes(const MetadataValue& value, size_t inner) {
  switch (value.data.index()) {
    case 2:
      return 1 + sizeof(double);
    case 3:
      return wire::text_bytes(string_value, std::get<std::string>(value.data).size());
    case 4:
    case 5:
      return wire::text_bytes(list_value, inner);
    default:  // null or a boolean
      return 2;
  }
}

bool is_container(const MetadataValue& value) {
  return std::holds_alternative<MetadataList>(value.data) ||
         std::holds_alternative<MetadataMap>(value.data);
}

// Writes a struct by the sizes that StructWriter has measured, from `size` on.
class Output {
 public:
  Output(char* at, const size_t* size) : to_(at), size_(size) {}

  void write(const MetadataMap& map) {
    ++size_;
    for (const auto& [key, value] : map) {
      const size_t value_size = size_of(value);
      to_.open(struct_entry, entry_bytes(key, value_size));
      to_.text(entry_key, key);
      to_.open(entry_value, value_size);
      write(value);
    }
  }
  char* end() const { return to_.end(); }

 private:
  size_t size_of(const MetadataValue& value) const {
    return value_bytes(value, is_container(value) ? *size_ : 0);
  }
  void write(const MetadataList& list) {
    ++size_;
    for (const MetadataValue& item : list) {
      to_.open(list_item, size_of(item));
      write(item);
    }
  }
  void write(const MetadataValue& value) {
    if (const auto* const truth = std::get_if<bool>(&value.data)) {
      to_.number(bool_value, *truth);
    } else if (const auto* const number = std::get_if<double>(&value.data)) {
      to_.fixed64(number_value, std::bit_cast<uint64_t>(*number));
    } else if (const auto* const text = std::get_if<std::string>(&value.data)) {
      to_.text(string_value, *text);
    } else if (const auto* const list = std::get_if<MetadataList>(&value.data)) {
      to_.open(list_value, *size_);
      write(*list);
    } else if (const auto* const map = std::get_if<MetadataMap>(&value.data)) {
      to_.open(struct_value, *size_);
      write(*map);
    } else {
      to_.number(null_value, 0);
    }
  }

  wire::ProtobufWriter to_;
  const size_t* size_;  // of the next list or map
};

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

StructWriter::StructWriter(const MetadataMap& map) : map_(map) {
  measure(map);
}

size_t StructWriter::measure(const MetadataMap& map) {
  const size_t place = sizes_.size();
  sizes_.push_back(0);
  size_t size = 0;
  for (const auto& [key, value] : map)
    size += wire::text_bytes(struct_entry, entry_bytes(key, measure(value)));
  return sizes_[place] = size;
}

size_t StructWriter::measure(const MetadataList& list) {
  const size_t place = sizes_.size();
  sizes_.push_back(0);
  size_t size = 0;
  for (const MetadataValue& item : list) size += wire::text_bytes(list_item, measure(item));
  return sizes_[place] = size;
}

size_t StructWriter::measure(const MetadataValue& value) {
  size_t inner = 0;
  if (const auto* const list = std::get_if<MetadataList>(&value.data)) inner = measure(*list);
  if (const auto* const map = std::get_if<MetadataMap>(&value.data)) inner = measure(*map);
  return value_bytes(value, inner);
}

char* StructWriter::write(char* at) const {
  Output out(at, sizes_.data());
  out.write(map_);
  return out.end();
}

}  // namespace sluice::envoy
