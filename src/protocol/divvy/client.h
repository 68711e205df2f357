// A small client of Divvy's protocol for people and scripts: one question, one answer, a deadline
// over both. Blocks the calling thread; holds no connection between calls. Not meant for services:
// it connects again each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/divvy/line.h"

namespace sluice::divvy {

// Either an answer, or in words what went wrong.
struct DivvyResult {
  std::optional<DivvyReply> answer;
  std::string error;  // empty with an answer
};

class DivvyClient {
 public:
  using Entry = std::pair<std::string, std::string>;

  // Nothing is done before the first call. `timeout` bounds each call, except for the lookup of
  // the name, which takes what the system's resolver takes.
  DivvyClient(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  // Takes one unit for this descriptor. Keys and values may hold anything but `"` and line ends,
  // which the protocol cannot carry in quotes.
  DivvyResult hit(std::span<const Entry> descriptor) const;

 private:
  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
};

// The meaning of a reply line, without its line end.
DivvyResult divvy_reply(std::string_view line);

}  // namespace sluice::divvy
