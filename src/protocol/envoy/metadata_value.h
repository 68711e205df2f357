// A value of JSON, for the metadata of Envoy's rules and the dynamic_metadata of a response, and
// its form as google.protobuf.Struct. Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::envoy {

class MetadataValue;
using MetadataList = std::vector<MetadataValue>;
// Members in order, each key once; keys are UTF-8, as all texts are.
using MetadataMap = std::vector<std::pair<std::string, MetadataValue>>;

// The most levels of nested maps and lists in a rule's metadata, the outermost included; its reader
// refuses more. Envoy reads at most 100 levels of messages, and a level of metadata takes up to
// three of them.
inline constexpr size_t metadata_depth_max = 24;

class MetadataValue {
 public:
  // Null, a boolean, a number, a text, a list, a map.
  using Data = std::variant<std::monostate, bool, double, std::string, MetadataList, MetadataMap>;

  MetadataValue() = default;
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
           std::is_same_v<T, MetadataList> || std::is_same_v<T, MetadataMap>) MetadataValue(T value)
      : data(std::move(value)) {}  // NOLINT: a value is any of them

  friend bool operator==(const MetadataValue&, const MetadataValue&) = default;

  Data data;
};

// Null: the map has no such member.
const MetadataValue* find_member(const MetadataMap& map, std::string_view key);

// The levels of nested maps and lists: 1 for a map without any.
size_t metadata_depth(const MetadataMap& map);

// Adds the members that `into` lacks. A member that is a map in both is merged in the same way; any
// other member of `into`, lists included, stays.
void merge_metadata(const MetadataMap& from, MetadataMap& into);

// The map as a google.protobuf.Struct.
std::string struct_of(const MetadataMap& map);

}  // namespace sluice::envoy
