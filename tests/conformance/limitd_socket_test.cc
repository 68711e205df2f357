// Replays the recordings of limitd 7.0.1 (limitd.json) against the real `sluice limitd` over its
// socket: one server for each configuration, and another one whose counters are in a real Redis.
// Each case has its own connections; cases with pauses run beside the others. Replies are compared
// byte by byte, except for the times in them.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "tests/conformance/limitd_differences.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/redis_server.h"
#include "wire/protobuf.h"

namespace sluice::tests::limitd_socket_test {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

constexpr double reset_slack_s = 0.15;
constexpr Milliseconds silence{300};
// The fastest recorded bucket gets another unit after 50 ms, so a case may take 40 ms more than its
// pauses.
constexpr Milliseconds unit_comes_after{40};
// A restart takes a few milliseconds; the recorded ranges allow 500.
constexpr Milliseconds restart_max{300};
const std::string configs[] = {"main", "over", "string-match", "global-regex", "reload", "dotd"};

const json& recording() {
  static const json all =
      json::parse(std::ifstream(tests::source_path("tests/conformance/limitd.json")));
  return all;
}

std::string bytes_of(const json& hex) {
  const auto text = hex.get<std::string>();
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string id_of(const json& response) {
  const json& id = response.at("request_id");
  return id.is_number() ? "#" + std::to_string(id.get<int64_t>()) : id.get<std::string>();
}

bool same_reset(const json& expected, int64_t reset, double now) {
  if (!expected.is_object()) return reset == expected.get<int64_t>();
  const double in = static_cast<double>(reset) - now;
  return in >= expected.at("reset_in")[0].get<double>() - reset_slack_s &&
         in <= expected.at("reset_in")[1].get<double>() + reset_slack_s;
}

template <class Level>
bool same_level(const json& expected, const Level& level, double now) {
  const json& remaining = expected.at("remaining");
  const bool as_many = remaining.is_array()
                           ? remaining[0] <= level.remaining && level.remaining <= remaining[1]
                           : remaining == level.remaining;
  return as_many && expected.at("limit") == level.limit &&
         same_reset(expected.at("reset"), level.reset, now);
}

std::string to_text(const LimitdReply& r, double now) {
  std::string text = r.kind + " id " + r.id;
  const auto level = [&](const auto& l) {
    text += " remaining " + std::to_string(l.remaining) + " reset " + std::to_string(l.reset);
    if (l.reset != 0) text += " (in " + std::to_string(static_cast<double>(l.reset) - now) + ")";
    text += " limit " + std::to_string(l.limit);
  };
  if (r.kind == "take")
    text += std::string(r.conformant ? " conformant" : " refused") + (r.delayed ? " delayed" : "");
  if (r.kind == "take" || r.kind == "put" || r.kind == "get") level(r);
  for (const auto& item : r.items) {
    text += "\n  " + item.instance;
    level(item);
  }
  return text;
}

bool same_reply(const json& expected, const LimitdReply& reply, double now) {
  if (id_of(expected) != reply.id || !expected.contains(reply.kind)) return false;
  const json& body = expected.at(reply.kind);
  if (reply.kind == "take")
    return body.at("conformant") == reply.conformant && body.at("delayed") == reply.delayed &&
           same_level(body, reply, now);
  if (reply.kind == "put" || reply.kind == "get") return same_level(body, reply, now);
  if (reply.kind != "status") return true;
  const json& items = body.at("items");
  return std::equal(items.begin(), items.end(), reply.items.begin(), reply.items.end(),
                    [&](const json& a, const LimitdReply::Item& b) {
                      return a.at("instance") == b.instance && same_level(a, b, now);
                    });
}

// The frame with its times, which have five bytes each, replaced.
std::string without_times(const LimitdReply& reply) {
  std::string frame = reply.frame;
  std::vector<int64_t> resets{reply.reset};
  for (const auto& item : reply.items) resets.push_back(item.reset);
  size_t from = 0;
  for (const int64_t reset : resets) {
    if (reset == 0) continue;
    char varint[10];
    wire::ProtobufWriter to(varint);
    to.varint(static_cast<uint64_t>(reset));
    const std::string_view bytes(varint, to.end());
    const size_t at = frame.find(bytes, from);
    if (at == std::string::npos) return frame;
    frame.replace(at, bytes.size(), bytes.size(), 't');
    from = at;
  }
  return frame;
}

struct Result {
  std::string wrong;     // empty: all was as expected
  bool in_time = true;   // false: the machine was too slow, and the result means nothing
  size_t differing = 0;  // steps with a listed difference
};

class Replay {
 public:
  Replay(LimitdServer& server, const json& c) : server_(server), case_(c) {}

  Result run() {
    const auto began = steady_clock::now();
    try {
      const json& steps = case_.at("steps");
      for (size_t i = 0; i < steps.size() && result_.wrong.empty(); ++i) {
        step(i, steps[i]);
        if (!result_.wrong.empty())
          result_.wrong = "step " + std::to_string(i) + ": " + result_.wrong;
      }
      if (result_.wrong.empty()) check_open();
    } catch (const std::exception& e) {
      result_.wrong = e.what();
    }
    if (steady_clock::now() - began - paused_ > unit_comes_after) result_.in_time = false;
    return result_;
  }

 private:
  const LimitdDifference* difference(size_t step) const {
    for (const auto& d : limitd_differences())
      if (case_.at("name") == d.name && d.step == step) return &d;
    return nullptr;
  }

  LimitdClient& client(const std::string& name) {
    auto at = clients_.find(name);
    if (at == clients_.end()) at = clients_.emplace(name, server_.client()).first;
    return at->second;
  }

  void step(size_t i, const json& s) {
    if (s.contains("action")) {
      if (s.at("action") == "restart") return restart();
      const std::filesystem::path path = server_.in_place(s.at("path"));
      awaited_change_ = "change " + std::to_string(changes() + 1) + ": ";
      server_.folder().write(path.filename().string(), s.at("text").get<std::string>());
      return;
    }
    const Milliseconds pause(s.value("sleep_ms", 0));
    const auto slept = steady_clock::now();
    std::this_thread::sleep_for(pause);
    if (!awaited_change_.empty() && !server_.process().says(awaited_change_))
      return void(result_.wrong = "the written file was not read");
    awaited_change_.clear();
    paused_ += pause;
    if (steady_clock::now() - slept > pause + Milliseconds(100)) result_.in_time = false;
    LimitdClient& c = client(s.value("conn", "a"));
    const auto sent = steady_clock::now();
    if (s.contains("request_hex") && !c.send(bytes_of(s.at("request_hex"))))
      return void(result_.wrong = "the connection is closed already");
    if (s.value("send_only", false)) {
      if (s.contains("request")) sent_at_[s.at("request").at("id").dump()] = sent;
      return;
    }
    const LimitdDifference* const differs = difference(i);
    json expected = s.at("response");
    json delay = s.value("delay_ms", json::array({0, 500}));
    if (differs != nullptr) {
      expected = json::parse(differs->response);
      delay = {differs->delay_ms[0], differs->delay_ms[1]};
      ++result_.differing;
    }
    const bool closes = s.value("closes", false) && differs == nullptr;
    if (expected.is_null()) return nothing(c, closes, s.value("conn", "a"));

    auto since = sent;
    if (s.value("receive", false)) since = sent_at_.at(expected.at("request_id").dump());
    const auto reply = c.await(id_of(expected));
    const double now = unix_now();
    const auto took = std::chrono::duration_cast<Milliseconds>(steady_clock::now() - since).count();
    if (!reply) return void(result_.wrong = "no reply, expected " + expected.dump());
    if (took > delay[1].get<int64_t>()) result_.in_time = false;
    // Only waits have a minimum time. It counts from before the frame is sent, as in the recording.
    if (took < delay[0].get<int64_t>() || took > delay[1].get<int64_t>())
      result_.wrong = "the reply took " + std::to_string(took) + " ms";
    else if (!same_reply(expected, *reply, now))
      result_.wrong = "expected " + expected.dump() + "\n     got " + to_text(*reply, now);
    else if (differs == nullptr && without_times(*reply) != without_times(parse_limitd_reply(
                                                                bytes_of(s.at("response_hex")))))
      result_.wrong = "other bytes: " + testing::PrintToString(reply->frame);
  }

  // Policies that were read again, taken or refused, since the server started.
  size_t changes() const {
    const std::string log = server_.process().err();
    size_t n = 0;
    while (log.find(" info change " + std::to_string(n + 1) + ": ") != std::string::npos) ++n;
    return n;
  }

  void restart() {
    const auto began = steady_clock::now();
    clients_.clear();
    server_.restart();
    if (steady_clock::now() - began > restart_max) result_.in_time = false;
  }

  void nothing(LimitdClient& c, bool closes, const std::string& name) {
    if (closes) {
      const std::string more = c.tcp().read_to_end();
      if (!more.empty()) result_.wrong = "before the end came " + testing::PrintToString(more);
      clients_.erase(name);
      return;
    }
    if (c.tcp().read_bytes(1, steady_clock::now() + silence) || c.tcp().ended())
      result_.wrong = c.tcp().ended() ? "the connection was closed" : "there was a reply";
  }

  // Each connection still answers, and has received no reply beyond one for each request.
  void check_open() {
    for (auto& [name, c] : clients_) {
      const auto pong = c.await(c.send({LimitdMethod::ping, "", ""}));
      if (!pong || pong->kind != "pong") result_.wrong = "connection " + name + " does not answer";
      if (c.unclaimed() > 0) result_.wrong = "connection " + name + " got a reply twice";
    }
  }

  LimitdServer& server_;
  const json& case_;
  std::map<std::string, LimitdClient> clients_;
  std::map<std::string, steady_clock::time_point> sent_at_;
  std::string awaited_change_;  // in the log once the file that was written last has been read
  Milliseconds paused_{0};      // the sum of the recorded pauses so far
  Result result_;
};

bool restarts(const json& c) {
  const json& steps = c.at("steps");
  return std::any_of(steps.begin(), steps.end(),
                     [](const json& step) { return step.value("action", "") == "restart"; });
}

std::vector<const json*> cases_of(const std::string& config) {
  std::vector<const json*> all;
  for (const json& c : recording().at("cases"))
    if (c.at("config") == config && !restarts(c)) all.push_back(&c);
  return all;
}

std::vector<const json*> cases_that_restart() {
  std::vector<const json*> all;
  for (const json& c : recording().at("cases"))
    if (restarts(c)) all.push_back(&c);
  return all;
}

// `redis`: the Redis that has the server's counters; null: the server has them itself.
std::unique_ptr<LimitdServer> serve(const std::string& config, const RedisServer* redis = nullptr) {
  std::map<std::string, std::string> files;
  if (recording().at("extra_files").contains(config))
    recording().at("extra_files").at(config).get_to(files);
  Process::Options options;
  if (redis != nullptr)
    options.environment = {{"SLUICE_REDIS", redis->address()}, {"SLUICE_ADMIN", "127.0.0.1:0"}};
  auto text = recording().at("configs").at(config).get<std::string>();
  // With counters in Redis, the configuration must not name a folder for them.
  const std::string folder = "db: \"@DB@\"";
  if (redis != nullptr) text.replace(text.find(folder), folder.size(), "db: { inMemory: true }");
  return std::make_unique<LimitdServer>(std::move(text), options, files);
}

// Whether the case has pauses.
bool is_slow(const json& c) {
  const json& steps = c.at("steps");
  return std::any_of(steps.begin(), steps.end(), [](const json& step) {
    const bool silent = step.contains("response") && step.at("response").is_null();
    return step.contains("sleep_ms") || step.value("send_only", false) ||
           (silent && !step.value("closes", false)) ||
           step.value("delay_ms", json::array({0, 0}))[0] > 0;
  });
}

// Replays the cases in order, because some read keys of earlier ones. Cases with pauses do not, and
// run on threads of their own beside them. The cases of `reload`, which change the configuration,
// all run in order.
std::vector<Result> replay_all(LimitdServer& server, const std::string& config,
                               const std::vector<const json*>& cases) {
  std::vector<Result> results(cases.size());
  std::vector<std::thread> sleepers;
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto replay = [&, i] { results[i] = Replay(server, *cases[i]).run(); };
    // A later case reads this one's key.
    const bool looked_at = cases[i]->at("name") == "framing: one request split in two writes";
    if (config == "reload" || looked_at || !is_slow(*cases[i]))
      replay();
    else
      sleepers.emplace_back(replay);
  }
  for (auto& sleeper : sleepers) sleeper.join();
  return results;
}

class LimitdOverSocket : public testing::TestWithParam<std::string> {
 protected:
  void answers_as_recorded();
  std::unique_ptr<RedisServer> redis_;

