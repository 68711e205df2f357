// The second half of the trial of crossing_trial_test.h: how answers change its account, and what
// must hold when it is quiet.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "protocol/http/crossing_trial_test.h"

namespace sluice::http::crossing_trial {

// ---- The account: answers ----

void Trial::collect() {
  for (Seat& seat : seats_) collect_from(seat);
}

void Trial::collect_from(Seat& seat) {
  if (seat.http1 == nullptr) {
    // First the answers to requests that gave units back, then those that these units allowed.
    for (const bool gives_back : {true, false})
      for (size_t i = 0; i < seat.open.size();) {
        const bool is_next =
            gives_back == (seat.open[i].what == What::put || seat.open[i].what == What::reset);
        const HttpAnswer answer =
            is_next ? seat.http2->answer_of(seat.open[i].stream) : HttpAnswer();
        if (answer.status == 0) {
          ++i;
          continue;
        }
        const Asked asked = seat.open[i];
        seat.open.erase(seat.open.begin() + static_cast<std::ptrdiff_t>(i));
        take_answer(asked, answer);
      }
    return;
  }
  seat.text += seat.http1->take();
  for (HttpAnswer answer = session_world::take_answer(seat.text); answer.status != 0;
       answer = session_world::take_answer(seat.text)) {
    ASSERT_FALSE(seat.open.empty()) << "an answer to nothing: " << answer.body;
    const Asked asked = seat.open.front();
    seat.open.pop_front();
    take_answer(asked, answer);
  }
  EXPECT_EQ(seat.text, "");
}

void Trial::take_answer(const Asked& asked, const HttpAnswer& answer) {
  SCOPED_TRACE(asked.path + " " + asked.body + ": " + std::to_string(answer.status) + " " +
               answer.body);
  if (asked.status != 0) {
    EXPECT_EQ(answer.status, asked.status);
  }
  if (answer.status == 503) {
    EXPECT_TRUE(asked.may_fail);
    ++tally.failed;
  }
  if (answer.status == 404) ++tally.unmatched;
  if (asked.what == What::wait) return take_wait(asked, answer);
  if (answer.status == 200 || answer.status == 429 || asked.what >= What::all)
    take_parts(asked, answer);
}

void Trial::take_wait(const Asked& asked, const HttpAnswer& answer) {
  EXPECT_FALSE(asked.parks && asked.arrival == 0) << "it did not wait";
  const Part& part = asked.parts.front();
  switch (answer.status) {
    case 200:
      if (asked.arrival > 0) {
        ++tally.late;
        granted_.emplace(part.counter, asked.arrival);
      }
      return take_part(asked, 0, Json::parse(answer.body), true);
    case 408:
      ++tally.timed_out;
      EXPECT_TRUE(asked.is_ended || now_us >= asked.sent_us + asked.timeout_us) << "too early";
      return;
    case 429:
      ++tally.denied;
      return;
    default:
      EXPECT_TRUE(answer.status == 404 || answer.status == 503);
  }
}

void Trial::take_parts(const Asked& asked, const HttpAnswer& answer) {
  const Json body = Json::parse(answer.body);
  if (asked.what == What::peek) {
    if (asked.status != 0 && asked.each[0] != 0) {
      EXPECT_EQ(body.at("allowed"), asked.each[0] == 200);
    }
    return;
  }
  Counter& its = model_.counters[asked.parts[0].counter];
  const bool is_overridden = model_.override_of(asked.parts[0].counter).has_value();
  if (asked.what == What::put) {
    if (!is_overridden) its.used = std::max<int64_t>(0, its.used - asked.parts[0].n);
    return;
  }
  if (asked.what == What::reset) {
    if (!is_overridden && its.unheard == 0) {
      EXPECT_EQ(body.at("reset"), its.used > 0 ? 1 : 0);
    }
    if (!is_overridden) its = {};
    return;
  }
  if (asked.what == What::take) return take_part(asked, 0, body, body.at("allowed"));
  if (!body.contains("takes")) return;
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const Json& told = body.at("takes").at(i);
    const int status = !told.contains("allowed") ? 0 : told.at("allowed").get<bool>() ? 200 : 429;
    if (asked.what == What::all) {
      take_part(asked, i, told, body.at("allowed"));
      continue;
    }
    if (asked.each.size() > i && asked.each[i] != 0) {
      EXPECT_EQ(status != 0 ? status : told.at("error").at("status").get<int>(), asked.each[i]);
    }
    if (status != 0) take_part(asked, i, told, status == 200);
  }
}

void Trial::take_part(const Asked& asked, size_t i, const Json& told, bool charged) {
  const Part& part = asked.parts[i];
  ++(charged ? tally.granted : tally.denied);
  const int64_t quota = told.at("limit");
  if (!charged || quota > quota_max) return;
  Counter& its = model_.counters[part.counter];
  its.used += part.n;
  EXPECT_LE(its.used, std::max(quota, int64_t{5})) << "more than there ever was";
  const bool is_exact = quiet_ && asked.status == 200 && asked.what != What::all &&
                        its.unheard == 0 && free_of(part.counter) == quota - its.used;
  if (is_exact) {
    EXPECT_EQ(told.at("remaining"), quota - its.used);
  }
}

