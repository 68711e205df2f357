// Caches the texts of limits in header fields (limit_fields.h) for the limits that were used last;
// they change only with the rules. Each worker has one, used by its thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/same.h"
#include "limit/limit.h"
#include "protocol/http/limit_fields.h"

namespace sluice::http {

class PolicyMembers {
 public:
  // The most limits whose texts are kept. Beyond it new ones replace others.
  static constexpr size_t kept_max = 256;

  struct Texts {
    std::string_view policy_member, quoted_name;  // of ShownLimit
  };

  // The texts for a limit with this name. Valid until the next call.
  Texts find(std::string_view name, const limit::Limit& limit) {
    Kept& kept = kept_[place_of(name, limit)];
    if (kept.limit != limit || !base::same(kept.name, name) || kept.member.empty()) [[unlikely]]
      write(name, limit, kept);
    return {kept.member, std::string_view(kept.member).substr(0, kept.quoted_bytes)};
  }

 private:
  struct Kept {
    std::string name, member;
    limit::Limit limit{};
    size_t quoted_bytes = 0;
  };

  static size_t place_of(std::string_view name, const limit::Limit& limit) {
    const auto mixed =
        (static_cast<uint64_t>(limit.quota) ^ static_cast<uint64_t>(limit.window.us) * 31 ^
         (name.empty() ? 0 : static_cast<uint64_t>(name.back()))) *
        0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 56);
  }
  void write(std::string_view name, const limit::Limit& limit, Kept& kept) {
    kept.name = name;
    kept.limit = limit;
    scratch_.clear();
    append_member_name(name, scratch_);
    kept.quoted_bytes = scratch_.size();
    scratch_.clear();
    append_policy_member(name, limit, scratch_);
    kept.member = scratch_.view();
  }

  std::array<Kept, kept_max> kept_;
  base::Buffer scratch_;
};

}  // namespace sluice::http