 private:
  void check_redis() const;
};

void LimitdOverSocket::check_redis() const {
  auto client = redis_->client();
  for (const RedisReply& key : client({"KEYS", "*"}).list)
    EXPECT_TRUE(key.text.starts_with("sluice:limitd:") && client({"PTTL", key.text}).number > 0)
        << "a key that is not sluice's, or never expires: " << key.text;
}

void LimitdOverSocket::answers_as_recorded() {
  const std::vector<const json*> cases = cases_of(GetParam());
  ASSERT_FALSE(cases.empty());
  size_t differing = 0;
  for (const Deadline deadline = soon();;) {
    const bool is_last = steady_clock::now() > deadline;
    bool again = false;
    if (redis_) redis_->client()({"FLUSHALL"});
    const auto server = serve(GetParam(), redis_.get());
    const auto results = replay_all(*server, GetParam(), cases);
    // When Redis is late, the server's own table decides, and the result means nothing.
    if (redis_) {
      const uint16_t admin = await_listening(server->process(), "admin");
      const bool local = sample(admin, "sluice_redis_local_decisions_total") != "0";
      if (local && !is_last) {
        differing = 0;
        continue;
      }
      EXPECT_FALSE(local) << "the machine was too busy";
      check_redis();
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      const Result& result = results[i];
      if (result.wrong.empty()) {
        differing += result.differing;
      } else if (!result.in_time && !is_last) {
        again = true;
      } else {
        ADD_FAILURE() << cases[i]->at("name") << "\n" << result.wrong;
      }
    }
    if (!again) break;
    differing = 0;  // play all cases again, because some read what others did
  }
  size_t listed = 0;
  for (const auto& d : limitd_differences())
    for (const json* c : cases_of(GetParam()))
      if (c->at("name") == d.name) ++listed;
  EXPECT_EQ(differing, listed);
}

TEST_P(LimitdOverSocket, AnswersAsRecorded) {
  answers_as_recorded();
}

class LimitdOverRedis : public LimitdOverSocket {};

TEST_P(LimitdOverRedis, AnswersAsRecorded) {
  redis_ = std::make_unique<RedisServer>();
  answers_as_recorded();
}

std::string config_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, LimitdOverSocket, testing::ValuesIn(configs), config_name);
INSTANTIATE_TEST_SUITE_P(Recorded, LimitdOverRedis, testing::ValuesIn(configs), config_name);

