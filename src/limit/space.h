// The interned spaces of this process: a stored identity (prefix and suffix) has one Space for
// ever, so that rule sets of different generations share counters. Owned by main; thread-safe; a
// Space lives as long as its registry.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "limit/limit.h"

namespace sluice::limit {

class Spaces {
 public:
  const Space* intern(std::string prefix, std::string suffix);

 private:
  std::mutex mutex_;
  std::deque<Space> spaces_;
  std::map<std::pair<std::string, std::string>, const Space*> by_identity_;
};

}  // namespace sluice::limit
