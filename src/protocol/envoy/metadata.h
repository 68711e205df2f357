// What a descriptor's `metadata` holds: a value as JSON and google.protobuf.Value have them. Plain
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::envoy {

struct Metadata {
  enum class Kind : uint8_t { null, boolean, number, text, list, map };

  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;  // may be infinite or no number, which JSON does not have
  std::string text{};
  std::vector<Metadata> items{};    // of a list; of a map, its values
  std::vector<std::string> keys{};  // of a map, one for each value; each once, in the file's order

  bool is_map() const { return kind == Kind::map; }
  // Of a map; null: it has no such key.
  const Metadata* find(std::string_view key) const;

  friend bool operator==(const Metadata&, const Metadata&) = default;
};

// Adds what `map` has to `into`, a map as well: maps merge, and of all else what is there stays.
void merge(Metadata& into, const Metadata& map);

}  // namespace sluice::envoy
