// A small client of limitd's protocol for people and scripts: one question, one answer, a deadline
// over both. Blocks the calling thread; holds no connection between calls. Not meant for services:
// it connects again each time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/limitd/message.h"

namespace sluice::limitd {

struct LimitdQuestion {
  LimitdMethod method = LimitdMethod::take;
  std::string type, key;           // status: the key is what the keys begin with
  std::optional<int32_t> count{};  // none: one, and of a put all
};

struct LimitdAnswer {
  struct Item {
    std::string instance;
    int64_t remaining = 0;
    int64_t reset = 0;  // UNIX seconds when it is full again; 0: by a put only, or it is
    int64_t limit = 0;
  };
  bool conformant = false, delayed = false;  // take and wait
  Item level;                                // but of status and ping
  std::vector<Item> items;                   // status
};

// Either an answer, or in words what went wrong.
struct LimitdResult {
  std::optional<LimitdAnswer> answer;
  std::string error;  // empty with an answer
  bool no_such_type = false;
};

class LimitdClient {
 public:
  // Nothing is done before the first call. `timeout` bounds each call, but for the lookup of the
  // name.
  LimitdClient(std::string host, uint16_t port, std::chrono::milliseconds timeout);

  LimitdResult ask(const LimitdQuestion& question) const;

 private:
  const std::string host_;
  const uint16_t port_;
  const std::chrono::milliseconds timeout_;
};

// A question as a whole frame.
std::string limitd_request(const LimitdQuestion& question);

// The meaning of a reply, without the length in front.
LimitdResult limitd_reply(std::string_view body, LimitdMethod method);

}  // namespace sluice::limitd
