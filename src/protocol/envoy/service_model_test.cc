// Random messages over random connections against the naive service of service_model_test.h, which
// has no rules, engine or table; crossed with reloads, steps of the clock, lost clients, deadlines,
// and a store that answers late or fails.
#include "protocol/envoy/service_model_test.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/envoy/recorded_test.h"
#include "protocol/envoy/service_world_test.h"
#include "tests/support/dice.h"

namespace sluice::envoy::service_model_test {
namespace {

using namespace service_world;
using recorded::by_bytes;
using recorded::bytes_as_json;
using tests::Dice;

std::string number(Dice& dice, std::initializer_list<uint32_t> numbers) {
  return std::to_string(*(numbers.begin() + dice(numbers.size())));
}

// How the descriptors of a message are charged.
enum class Charging { each, sparing, all_or_nothing };

// A random policy: the keys are always the same; numbers, units and modes differ.
Files some_files(Dice& dice, Charging charging) {
  const auto unit = [&] {
    static constexpr const char* units[] = {"second", "minute", "hour", "day", "week", "month"};
    return std::string(units[dice(std::size(units))]);
  };
  const auto limit = [&](const std::string& more = "") {
    return "{unit: " + unit() + ", requests_per_unit: " + number(dice, {0, 1, 3, 20}) + more + "}";
  };
  const auto flag = [&](const std::string& name) {
    // With `sparing`, no limit is in shadow mode or a quota: such limits settle by themselves,
    // which the naive service does not model then.
    const bool is_told_apart = charging != Charging::sparing || name == "share_threshold";
    return dice(4) == 0 && is_told_apart ? std::string(", ") + name + ": true" : std::string();
  };
  std::string text = "domain: d\ndescriptors:\n";
  text += "  - {key: a, rate_limit: " + limit(", name: one") + flag("shadow_mode") +
          flag("quota_mode") + "}\n";
  text +=
      "  - {key: a, value: x, rate_limit: " + limit(", name: two, replaces: [{name: one}]") + "}\n";
  text += "  - {key: b, value: \"p*\"" + flag("share_threshold") + ", rate_limit: " + limit() +
          ", descriptors: [{key: c, rate_limit: " + limit() + flag("shadow_mode") + "}]}\n";
  text += "  - {key: b, rate_limit: {unlimited: true, name: one}}\n";
  if (dice(3) == 0) text += "  - {key: late, rate_limit: " + limit() + "}\n";
  return {{"limits.yaml", text}};
}

proto::RateLimitRequest some_request(Dice& dice, Charging charging) {
  proto::RateLimitRequest request;
  request.set_domain(dice(12) == 0 ? "other" : "d");
  if (dice(3) == 0) request.set_hits_addend(dice(4u));
  for (int n = 1 + dice(3); n > 0; --n) {
    auto* const descriptor = request.add_descriptors();
    static constexpr std::pair<const char*, const char*> entries[] = {
        {"a", "x"}, {"a", "y"}, {"a", ""}, {"b", "p1"}, {"b", "p2"}, {"b", "q"}, {"late", "z"}};
    const auto& [key, value] = entries[dice(std::size(entries))];
    auto* const entry = descriptor->add_entries();
    entry->set_key(key);
    entry->set_value(value);
    if (dice(5) == 0) {
      auto* const inner = descriptor->add_entries();
      inner->set_key("c");
      inner->set_value("v");
    }
    if (dice(4) == 0)
      descriptor->mutable_hits_addend()->set_value(dice(8) == 0 ? UINT64_MAX - dice(3u) : dice(5u));
    // All or nothing, one counter under two limits is an error, so no limits come with requests.
    if (dice(6) == 0 && charging != Charging::all_or_nothing) {
      auto* const limit = descriptor->mutable_limit();
      limit->set_requests_per_unit(dice(5u));
      // 0 and 9 are not numbers of units.
      const int unit = dice(20) == 0 ? 0 : dice(30) == 0 ? 9 : 1 + dice(7);
      limit->set_unit(static_cast<proto::RateLimitUnit>(unit));
    }
    if (dice(8) == 0 && charging != Charging::sparing) descriptor->set_is_negative_hits(true);
  }
  return request;
}

// Whether a counter is so large that the two services may differ: the table stops counting at
// 2^53-1, the naive service at 2^63-1. Both are above any limit, but a refund gives different
// counts then.
bool tells_large_counts_apart(const naive::Service& service) {
  for (const auto& [key, count] : service.counters)
    if (count >= int64_t{1} << 53) return true;
  return false;
}

void play(uint32_t seed, Charging charging) {
  SCOPED_TRACE(seed);
  Dice dice(seed);
  World world;
  naive::Service service;
  service.options.stop_when_over = world.options.sparing = charging == Charging::sparing;
  service.options.all_or_nothing = world.options.all_or_nothing =
      charging == Charging::all_or_nothing;
  service.options.response.shadow = world.options.response.shadow = dice(5) == 0;
  service.options.response.quota = world.options.response.quota = dice(5) == 0;
  service.options.response.dynamic_metadata = world.options.response.dynamic_metadata =
      dice(3) == 0;
  if (dice(2) == 0)
    service.options.response.headers = world.options.response.headers = HeaderStyle::both;
  const auto load = [&] {
    service.files = some_files(dice, charging);
    service.load();
    ASSERT_TRUE(world.load(service.files));
  };
  load();
  std::vector<std::unique_ptr<GrpcClient>> clients;
  for (size_t piece : {size_t{3}, SIZE_MAX, SIZE_MAX})
    clients.push_back(std::make_unique<GrpcClient>(world, piece));
  for (int step = 0; step < 60; ++step) {
    SCOPED_TRACE(step);
    if (dice(15) == 0) load();
    if (dice(6) == 0) {
      const int64_t lengths[] = {1'000, 999'999, 1'000'000, 30'000'000, 3'600'000'000};
      world.sleep_us(lengths[dice(std::size(lengths))]);
    }
    if (dice(10) == 0) clients[dice(clients.size())] = std::make_unique<GrpcClient>(world);
    service.now = World::now_s();
    const proto::RateLimitRequest asked = some_request(dice, charging);
    SCOPED_TRACE(asked.ShortDebugString());
    const std::string message = asked.SerializeAsString();
    RateLimitRequest request;
    ASSERT_EQ(read_request(message, request), ReadProblem::none);
    RateLimitResponse expected;
    const auto problem = service.ask(request, expected);
    if (tells_large_counts_apart(service)) return;
    const GrpcAnswer answer = clients[dice(clients.size())]->call(message);
    if (problem) {
      ASSERT_EQ(answer.code, problem->grpc_code);
      ASSERT_EQ(answer.text, problem->message);
      continue;
    }
    ASSERT_EQ(answer.code, 0u) << answer.text;
    ASSERT_EQ(bytes_as_json(answer.message), by_bytes(expected));
  }
}

void play_all(Charging charging) {
  for (uint32_t seed = 0; seed < 400 && !testing::Test::HasFailure(); ++seed) play(seed, charging);
}

TEST(EnvoyServiceModel, AnswersAsTheNaiveServiceDoes) {
  play_all(Charging::each);
}
TEST(EnvoyServiceModel, SparesAsTheNaiveServiceDoes) {
  play_all(Charging::sparing);
}
TEST(EnvoyServiceModel, ChargesAllOrNothingAsTheNaiveServiceDoes) {
  play_all(Charging::all_or_nothing);
}

// ---- A store that answers late ----

size_t messages_of(GrpcClient& client, uint32_t stream) {
  client.answer_of(stream);
  return client.peer.answers[stream].body.size() / 7;  // prefix and status
}

// Each charge of a counter gives a count that no other charge gives, because windows are a year
// long. So the counts that clients receive show that each call was charged once, also if its client
// did not receive the answer. With `Trouble`, some calls are not charged at all.
enum class Trouble { none, failures, deadlines };

void play_late(uint32_t seed, Trouble trouble) {
  SCOPED_TRACE(seed);
  Dice dice(seed);
  World world;
  const bool all_or_nothing = dice(3) == 0;
  if (all_or_nothing) world.options.all_or_nothing_domains = {"d"};
  const auto load = [&] {
    const auto limit = [&] {
      return "{unit: year, requests_per_unit: " + std::to_string(1'000'000 + dice(1'000)) + "}";
    };
    ASSERT_TRUE(
        world.load({{"l.yaml", "domain: d\ndescriptors:\n  - {key: a, rate_limit: " + limit() +
                                   "}\n  - {key: b, rate_limit: " + limit() + "}\n"}}));
  };
  load();
  world.table.settles = [&](size_t groups) { return dice(3) == 0 ? groups : dice(groups + 1); };
  struct Asked {
    GrpcClient* client;
    uint32_t stream;
    std::vector<std::string> keys;
    bool is_reset;
  };
  std::vector<std::unique_ptr<GrpcClient>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(std::make_unique<GrpcClient>(world));
  std::vector<Asked> asked;
  std::map<std::string, int64_t> asked_of;  // the descriptors that were sent, by key
  std::map<GrpcClient*, uint32_t> watches;
  bool any_left = false;
  const auto name = [&](size_t n) {
    world.table.fails = trouble == Trouble::failures && dice(3) == 0;
    world.table.name(n);
    world.engine().advance();
    world.table.fails = false;
  };
  for (int step = 0; step < 80; ++step) {
    SCOPED_TRACE(step);
    if (dice(12) == 0) load();
    if (dice(4) == 0) world.sleep_us(dice(2'000));
    if (world.table.asked() > 0 && dice(2) == 0) name(dice(world.table.asked()));
    if (!asked.empty() && dice(6) == 0) {
      Asked& one = asked[dice(asked.size())];
      if (one.client->answer_of(one.stream).code == 99) {
        one.client->send(wire::http2_peer::rst_stream(one.stream));
        one.is_reset = true;
      }
    }
    if (dice(40) == 0) {  // a client disconnects, or the server ends its connection
      const size_t n = dice(clients.size());
      base::Buffer out;
      if (dice(2) == 0) clients[n]->connection.session().end(request::Ending::stopping, {}, out);
      std::erase_if(asked, [&](const Asked& one) { return one.client == clients[n].get(); });
      watches.erase(clients[n].get());
      clients[n] = std::make_unique<GrpcClient>(world);
      any_left = true;
    }
    GrpcClient* const client = clients[dice(clients.size())].get();
    if (dice(15) == 0 && !watches.contains(client))
      watches[client] = client->begin("", "/grpc.health.v1.Health/Watch");
    proto::RateLimitRequest request;
    request.set_domain("d");
    Asked one{.client = client, .stream = 0, .keys = {}, .is_reset = false};
    for (int n = 1 + dice(3); n > 0; --n) {
      const std::string key = dice(2) == 0 ? "a" : "b", value = dice(2) == 0 ? "1" : "2";
      // Descriptors of one counter that settle together would receive the same count.
      if (all_or_nothing && std::ranges::count(one.keys, key + "_" + value) > 0) continue;
      auto* const entry = request.add_descriptors()->add_entries();
      entry->set_key(key);
      entry->set_value(value);
      one.keys.push_back(key + "_" + value);
      ++asked_of[one.keys.back()];
    }
    wire::http2_peer::Headers more;
    if (trouble == Trouble::deadlines && dice(2) == 0)
      more.emplace_back("grpc-timeout", std::to_string(dice(3'000)) + "u");
    world.table.fails = trouble == Trouble::failures && dice(6) == 0;
    one.stream = client->begin(request.SerializeAsString(), GrpcClient::should_rate_limit, more);
    world.table.fails = false;
    asked.push_back(one);
  }
  world.table.settles = [](size_t groups) { return groups; };
  while (world.table.asked() > 0) name(0);
  for (const auto& [client, stream] : watches)
    EXPECT_EQ(messages_of(*client, stream), 1u) << "a watching client is notified at once";

  std::map<std::string, std::set<int64_t>> counts;  // the counts that clients received, by key
  for (const Asked& one : asked) {
    const GrpcAnswer answer = one.client->answer_of(one.stream);
    if (one.is_reset) {
      EXPECT_EQ(answer.code, 99u);
      continue;
    }
    if (trouble == Trouble::deadlines && answer.code == 4) continue;
    if (trouble == Trouble::failures && answer.code == 2) continue;
    ASSERT_EQ(answer.code, 0u) << answer.text;
    proto::RateLimitResponse response;
    ASSERT_TRUE(response.ParseFromString(answer.message));
    ASSERT_EQ(static_cast<size_t>(response.statuses_size()), one.keys.size());
    for (int i = 0; i < response.statuses_size(); ++i) {
      const auto& status = response.statuses(i);
      const int64_t count =
          int64_t{status.current_limit().requests_per_unit()} - int64_t{status.limit_remaining()};
      EXPECT_TRUE(counts[one.keys[static_cast<size_t>(i)]].insert(count).second)
          << "two received the same count";
    }
  }
  GrpcClient last(world);
  for (const auto& [key, times] : asked_of) {
    proto::RateLimitRequest request;
    request.set_domain("d");
    auto* const descriptor = request.add_descriptors();
    auto* const entry = descriptor->add_entries();
    entry->set_key(key.substr(0, 1));
    entry->set_value(key.substr(2));
    descriptor->mutable_hits_addend();  // a peek
    const GrpcAnswer answer = last.call(request.SerializeAsString());
    proto::RateLimitResponse response;
    ASSERT_TRUE(response.ParseFromString(answer.message));
    const auto& status = response.statuses(0);
    const int64_t count =
        int64_t{status.current_limit().requests_per_unit()} - int64_t{status.limit_remaining()};
    EXPECT_EQ(count, world.table.charged["envoy:31536000:d_" + key]);
    if (any_left || trouble != Trouble::none)
      EXPECT_LE(count, times);
    else
      EXPECT_EQ(count, times);
    if (!counts[key].empty()) {
      EXPECT_GE(*counts[key].begin(), 1);
      EXPECT_LE(*counts[key].rbegin(), count);
    }
  }
}

void play_late_all(Trouble trouble) {
  for (uint32_t seed = 0; seed < 100 && !testing::Test::HasFailure(); ++seed)
    play_late(seed, trouble);
}

TEST(EnvoyServiceModel, ALateStoreIsChargedOnceForEachCall) {
  play_late_all(Trouble::none);
}
TEST(EnvoyServiceModel, ALateStoreThatFailsChargesNothingTwice) {
  play_late_all(Trouble::failures);
}
TEST(EnvoyServiceModel, ALateStoreWithDeadlinesChargesNothingTwice) {
  play_late_all(Trouble::deadlines);
}

}  // namespace
}  // namespace sluice::envoy::service_model_test