// All 121 cases are replayed, and each listed difference is one.
TEST(LimitdRecordings, AreAllAccountedFor) {
  size_t replayed = 0;
  for (const std::string& config : configs) replayed += cases_of(config).size();
  EXPECT_EQ(replayed + cases_that_restart().size(), recording().at("cases").size());
  EXPECT_EQ(recording().at("cases").size(), 121u);
  for (const auto& d : limitd_differences()) {
    const auto& cases = recording().at("cases");
    const auto found = std::find_if(cases.begin(), cases.end(),
                                    [&](const json& c) { return c.at("name") == d.name; });
    ASSERT_NE(found, cases.end()) << d.name;
    const json& step = found->at("steps").at(d.step);
    const json response = json::parse(d.response);
    EXPECT_TRUE(response != step.at("response") || step.value("closes", false) ||
                step.value("delay_ms", json()) != json({d.delay_ms[0], d.delay_ms[1]}))
        << d.name;
  }
}

// Replays the cases that restart the server on its database, each with its own server.
void expect_to_outlive(const RedisServer* redis) {
  const auto cases = cases_that_restart();
  ASSERT_EQ(cases.size(), 2u);
  for (const json* c : cases) {
    SCOPED_TRACE(c->at("name").get<std::string>());
    const Deadline deadline = soon();
    Result result;
    do {
      if (redis != nullptr) redis->client()({"FLUSHALL"});
      const auto server = serve(c->at("config"), redis);
      result = Replay(*server, *c).run();
    } while (!result.wrong.empty() && !result.in_time && steady_clock::now() < deadline);
    EXPECT_EQ(result.wrong, "");
  }
}

TEST(LimitdRecordings, CountersOutliveTheProcess) {
  expect_to_outlive(nullptr);
}

TEST(LimitdRecordings, CountersInRedisOutliveTheProcess) {
  const RedisServer redis;
  expect_to_outlive(&redis);
}

TEST(LimitdRecordings, CountersInMemoryDoNotOutliveIt) {
  const char* const config = "db: { inMemory: true }\nbuckets: { fixed: { size: 3 } }\n";
  {
    LimitdServer server(config);
    EXPECT_EQ(server.client().take("fixed", "k", 2).remaining, 1);
  }
  LimitdServer server(config);
  EXPECT_EQ(server.client().take("fixed", "k", 2).remaining, 1);
}

}  // namespace
}  // namespace sluice::tests::limitd_socket_test
