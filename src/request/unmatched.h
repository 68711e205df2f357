// The answer to a request to which no enforced rule applies; an option of listeners. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::request {

enum class Unmatched : uint8_t {
  as_protocol,  // the protocol's own answer (policy::Dialect::unmatched)
  allow,        // as by a rule with `unlimited: true`
  deny,         // as by a rule with `deny: true`
  error,        // an error
};
inline constexpr std::array<std::string_view, 4> unmatched_names{"protocol", "allow", "deny",
                                                                 "error"};
inline std::string_view name_of(Unmatched unmatched) {
  return unmatched_names[static_cast<size_t>(unmatched)];
}

}  // namespace sluice::request
