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

// Writes a google.protobuf.Struct in two steps, measuring first, because lengths precede contents.
class StructWriter {
 public:
  explicit StructWriter(const MetadataMap& map);

  size_t size() const { return sizes_.front(); }
  // Writes size() bytes and returns their end.
  char* write(char* at) const;

 private:
  // Return the size without the argument's own key and length. Each list and map appends its size
  // to sizes_, before the sizes of those within it.
  size_t measure(const MetadataMap& map);
  size_t measure(const MetadataList& list);
  size_t measure(const MetadataValue& value);

  const MetadataMap& map_;
  std::vector<size_t> sizes_;  // of maps and lists, each before what is in it
};

}  // namespace sluice::envoy
