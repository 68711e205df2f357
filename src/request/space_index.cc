#include "request/space_index.h"

#include <algorithm>
#include <functional>

namespace sluice::request {

SpaceIndex::SpaceIndex(std::span<const Space* const> spaces) {
  for (const Space* space : spaces) {
    if (space->id >= by_id_.size()) by_id_.resize(space->id + 1, nullptr);
    if (by_id_[space->id] != nullptr) continue;
    by_id_[space->id] = space;
    by_prefix_[space->prefix].push_back(space);
    sizes_.push_back(space->prefix.size());
  }
  for (auto& [prefix, its] : by_prefix_)
    std::sort(its.begin(), its.end(),
              [](const Space* a, const Space* b) { return a->suffix.size() > b->suffix.size(); });
  std::sort(sizes_.begin(), sizes_.end(), std::greater<>());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
}

std::optional<SpaceIndex::Found> SpaceIndex::find(std::string_view stored) const {
  for (const size_t size : sizes_) {
    if (size > stored.size()) continue;
    const auto its = by_prefix_.find(stored.substr(0, size));
    if (its == by_prefix_.end()) continue;
    const std::string_view rest = stored.substr(size);
    for (const Space* space : its->second)
      if (rest.ends_with(space->suffix))
        return Found{space, rest.substr(0, rest.size() - space->suffix.size())};
  }
  return std::nullopt;
}

}  // namespace sluice::request
