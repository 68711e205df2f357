// What was recorded of the Redis protocol, as cases to replay: of redis-cell, throttlecrab and
// Redis what they answer (resp.json), of clients what they send (resp_clients.json). Each file says
// what its entries mean. Where a step has a decision, sluice answers that instead.
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/resp_value.h"

namespace sluice::tests {

struct RespCase {
  nlohmann::json recorded;

  std::string name() const;
  // In the letters that GoogleTest allows.
  std::string test_name() const;
  const nlohmann::json& steps() const { return recorded["steps"]; }
  bool has(const char* flag) const { return recorded.contains(flag); }
  // Whether sluice may answer as it likes.
  bool is_open() const { return has("any_answer") || has("optional"); }
  // Why it cannot be played without a Redis behind the server, or "".
  std::string needs_redis() const;
};
void PrintTo(const RespCase& c, std::ostream* out);

// Of both files, each read once.
const std::vector<RespCase>& recorded_servers();
const std::vector<RespCase>& recorded_clients();

// The bytes of a step; none: it is a pause.
std::string bytes_of(const nlohmann::json& step);

// What a step has to be answered with.
struct RespDue {
  std::vector<nlohmann::json> replies;
  bool closed = false;
};
RespDue due_of(const RespCase& c, const nlohmann::json& step);

// Is that the reply that is due?
bool fits(const nlohmann::json& due, const RespValue& got);

}  // namespace sluice::tests
