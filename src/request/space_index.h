// Finds the space of a stored counter's name, among the spaces of the live rules, by their
// prefixes. Built once, then read by any thread. The spaces must outlive it and its results.
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
  // A space may be listed more than once.
  explicit SpaceIndex(std::span<const Space* const> spaces);

  struct Found {
    const Space* space;
    std::string_view key;  // within the space; a view into `stored`
  };
  // Keys may have any bytes, so several spaces may fit: the one with the longest prefix counts, and
  // among equal prefixes the one with the longest suffix.
  std::optional<Found> find(std::string_view stored) const;

  // The spaces by id; null: the space with that id is not in the index.
  std::span<const Space* const> by_id() const { return by_id_; }

 private:
  std::vector<const Space*> by_id_;
  std::unordered_map<std::string_view, std::vector<const Space*>> by_prefix_;
  std::vector<size_t> sizes_;  // of the prefixes, distinct, descending
};

}  // namespace sluice::request
