#include "request/space.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace sluice::request {

bool Spaces::Less::operator()(std::span<const limit::Limit> a,
                              std::span<const limit::Limit> b) const {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(), [](const limit::Limit& x, const limit::Limit& y) {
        return std::tie(x.algorithm, x.quota, x.window.us, x.burst) <
               std::tie(y.algorithm, y.quota, y.window.us, y.burst);
      });
}

const Space* Spaces::intern(std::string prefix, std::string suffix, Space like, size_t most) {
  const std::lock_guard lock(mutex_);
  if (spaces_.size() >= most && !by_identity_.contains({prefix, suffix})) return nullptr;
  auto [at, fresh] = by_identity_.try_emplace({prefix, suffix});
  if (fresh) {
    like.id = static_cast<uint32_t>(spaces_.size());
    like.prefix = std::move(prefix);
    like.suffix = std::move(suffix);
    at->second = &spaces_.push_back(std::move(like));
  }
  return at->second;
}

const Space& Spaces::at(uint32_t id) const {
  return spaces_[id];
}

base::Duration Spaces::linger(uint32_t id) const {
  return spaces_[id].linger;
}

uint32_t Spaces::intern_limits(std::span<const limit::Limit> limits, size_t most) {
  const std::lock_guard lock(mutex_);
  const auto known = by_limits_.find(limits);
  if (known != by_limits_.end()) return known->second;
  if (lists_.size() >= most) return 0;
  const auto& list = lists_.push_back({limits.begin(), limits.end()});
  const auto id = static_cast<uint32_t>(lists_.size());
  by_limits_.emplace(list, id);
  return id;
}

std::span<const limit::Limit> Spaces::limits(uint32_t id) const {
  SLUICE_CHECK(id >= 1);
  return lists_[id - 1];
}

}  // namespace sluice::request
