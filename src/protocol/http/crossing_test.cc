// The first half of the trial of crossing_trial_test.h: its steps, and the answers that it
// foresees. The test runs many trials.
#include <gtest/gtest.h>

#include <cstdio>

#include "protocol/http/crossing_trial_test.h"

namespace sluice::http::crossing_trial {
namespace {

constexpr std::string_view path_names[] = {"/v1/take", "/v1/peek", "/v1/put",  "/v1/reset",
                                           "/v1/wait", "/v1/take", "/v1/take", "/v1/batch"};

}  // namespace

// ---- Steps ----

std::string Trial::rules() const {
  std::string text = "- { match: { ip: '*' }, actor: ip, name: by-ip, limit: { quota: " +
                     std::to_string(model_.ip_quota) + ", algorithm: fixed_bucket } }\n";
  if (model_.has_queue)
    text += "- { match: { queue: '*' }, actor: queue, name: jobs, limit: { quota: " +
            std::to_string(queue_quota) + ", algorithm: fixed_bucket } }\n";
  return text;
}

// The first two seats speak HTTP/1.1, the others HTTP/2.
void Trial::renew(Seat& seat) {
  seat = Seat();
  if (&seat < &seats_[2])
    seat.http1 = std::make_unique<Connection>(world_);
  else
    seat.http2 = std::make_unique<Http2Client>(world_, &seat == &seats_[2] ? 7 : SIZE_MAX);
}

void Trial::reload() {
  model_.ip_quota = std::array<int64_t, 3>{2, 3, 5}[dice_(3u)];
  model_.has_queue = dice_(4) > 0;
  world_.load(rules());
}

void Trial::override_one() {
  const std::string name = dice_(2) == 0 ? "k" : "l";
  if (model_.overrides.contains("key:" + name)) {
    model_.overrides.erase("key:" + name);
    return world_.override_inline(name, std::nullopt);
  }
  const auto algorithm = dice_(2) == 0 ? limit::Algorithm::deny : limit::Algorithm::unlimited;
  model_.overrides["key:" + name] = algorithm;
  world_.override_inline(name, algorithm);
}

// Time passes; sometimes the wall clock is also set, ahead or back.
void Trial::set_clocks() {
  if (dice_(3) == 0) ahead_us = (int64_t{dice_(400)} - 200) * second;
  constexpr std::array<int64_t, 5> lengths = {1'000, 400'000, 3 * second, 21 * second, 61 * second};
  world_.pass(lengths[dice_(lengths.size())]);
}

void Trial::let_fail(bool fails) {
  model_.fails = world_.store.fails = fails;
  for (Seat& seat : seats_)
    for (Asked& asked : seat.open) asked.may_fail |= fails;
}

void Trial::take_step() {
  if (dice_(10) == 0) {
    let_fail(true);
    for (int left = 1 + dice_(3); left > 0; --left) dice_(6) == 0 ? reload() : ask_one();
    collect();
    return let_fail(false);
  }
  switch (dice_(30)) {
    case 0:
    case 1:
      return reload();
    case 2:
    case 3:
      return override_one();
    case 4:
    case 5:
    case 6:
      return set_clocks();
    case 7:
    case 8:
      return reset_one();
    case 9:
      return leave(seats_[dice_(seats_.size())]);
    case 10:
      return end_one();
    case 11:
      return stop_one();
    default:
      return ask_one();
  }
}

// The store answers late, and sometimes fails.
void Trial::be_unquiet() {
  quiet_ = false;
  world_.store.settles = [this](size_t all) { return dice_(3) == 0 ? all : dice_(all + 1); };
  for (int left = 3 + dice_(12); left > 0; --left) {
    wobble();
    collect();
  }
  world_.store.settles = [](size_t all) { return all; };
  while (world_.store.asked() > 0) {
    world_.store.name(0);
    world_.settle();
  }
}

void Trial::wobble() {
  if (world_.store.asked() > 0 && dice_(3) == 0) {
    ++tally.put_off;
    let_fail(dice_(4) == 0);
    world_.store.name(dice_(world_.store.asked()));
    world_.settle();
    return let_fail(false);
  }
  switch (dice_(16)) {
    case 0:
      return reload();
    case 1:
      return override_one();
    case 2:
      return set_clocks();
    case 3:
    case 4:
      return reset_one();
    case 5:
      return leave(seats_[dice_(seats_.size())]);
    case 6:
      return end_one();
    default:
      return ask_one();
  }
}

void Trial::ask_one() {
  Seat& seat = seats_[dice_(seats_.size())];
  if (seat.may_ask()) send(seat, some_request(seat));
}

// Puts and resets are only sent when the order of requests is known: a bucket does not hold more
// than its quota, so what a put gives depends on that order.
Asked Trial::some_request(const Seat& seat) {
  Asked asked;
  const bool may_give_back = quiet_ && seat.begins_at_once();
  constexpr std::array<What, 13> kinds = {
      What::take, What::take, What::take,  What::peek, What::wait,  What::wait, What::wait,
      What::all,  What::each, What::batch, What::put,  What::reset, What::put};
  asked.what = kinds[dice_(may_give_back ? kinds.size() : kinds.size() - 3)];
  const int count = asked.what >= What::all ? 1 + dice_(3) : 1;
  for (int i = 0; i < count; ++i)
    asked.parts.push_back({counter_names[dice_(counter_names.size())],
                           asked.what == What::reset ? -1 : 1 + dice_(3)});
  asked.path = path_names[static_cast<size_t>(asked.what)];
  std::string timeout;
  if (asked.what == What::wait) {
    asked.timeout_us = std::array<int64_t, 3>{second / 2, 5 * second, 40 * second}[dice_(3u)];
    timeout = asked.timeout_us < second ? "0.5" : std::to_string(asked.timeout_us / second);
  }
  asked.body = body_of(asked, timeout);
  return asked;
}

void Trial::send(Seat& seat, Asked asked) {
  asked.sent_us = now_us;
  asked.may_fail = model_.fails;
  if (quiet_ && seat.begins_at_once()) foresee(asked);
  if (asked.status != 0) ++tally.foreseen;
  const bool parks = asked.parks;
  seat.open.push_back(asked);
  if (seat.http1 != nullptr)
    seat.http1->send(post(asked.path, asked.body));
  else
    seat.http2->send(seat.http2->request(asked.path, asked.body, seat.open.back().stream));
  collect_from(seat);
  collect();
  if (!parks || seat.open.empty()) return;
  seat.open.back().arrival = ++arrivals_;
  seat.open.back().parked_us = now_us;
}

void Trial::reset_one() {
  Seat& seat = seats_[2 + dice_(seats_.size() - 2)];
  collect_from(seat);
  if (seat.open.empty()) return;
  const auto at = seat.open.begin() + dice_(static_cast<std::ptrdiff_t>(seat.open.size()));
  const Asked asked = *at;
  seat.open.erase(at);
  ++tally.reset;
  if (!quiet_) lose(asked, false);
  seat.http2->reset(asked.stream);
}

void Trial::leave(Seat& seat) {
  collect_from(seat);
  for (const Asked& asked : seat.open) lose(asked, quiet_);
  renew(seat);
}

// The client closes its sending side and still reads.
void Trial::end_one() {
  Seat& seat = seats_[dice_(2u)];
  if (seat.is_ending || seat.http1->is_closed()) return;
  seat.is_ending = true;
  for (Asked& asked : seat.open) asked.is_ended = true;
  seat.http1->end();
}

void Trial::stop_one() {
  Seat& seat = seats_[dice_(seats_.size())];
  for (Asked& asked : seat.open) asked.is_ended = asked.may_fail = true;
  ++tally.stopped;
  seat.connection().finish();
  EXPECT_TRUE(seat.connection().is_closed());
}

// ---- The account: foreseen answers ----

// The units that a take can get. Below 0 after a reload with a smaller quota, or if others wait.
int64_t Trial::free_of(const std::string& counter) const {
  const auto at = model_.counters.find(counter);
  int64_t free =
      model_.quota_of(counter).value_or(0) - (at == model_.counters.end() ? 0 : at->second.used);
  for (const Seat& seat : seats_)
    for (const Asked& asked : seat.open)
      if (asked.arrival > 0 && asked.parts[0].counter == counter) free -= asked.parts[0].n;
  return free;
}

// The status of a take of `part`; 0 if it cannot be foreseen.
int Trial::take_status(const Part& part, int64_t free) const {
  if (const auto algorithm = model_.override_of(part.counter))
    return *algorithm == limit::Algorithm::deny ? 429 : 200;
  if (!model_.quota_of(part.counter)) return 404;
  if (model_.fails) return 503;
  const auto at = model_.counters.find(part.counter);
  if (at != model_.counters.end() && at->second.unheard > 0) return 0;
  return part.n <= free ? 200 : 429;
}

void Trial::foresee(Asked& asked) {
  if (asked.what >= What::all) return foresee_several(asked);
  const Part& part = asked.parts.front();
  const int status = take_status(part, free_of(part.counter));
  asked.each = {status};
  switch (asked.what) {
    case What::peek:
      asked.status = status == 429 ? 200 : status;
      return;
    case What::put:
    case What::reset:
      asked.status = status == 404 || status == 503 ? status : 200;
      return;
    case What::wait:
      asked.parks = status == 429 && !model_.override_of(part.counter) &&
                    part.n <= model_.quota_of(part.counter).value_or(0);
      asked.status = asked.parks ? 0 : status;
      return;
    default:
      asked.status = status;
  }
}

void Trial::foresee_several(Asked& asked) {
  std::map<std::string, int64_t> free;
  for (const Part& part : asked.parts) free[part.counter] = free_of(part.counter);
  bool denied = false, unknown = false;
  int problem = 0;
  for (const Part& part : asked.parts) {
    const int status = take_status(part, free[part.counter]);
    asked.each.push_back(status);
    denied |= status == 429, unknown |= status == 0;
    if (status == 404 || status == 503) problem = status;
    if (asked.what == What::all || status == 200) free[part.counter] -= part.n;
  }
  const bool decided =
      std::ranges::any_of(asked.each, [](int one) { return one < 404 || one == 429; });
  if (asked.what == What::batch)
    asked.status = 200;
  else if (unknown || (asked.what == What::all && model_.fails))
    asked.status = 0;
  else if (asked.what == What::all)
    asked.status = std::ranges::count(asked.each, 404) > 0 ? 404 : denied ? 429 : 200;
  else
    asked.status = denied ? 429 : !decided ? problem : 200;
  if (asked.what == What::all) asked.each.clear();
}

namespace {

TEST(HttpCrossing, EveryGrantIsAccountedForAndNothingIsLeft) {
  Tally all;
  for (uint32_t seed = 1; seed <= 500 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed);
    trial.run(150);
    trial.finish();
    all.add(trial.tally);
  }
  if (HasFailure()) return;
  std::printf(
      "%zu foreseen, %zu granted, %zu denied, %zu late, %zu timed out, %zu failed, %zu without a "
      "rule, %zu reset, %zu unheard of, %zu stopped, %zu put off\n",
      all.foreseen, all.granted, all.denied, all.late, all.timed_out, all.failed, all.unmatched,
      all.reset, all.unheard, all.stopped, all.put_off);
  for (const size_t count : {all.late, all.timed_out, all.reset, all.stopped})
    EXPECT_GT(count, 100u);
  for (const size_t count : {all.unheard, all.failed}) EXPECT_GT(count, 20u);
  EXPECT_GT(all.foreseen, 5'000u);
  EXPECT_GT(all.granted, 3'000u);
  EXPECT_GT(all.denied, 3'000u);
  EXPECT_GT(all.put_off, 1'000u);
}

}  // namespace
}  // namespace sluice::http::crossing_trial
