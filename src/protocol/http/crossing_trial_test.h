// A trial with random requests of many clients over HTTP/1.1 and HTTP/2, crossed with reloads,
// overrides, a store that answers late or fails, clients that leave, streams that are reset, stops
// and clocks that are set. It is compared with a naive account of the units that each counter has
// given out. All counters are fixed buckets, which time does not fill. For crossing_test.cc; one
// thread.
//
//   quiet    Between two steps no request is at the store. Then most answers are foreseen, from the
//            units in use and those on which waiting requests have a claim.
//   unquiet  While the store answers late, answers only change the account. A request whose answer
//            no client receives may have been charged or not. Once it is quiet, the counter shows
//            how much was charged.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/http/http_text_test.h"
#include "tests/support/dice.h"
#include "wire/json.h"

namespace sluice::http::crossing_trial {

using namespace session_world;
using sluice::tests::Dice;
using wire::Json;

enum class What : uint8_t { take, peek, put, reset, wait, all, each, batch };

struct Part {
  std::string counter;  // "ip:a", "queue:x": of a rule; "key:k": with a limit in the request
  int64_t n = 1;
};

// A request, and what its answer must be.
struct Asked {
  What what = What::take;
  std::vector<Part> parts;
  std::string path, body;
  uint32_t stream = 0;
  int64_t sent_us = 0, timeout_us = 0;
  // Of a wait that is parked: the time at which the trial noticed this, and its place in the order
  // of waits. Waits that were noticed together have the same place. 0: not known to be parked.
  int64_t parked_us = 0;
  uint64_t arrival = 0;
  int status = 0;         // the foreseen status; 0: not foreseen
  std::vector<int> each;  // the same for each part
  bool parks = false;     // foreseen: the request waits
  bool may_fail = false;  // the store failed meanwhile
  bool is_ended = false;  // the client or the server has ended the wait
};

struct Counter {
  int64_t used = 0;
  int64_t unheard = 0;  // units that may have been charged: no client received the answer
};

struct Tally {
  size_t granted = 0, denied = 0, late = 0, timed_out = 0, failed = 0, reset = 0, unheard = 0;
  size_t stopped = 0, put_off = 0, unmatched = 0, foreseen = 0;
  void add(const Tally& other) {
    granted += other.granted, denied += other.denied, late += other.late;
    timed_out += other.timed_out, failed += other.failed, reset += other.reset;
    unheard += other.unheard, stopped += other.stopped, put_off += other.put_off;
    unmatched += other.unmatched, foreseen += other.foreseen;
  }
};

inline const std::array<std::string, 5> counter_names = {"ip:a", "ip:b", "queue:x", "key:k",
                                                         "key:l"};
inline constexpr int64_t key_quota = 3, queue_quota = 2;
// A larger limit in an answer is that of `unlimited`.
inline constexpr int64_t quota_max = 100;

// A connection, and its requests that have no answer yet.
struct Seat {
  std::unique_ptr<Connection> http1;
  std::unique_ptr<Http2Client> http2;
  std::string text;
  std::deque<Asked> open;
  bool is_ending = false;  // the client has closed its sending side

  Connection& connection() { return http1 != nullptr ? *http1 : http2->connection; }
  bool may_ask() { return !connection().is_closed() && !is_ending && open.size() < 10; }
  // Whether the server begins the next request as soon as it is sent.
  bool begins_at_once() const { return http1 == nullptr || open.empty(); }
};

struct Model {
  std::map<std::string, Counter> counters;
  std::map<std::string, limit::Algorithm> overrides;  // by key
  int64_t ip_quota = 3;
  bool has_queue = true;  // whether the policy has the rule for `queue`
  bool fails = false;     // whether the store fails

  static bool is_key(const std::string& counter) { return counter.starts_with("key:"); }
  // Nothing if no rule applies.
  std::optional<int64_t> quota_of(const std::string& counter) const {
    if (is_key(counter)) return key_quota;
    if (counter.starts_with("ip:")) return ip_quota;
    if (has_queue) return queue_quota;
    return std::nullopt;
  }
  std::optional<limit::Algorithm> override_of(const std::string& counter) const {
    const auto at = overrides.find(counter);
    if (at == overrides.end()) return std::nullopt;
    return at->second;
  }
};

inline std::string part_text(const Part& part, std::string_view more) {
  const size_t cut = part.counter.find(':');
  const std::string kind = part.counter.substr(0, cut), name = part.counter.substr(cut + 1);
  std::string text = kind == "key"
                         ? R"({"key": ")" + name + R"(", "limits": [{"quota": )" +
                               std::to_string(key_quota) + R"(, "algorithm": "fixed_bucket"}])"
                         : R"({"entries": {")" + kind + R"(": ")" + name + "\"}";
  if (part.n >= 0) text += ", \"n\": " + std::to_string(part.n);
  return text + std::string(more) + "}";
}

inline std::string body_of(const Asked& asked, const std::string& timeout) {
  if (asked.what < What::all)
    return part_text(asked.parts.front(),
                     timeout.empty() ? std::string() : ", \"timeout\": " + timeout);
  std::string text;
  for (const Part& part : asked.parts) text += (text.empty() ? "" : ", ") + part_text(part, "");
  return "{\"takes\": [" + text + "]" +
         (asked.what == What::each  ? R"(, "mode": "each"})"
          : asked.what == What::all ? R"(, "mode": "all"})"
                                    : "}");
}

class Trial {
 public:
  explicit Trial(uint32_t seed) : dice_(seed), world_({.rules = rules()}) {
    for (Seat& seat : seats_) renew(seat);
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps && !testing::Test::HasFailure(); ++step_) {
      SCOPED_TRACE("step " + std::to_string(step_));
      dice_(5) == 0 ? be_unquiet() : take_step();
      be_quiet();
    }
  }
  // All clients leave; nothing may be left of their requests.
  void finish();

  Tally tally;

 private:
  // ---- Steps ----

  void take_step();
  void be_unquiet();
  void wobble();
  void be_quiet();
  void reload();
  void override_one();
  void set_clocks();
  void ask_one();
  Asked some_request(const Seat& seat);
  void send(Seat& seat, Asked asked);
  void reset_one();
  void leave(Seat& seat);
  void end_one();
  void stop_one();
  void renew(Seat& seat);
  void let_fail(bool fails);

  // ---- The account ----

  std::string rules() const;
  int64_t free_of(const std::string& counter) const;
  int take_status(const Part& part, int64_t free) const;
  void foresee(Asked& asked);
  void foresee_several(Asked& asked);
  void collect();
  void collect_from(Seat& seat);
  void take_answer(const Asked& asked, const HttpAnswer& answer);
  void take_wait(const Asked& asked, const HttpAnswer& answer);
  void take_parts(const Asked& asked, const HttpAnswer& answer);
  void take_part(const Asked& asked, size_t i, const Json& told, bool charged);
  void lose(const Asked& asked, bool is_parked);
  void note_parked();
  void look_up(const std::string& counter);
  void check_queue(const std::string& counter);
  std::vector<Asked*> parked();

  Dice dice_;
  Model model_;
  World world_;
  std::array<Seat, 5> seats_;
  std::multimap<std::string, uint64_t> granted_;  // arrivals of waits granted since it was quiet
  uint64_t arrivals_ = 0;
  int step_ = 0;
  bool quiet_ = true;
};

}  // namespace sluice::http::crossing_trial
