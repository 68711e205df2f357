// Reads limits from the messages by which a control plane sends them
// (ratelimit.config.ratelimit.v3.RateLimitConfig): each is what a file is (limits_file.h), with the
// same meaning and checks. Any thread.
//
// Bounds, past each of which all are refused: the depth of descriptors (levels_max), their number
// in all messages (descriptors_max), the values of metadata and their depth.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"
#include "protocol/envoy/limits.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// Reads messages in the order of their names, then of their domains, whatever theirs is. An error
// names the message (Diagnostic::file) and the path of keys (subject), in words that hold those of
// the original. Empty: there is an error.
std::optional<LimitSet> read_limit_messages(std::span<const std::string> messages,
                                            const LimitsReading& reading,
                                            base::Diagnostics& diagnostics);

// The name and the domain in such a message, as far as it can be read.
struct MessageName {
  std::string_view name, domain;
  auto operator<=>(const MessageName&) const = default;
};
MessageName name_of_limits(std::string_view message);

}  // namespace sluice::envoy
