// The interned spaces and lists of limits of this process: a stored identity (prefix and suffix)
// has one Space for ever, so that rule sets of different generations share counters. Owned by main;
// thread-safe; looking one up by its number takes no lock, as those who intern may be of a low
// priority. A Space lives as long as its registry; who brings new ones without end is
// held to base::bounds::known_limits_max and override_limits_max.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "request/charge.h"
#include "request/stable_list.h"

namespace sluice::request {

class Spaces {
  struct Less {
    bool operator()(std::span<const limit::Limit> a, std::span<const limit::Limit> b) const;
  };

 public:
  // `like` tells all but the id and the identity; the first to intern an identity settles it.
  // Null: it is none of those there are, which are `most` or more.
  const Space* intern(std::string prefix, std::string suffix, Space like = {},
                      size_t most = SIZE_MAX);

  // The space with that id, which was interned.
  const Space& at(uint32_t id) const;
  // Space::linger of the space with that id.
  base::Duration linger(uint32_t id) const;

  // A number for a list of limits, from 1: equal lists have the same one for ever, so that a
  // counter can say under which it was written. 0: it is none of those there are, which are `most`
  // or more.
  uint32_t intern_limits(std::span<const limit::Limit> limits, size_t most = SIZE_MAX);
  // The list of that number; it lives as long as the registry.
  std::span<const limit::Limit> limits(uint32_t id) const;
  // How many spaces there are, or lists if these are more. Any thread.
  size_t known() const { return std::max(spaces_.size(), lists_.size()); }

 private:
  std::mutex mutex_;  // of whoever interns
  StableList<Space> spaces_;
  std::map<std::pair<std::string, std::string>, const Space*> by_identity_;
  StableList<std::vector<limit::Limit>> lists_;  // the n-th has number n + 1
  std::map<std::span<const limit::Limit>, uint32_t, Less> by_limits_;
};

}  // namespace sluice::request
