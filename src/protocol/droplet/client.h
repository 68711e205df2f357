// A small client of droplet's protocol for people and scripts: one question, one answer, a deadline
// over both. Blocks the calling thread; holds no connection between calls. Not meant for services:
// it connects again each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/droplet/message.h"

namespace sluice::droplet {

// Either an answer, or in words what went wrong.
struct DropletResult {
  std::optional<DropletResponse> answer;
  std::string error;  // empty with an answer
};

class DropletClient {
 public:
  // Nothing is done before the first call. `timeout` bounds each call, except for the lookup of
  // the name, which takes what the system's resolver takes.
  DropletClient(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  // Its `id` is the client's own. After a query, `accept` of the answer is of no meaning.
  DropletResult ask(const DropletRequest& request) const;

 private:
  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
};

// A request as it goes into a message, with the client's id.
std::string droplet_message(DropletRequest request);

// The meaning of a response's bytes.
DropletResult droplet_response(std::string_view message);

}  // namespace sluice::droplet
