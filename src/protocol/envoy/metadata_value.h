// A value as JSON has it: the metadata of Envoy's rules and the dynamic_metadata of a response,
// with its form as google.protobuf.Struct. Plain values; any thread.
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

// Maps and lists within each other, the outermost included, that a rule's metadata may have. Envoy
// reads messages at most 100 deep, and a level is up to three of them. Who loads metadata refuses
// what is deeper.
inline constexpr size_t metadata_depth_max = 24;

class MetadataValue {
 public:
  // Null, a truth value, a number, a text, a list, a map.
  using Data = std::variant<std::monostate, bool, double, std::string, MetadataList, MetadataMap>;

  MetadataValue() = default;
  template <class T>
  requires(std::is_same_v<T, bool> || std::is_same_v<T, double> || std::is_same_v<T, std::string> ||
           std::is_same_v<T, MetadataList> || std::is_same_v<T, MetadataMap>) MetadataValue(T value)
      : data(std::move(value)) {}  // NOLINT: a value is any of them

  friend bool operator==(const MetadataValue&, const MetadataValue&) = default;

  Data data;
};

// Nothing: no such member.
const MetadataValue* find_member(const MetadataMap& map, std::string_view key);

// Maps and lists within each other: 1 for a map without any.
size_t metadata_depth(const MetadataMap& map);

// Adds the members that `into` lacks. A map of both is merged in the same way; of anything else, a
// list too, the one that is there stays.
void merge_metadata(const MetadataMap& from, MetadataMap& into);

// A google.protobuf.Struct that is written in two steps, as its length stands in front of it.
class StructWriter {
 public:
  explicit StructWriter(const MetadataMap& map);

  size_t size() const { return sizes_.front(); }
  // Writes size() bytes and returns their end.
  char* write(char* at) const;

 private:
  // Of a list or a map, without its own key and length; what is in it follows in sizes_.
  size_t measure(const MetadataMap& map);
  size_t measure(const MetadataList& list);
  size_t measure(const MetadataValue& value);

  const MetadataMap& map_;
  std::vector<size_t> sizes_;  // of maps and lists, each before what is in it
};

}  // namespace sluice::envoy
