// The scripts for a single take from a time of arrival (redis/arrival.h) in a real Redis, against
// limit/ itself: quantities, limits and times of every size, and those at which one unit or one
// microsecond more changes the answer. Every answer and, at the end, every stored value is
// compared.
#include "redis/arrival.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "limit/decide.h"
#include "limit/wide.h"
#include "redis/script_call.h"
#include "request/space.h"
#include "tests/redis/both_stores.h"
#include "tests/support/dice.h"

namespace sluice::redis::arrival_test {
namespace {

using limit::Algorithm;
using limit::State;
using limit::Wide;
using tests::Dice;
using Which = Scripts::Arrival;

constexpr int64_t second = 1'000'000, start_us = 1'800'000'000 * second;
constexpr int64_t quota_max = (int64_t{1} << 53) - 1,
                  window_max = 36'600 * int64_t{86'400} * second;

// From 1 to `most`: small, of any magnitude, beside a power of two, or among the largest.
int64_t any_size(Dice& dice, int64_t most) {
  int64_t size = 1 + dice(int64_t{9});
  switch (dice(5)) {
    case 0:
      break;
    case 1:
      size = most - dice(int64_t{3});
      break;
    case 2:
      size = (int64_t{1} << (1 + dice(62))) + dice(3) - 1;
      break;
    default:
      size = 1 + dice(int64_t{1} << (1 + dice(62)));
  }
  return std::clamp<int64_t>(size, 1, most);
}

Limit any_limit(Dice& dice, Which which) {
  for (;;) {
    limit::gcra::Rate rate;
    const int64_t count = any_size(dice, dice(2) == 0 ? 1'000 : INT64_MAX);
    const int64_t period = any_size(dice, dice(2) == 0 ? 86'400 : 9'223'372'036);
    const int64_t burst = any_size(dice, dice(2) == 0 ? 1'000 : INT64_MAX);
    switch (which) {
      case Which::bucket:
        return {Algorithm::token_bucket,
                any_size(dice, quota_max),
                {any_size(dice, window_max)},
                any_size(dice, quota_max)};
      case Which::cell:
      case Which::shared_cell:
        rate = limit::gcra::cell_rate(burst - 1, count, period);
        break;
      case Which::crab:
        rate = limit::gcra::crab_rate(burst, count, period);
        if (dice(3) == 0) rate.limit = limit::gcra::telling_full(rate.limit);
        break;
      case Which::redis:
        rate = limit::gcra::redis_rate(burst - 1, count, static_cast<double>(period) / 1000);
        break;
    }
    if (rate.error == limit::gcra::Error::none) return rate.limit;
  }
}

struct Counter {
  std::string key;
  Limit limit;  // a bucket's; those of gcra_* come with each call
  State state{};
  int64_t now_us = start_us;
  limit::Decision last{};
};

struct Seen {
  size_t answers = 0, by_arrival = 0, granted = 0, refused = 0, past_doubles = 0, exhausted = 0;
};

class Game {
 public:
  Game(Which which, uint32_t seed) : which_(which), dice_(seed) {
    client_({"FLUSHALL"});
    request::Space like;
    if (which == Which::shared_cell) like.encoding = request::KeyEncoding::tat_text;
    space_ = spaces_.intern("a:", "", like);
    for (size_t i = 0; i < counters; ++i)
      all_.push_back({.key = std::to_string(i), .limit = any_limit(dice_, which)});
  }

  // One call for each counter, sent together. False: an answer was wrong.
  bool step() {
    std::vector<Question> asked(all_.size());
    std::string bytes;
    for (size_t i = 0; i < all_.size(); ++i) {
      Counter& c = all_[i];
      advance(c);
      if (which_ != Which::bucket && dice_(3) == 0) c.limit = any_limit(dice_, which_);
      asked[i].add(*space_, c.key, {c.limit}, spaces_, Verb::take, any_cost(c));
      if (which_ == Which::shared_cell) put_back(c);
      append(bytes, asked[i], c, Weight::light);
    }
    for (size_t i = 0; i < all_.size(); ++i) {
      const tests::RedisReply reply = client_.raw(i == 0 ? bytes : "");
      if (!judge(all_[i], asked[i], reply.text)) return false;
    }
    for (const auto& [i, weight] : std::exchange(again_, {})) {
      std::string once;
      append(once, *i.second, *i.first, weight);
      if (!judge(*i.first, *i.second, client_.raw(once).text)) return false;
    }
    return true;
  }

  // Are the stored values those of the states? False: one is not.
  bool values_are_right() {
    for (const Counter& c : all_) {
      const std::string value = client_({"GET", "p:a:" + c.key}).text,
                        shared = client_({"GET", "a:" + c.key}).text;
      std::string wanted;
      if (c.state.units > 0 && c.state.fresh_at_us > c.now_us) {
        const std::string units = std::to_string(c.state.units);
        wanted = which_ == Which::shared_cell
                     ? units
                     : texts_.of({&c.limit, 1}, id_of(c)).name + " " +
                           std::to_string(c.state.fresh_at_us) + " " + units;
      }
      const std::string& found = which_ == Which::shared_cell ? shared : value;
      // One that equals a fresh counter may still be there, and one in redis-cell's form has ended.
      const bool ended = which_ == Which::shared_cell && found.empty();
      if (!ended && !wanted.empty() && found != wanted) {
        ADD_FAILURE() << c.key << ": " << found << ", not " << wanted;
        return false;
      }
    }
    return true;
  }

  Seen seen;

 private:
  static constexpr size_t counters = 250;

  // A key in redis-cell's form ends by Redis' own time, which is not the time that is told.
  void put_back(const Counter& c) {
    if (c.state.units > 0)
      client_({"SET", "a:" + c.key, std::to_string(c.state.units)});
    else
      client_({"DEL", "a:" + c.key});
  }

  uint32_t id_of(const Counter& c) {
    const std::vector<Limit> name = without_numbers({c.limit});
    return spaces_.intern_limits(name);
  }

  void advance(Counter& c) {
    int64_t by = 0;
    switch (dice_(6)) {
      case 0:
      case 1:
        break;
      case 2:  // to the moment at which the last call would be granted, or a microsecond before
        by = c.last.retry_after.us - dice_(int64_t{2});
        break;
      case 3:  // to the moment at which it is full
        by = c.last.reset_after.us - dice_(int64_t{2});
        break;
      default:
        by = any_size(dice_, int64_t{1} << (1 + dice_(52)));
    }
    // Mostly this century, as the scripts are for it.
    const int64_t latest = dice_(50) == 0 ? INT64_MAX / 4 : 2'500'000'000 * second;
    if (by > 0 && by < latest - c.now_us) c.now_us += by;
  }

  int64_t any_cost(const Counter& c) {
    State unused;
    const int64_t left = limit::decide(&c.state, c.limit, 0, {c.now_us}, &unused).remaining;
    const bool may_return = which_ != Which::bucket && which_ != Which::crab;
    switch (dice_(9)) {
      case 0:
        return 0;
      case 1:
      case 2:
        return left;
      case 3:
        return left < INT64_MAX ? left + 1 : left;
      case 4:
        return left / 2;
      case 5:
        return any_size(dice_, INT64_MAX);
      case 6:
        return may_return ? -any_size(dice_, INT64_MAX) : 1;
      default:
        return 1 + dice_(int64_t{3});
    }
  }

  void append(std::string& bytes, const Question& q, const Counter& c, Weight weight) {
    const ScriptCall call{.charges = q.charges,
                          .weight = weight,
                          .key_prefix = "p:",
                          .told = {c.now_us},
                          .now = {c.now_us}};
    Weight used;
    const Script& script = script_of(call, scripts_, texts_, used);
    if (sent_.insert(script.sha).second) client_({"SCRIPT", "LOAD", script.text});
    append_call(bytes, call, script, true, scripts_, texts_);
  }

  bool judge(Counter& c, Question& q, const std::string& text) {
    limit::Decision said;
    bool allowed = false;
    const ScriptReply reply = read_answer(text, q.charges, {&said, 1}, allowed, {c.now_us});
    if (reply == ScriptReply::again_full || reply == ScriptReply::again_wide) {
      again_.emplace_back(std::pair(&c, &q),
                          reply == ScriptReply::again_full ? Weight::full : Weight::wide);
      return true;
    }
    const int64_t cost = q.charges[0].cost;
    State next;
    const limit::Decision wanted = limit::decide(&c.state, c.limit, cost, {c.now_us}, &next);
    const bool right = reply == ScriptReply::decided && text_of(said) == text_of(wanted);
    EXPECT_TRUE(right) << c.key << " takes " << cost << " at " << c.now_us << " under "
                       << name_of(c.limit.algorithm) << " " << c.limit.quota << "/"
                       << c.limit.window.us << "/" << c.limit.burst << " from "
                       << c.state.fresh_at_us << " " << c.state.units << ": " << text << " is "
                       << text_of(said) << ", not " << text_of(wanted);
    ++seen.answers;
    seen.by_arrival += text.starts_with('a');
    ++(wanted.allowed ? seen.granted : seen.refused);
    seen.past_doubles += text.starts_with('a') &&
                         Wide{c.limit.window.us} * std::max<int64_t>(cost, 1) >= Wide{1} << 53;
    seen.exhausted += wanted.allowed && wanted.remaining == 0;
    c.state = next;
    c.last = wanted;
    return right;
  }

  const Which which_;
  Dice dice_;
  tests::RedisClient client_ = server().client();
  request::Spaces spaces_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
  const request::Space* space_ = nullptr;
  std::vector<Counter> all_;
  std::vector<std::pair<std::pair<Counter*, Question*>, Weight>> again_;
  std::set<std::string> sent_;
};

void play(Which which) {
  Seen sum;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    Game game(which, seed);
    for (int step = 0; step < 20; ++step)
      if (!game.step()) return;
    if (!game.values_are_right()) return;
    sum.answers += game.seen.answers;
    sum.by_arrival += game.seen.by_arrival;
    sum.granted += game.seen.granted;
    sum.refused += game.seen.refused;
    sum.past_doubles += game.seen.past_doubles;
    sum.exhausted += game.seen.exhausted;
  }
  std::printf(
      "%zu answers, %zu by the script of arrivals, granted %zu, refused %zu, past 2^53 %zu, "
      "to the last unit %zu\n",
      sum.answers, sum.by_arrival, sum.granted, sum.refused, sum.past_doubles, sum.exhausted);
  EXPECT_EQ(sum.answers, 50'000u);
  EXPECT_GT(sum.by_arrival, 20'000u);
  EXPECT_GT(sum.granted, 10'000u);
  EXPECT_GT(sum.refused, 5'000u);
  // GCRA's numbers are microseconds, of which 2^52 are 142 years.
  EXPECT_EQ(sum.past_doubles > 2'000, which != Which::redis);
  EXPECT_GT(sum.exhausted, 2'000u);
}

TEST(Arrival, ABucketAnswersAsTheEngineDoes) {
  play(Which::bucket);
}
TEST(Arrival, ClThrottleAnswersAsTheEngineDoes) {
  play(Which::cell);
}
TEST(Arrival, ClThrottleSharedWithRedisCellAnswersAsTheEngineDoes) {
  play(Which::shared_cell);
}
TEST(Arrival, ThrottleAnswersAsTheEngineDoes) {
  play(Which::crab);
}
TEST(Arrival, GcraAnswersAsTheEngineDoes) {
  play(Which::redis);
}

}  // namespace
}  // namespace sluice::redis::arrival_test
