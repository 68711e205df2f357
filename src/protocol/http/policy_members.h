// The texts by which header fields tell limits (limit_fields.h), kept for the limits that were told
// last: they change with the rules alone. One for each worker, used by its thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "limit/limit.h"
#include "protocol/http/limit_fields.h"

namespace sluice::http {

class PolicyMembers {
 public:
  // Texts that are kept, at most; others take their places.
  static constexpr size_t kept_max = 256;

  // Fills in what a limit of that name is told by. Valid until the next call.
  void fill_in(ShownLimit& shown) {
    Kept& kept = kept_[place_of(shown)];
    if (kept.limit != shown.limit || kept.name != shown.name || kept.member.empty()) [[unlikely]]
      write(shown, kept);
    shown.policy_member = kept.member;
    shown.quoted_name = std::string_view(kept.member).substr(0, kept.quoted_bytes);
  }

 private:
  struct Kept {
    std::string name, member;
    limit::Limit limit{};
    size_t quoted_bytes = 0;
  };

  static size_t place_of(const ShownLimit& shown) {
    const auto mixed = (static_cast<uint64_t>(shown.limit.quota) ^
                        static_cast<uint64_t>(shown.limit.window.us) * 31 ^
                        (shown.name.empty() ? 0 : static_cast<uint64_t>(shown.name.back()))) *
                       0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 56);
  }
  void write(const ShownLimit& shown, Kept& kept) {
    kept.name = shown.name;
    kept.limit = shown.limit;
    scratch_.clear();
    append_member_name(shown.name, scratch_);
    kept.quoted_bytes = scratch_.size();
    scratch_.clear();
    append_policy_member(shown.name, shown.limit, scratch_);
    kept.member = scratch_.view();
  }

  std::array<Kept, kept_max> kept_;
  base::Buffer scratch_;
};

}  // namespace sluice::http
