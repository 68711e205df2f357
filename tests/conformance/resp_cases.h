// The recordings of the Redis protocol as cases to replay: the answers of redis-cell, throttlecrab
// and Redis (resp.json), and what clients send (resp_clients.json). Each file says what its entries
// mean. A step's `decision` is sluice's answer in place of the recorded one.
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
  // The name in the letters that GoogleTest allows.
  std::string test_name() const;
  const nlohmann::json& steps() const { return recorded["steps"]; }
  bool has(const char* flag) const { return recorded.contains(flag); }
  // Whether any answer is right.
  bool is_open() const { return has("any_answer") || has("optional"); }
  // Why the case cannot be played without a Redis behind the server, or "".
  std::string needs_redis() const;
};
void PrintTo(const RespCase& c, std::ostream* out);

// The cases of the two files, which are read once.
const std::vector<RespCase>& recorded_servers();
const std::vector<RespCase>& recorded_clients();

// The bytes that a step sends; empty for a pause.
std::string bytes_of(const nlohmann::json& step);

// The expected answer to a step.
struct RespDue {
  std::vector<nlohmann::json> replies;
  bool closed = false;
};
RespDue due_of(const RespCase& c, const nlohmann::json& step);

// Whether `got` is the reply that `due` describes.
bool fits(const nlohmann::json& due, const RespValue& got);

}  // namespace sluice::tests
