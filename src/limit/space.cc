#include "limit/space.h"

namespace sluice::limit {

const Space* Spaces::intern(std::string prefix, std::string suffix) {
  const std::lock_guard lock(mutex_);
  auto [at, fresh] = by_identity_.try_emplace({prefix, suffix});
  if (fresh) {
    spaces_.push_back(
        {static_cast<uint32_t>(spaces_.size()), std::move(prefix), std::move(suffix)});
    at->second = &spaces_.back();
  }
  return at->second;
}

}  // namespace sluice::limit