// The client does not receive the answer. `is_parked`: the request waits or has not begun, so it
// was not charged.
void Trial::lose(const Asked& asked, bool is_parked) {
  if (!is_parked && asked.what != What::peek && asked.status == 0)
    for (const Part& part : asked.parts) {
      model_.counters[part.counter].unheard += part.n;
      ++tally.unheard;
    }
}

// ---- The account: what must hold when it is quiet ----

std::vector<Asked*> Trial::parked() {
  std::vector<Asked*> all;
  for (Seat& seat : seats_) {
    for (Asked& asked : seat.open) {
      all.push_back(&asked);
      if (seat.http1 != nullptr) break;  // the next ones have not begun
    }
  }
  return all;
}

void Trial::be_quiet() {
  collect();
  for (int i = 0; i < 2; ++i) {  // requests that are matched again take some time
    world_.pass(10'000);
    collect();
  }
  for (Seat& seat : seats_) {
    if (!seat.connection().is_closed()) continue;
    for (const Asked& asked : seat.open) lose(asked, quiet_);
    renew(seat);
  }
  quiet_ = true;
  note_parked();
  for (const std::string& counter : counter_names) {
    check_queue(counter);
    look_up(counter);
  }
  granted_.clear();
  EXPECT_EQ(world_.engine().held(), (engine::Engine::Held{.parked = parked().size()}));
  EXPECT_EQ(world_.waiting(), parked().size());
  EXPECT_EQ(world_.store.stats().waiting, parked().size());
}

void Trial::note_parked() {
  ++arrivals_;
  for (Asked* const asked : parked()) {
    ASSERT_EQ(asked->what, What::wait) << asked->body << " has no answer";
    ASSERT_EQ(asked->status, 0) << asked->body << " has no answer";
    ASSERT_FALSE(asked->is_ended) << asked->body << " was ended";
    if (asked->arrival == 0) {
      asked->arrival = arrivals_;
      asked->parked_us = now_us;
    }
    EXPECT_LT(now_us, asked->parked_us + asked->timeout_us) << asked->body << " is too late";
  }
}

// The first request that waits for the counter does not fit yet, and no wait that arrived after it
// was granted.
void Trial::check_queue(const std::string& counter) {
  uint64_t first = UINT64_MAX;
  int64_t most = 0;
  for (const Asked* const asked : parked()) {
    if (asked->parts[0].counter != counter || asked->arrival > first) continue;
    most = asked->arrival < first ? asked->parts[0].n : std::max(most, asked->parts[0].n);
    first = asked->arrival;
  }
  if (first == UINT64_MAX) return;
  for (auto [at, end] = granted_.equal_range(counter); at != end; ++at)
    EXPECT_LE(at->second, first) << counter << ": granted before one that arrived earlier";
  ASSERT_FALSE(model_.override_of(counter)) << counter;
  ASSERT_TRUE(model_.quota_of(counter)) << counter;
  const Counter& its = model_.counters[counter];
  if (its.unheard == 0) {
    EXPECT_GT(most, *model_.quota_of(counter) - its.used) << counter << ": waits for nothing";
  }
}

// Compares the account with the server's counter. A counter for which requests wait is skipped: a
// peek does not show the units on which these have a claim.
void Trial::look_up(const std::string& counter) {
  const auto quota = model_.quota_of(counter);
  const bool waits = std::ranges::any_of(
      parked(), [&](const Asked* asked) { return asked->parts[0].counter == counter; });
  if (waits || !quota || model_.override_of(counter)) return;
  const HttpAnswer answer =
      session_world::ask(world_, post("/v1/peek", part_text({counter, 0}, "")));
  ASSERT_EQ(answer.status, 200) << answer.body;
  Counter& its = model_.counters[counter];
  const int64_t remaining = Json::parse(answer.body).at("remaining");
  if (remaining <= 0 && its.used >= *quota) return;
  const int64_t used = *quota - remaining;
  EXPECT_GE(used, its.used) << counter << ": a grant was not charged";
  const int64_t most = its.used + its.unheard;
  EXPECT_LE(used, most) << counter << ": more was charged than granted";
  // Where 0 is left more may have been taken, under a larger limit of before.
  its = {.used = used, .unheard = remaining <= 0 ? most - used : 0};
}

void Trial::finish() {
  if (testing::Test::HasFailure()) return;
  for (Seat& seat : seats_) leave(seat);
  be_quiet();
  EXPECT_EQ(world_.engine().held(), engine::Engine::Held{});
  EXPECT_EQ(world_.waiting(), 0u);
}

}  // namespace sluice::http::crossing_trial
