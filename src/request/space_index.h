// Whose counter a stored key names: some spaces, those of the live rules, by their prefixes. Built
// once, then read by any thread; what it says lives as long as the spaces, which are for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "request/charge.h"

namespace sluice::request {

class SpaceIndex {
 public:
  SpaceIndex() = default;
  // One may be among them more than once.
  explicit SpaceIndex(std::span<const Space* const> spaces);

  struct Found {
    const Space* space;
    std::string_view key;  // within the space; a view of what was asked
  };
  // Several spaces may fit, as keys are any bytes: it is the one with the longest prefix, and of
  // several with that prefix the one with the longest suffix.
  std::optional<Found> find(std::string_view stored) const;

  // By the id of each; null: it is not among them.
  std::span<const Space* const> by_id() const { return by_id_; }

 private:
  std::vector<const Space*> by_id_;
  std::unordered_map<std::string_view, std::vector<const Space*>> by_prefix_;
  std::vector<size_t> sizes_;  // of prefixes, each once, falling
};

}  // namespace sluice::request
