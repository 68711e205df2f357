// A small client of droplet's protocol for people and scripts: one question, one answer, a deadline
// over both. Blocks the calling thread; holds no connection between calls. Not meant for services:
// it connects anew each time.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::droplet {

// The names of the periods, in the order of everything that has one place for each.
inline constexpr std::array<std::string_view, 6> droplet_periods{"ls", "lm", "lh",
                                                                 "ld", "lw", "lo"};

struct DropletTake {
  std::string bucket;
  int32_t count = 1;  // below 0: adds
  bool reset = false;
  std::array<uint32_t, droplet_periods.size()> limits{};  // 0: none
};

struct DropletAnswer {
  bool accept = false;
  // Of the periods that the server told: what is left or, after a refusal, would have been.
  std::array<std::optional<int32_t>, droplet_periods.size()> left{};
};

// Either an answer, or in words what went wrong.
struct DropletResult {
  std::optional<DropletAnswer> answer;
  std::string error;  // empty with an answer
};

class DropletClient {
 public:
  // Nothing is done before the first call. `timeout` bounds each call, except for the look-up of
  // the name, which takes what the system's resolver takes.
  DropletClient(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  DropletResult take(const DropletTake& take) const;
  // What there is of the bucket; `accept` is then of no meaning.
  DropletResult query(std::string_view bucket) const;

 private:
  DropletResult ask(std::string_view message) const;

  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
};

// Requests as they go into a message. What is as absent is not there.
std::string droplet_take_message(const DropletTake& take);
std::string droplet_query_message(std::string_view bucket);

// The meaning of a response's bytes.
DropletResult droplet_response(std::string_view message);

}  // namespace sluice::droplet
