// Policies that several tests of the real binary serve.
#pragma once

#include <string>

namespace sluice::tests {

// 100 units of [k=v] for each `who`; more than any test takes of everything else.
inline const std::string hundred_policy =
    "[k=v]\ncreditLimit = 100\nresetSeconds = 600\nactorField = who\n\n"
    "[default]\ncreditLimit = 1000000000\nresetSeconds = 600\nactorField = actor\n";

// Whether the reply is a grant with `left` units left: "OK true <left> <seconds>", with any
// seconds.
inline bool grants(const std::string& reply, long left) {
  return reply.starts_with("OK true " + std::to_string(left) + " ");
}
inline bool denies(const std::string& reply) {
  return reply.starts_with("OK false 0 ");
}

}  // namespace sluice::tests
