// What a request is answered that no enforced rule applies to, where its listener says so. Plain
// values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::request {

enum class Unmatched : uint8_t {
  as_protocol,  // as the protocol has it (policy::Dialect::unmatched)
  allow,        // as by a rule with `unlimited: true`
  deny,         // as by a rule with `deny: true`
  error,        // it fails
};
inline constexpr std::array<std::string_view, 4> unmatched_names{"protocol", "allow", "deny",
                                                                 "error"};
inline std::string_view name_of(Unmatched unmatched) {
  return unmatched_names[static_cast<size_t>(unmatched)];
}

}  // namespace sluice::request
