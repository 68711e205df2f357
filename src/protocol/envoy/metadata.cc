#include "protocol/envoy/metadata.h"

#include <algorithm>

namespace sluice::envoy {

const Metadata* Metadata::find(std::string_view key) const {
  const auto at = std::find(keys.begin(), keys.end(), key);
  return at == keys.end() ? nullptr : &items[static_cast<size_t>(at - keys.begin())];
}

void merge(Metadata& into, const Metadata& map) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    const auto at = std::find(into.keys.begin(), into.keys.end(), map.keys[i]);
    if (at == into.keys.end()) {
      into.keys.push_back(map.keys[i]);
      into.items.push_back(map.items[i]);
      continue;
    }
    Metadata& there = into.items[static_cast<size_t>(at - into.keys.begin())];
    if (there.is_map() && map.items[i].is_map()) merge(there, map.items[i]);
  }
}

}  // namespace sluice::envoy
