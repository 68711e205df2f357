// Replays the recordings of the Redis protocol (resp_cases.h) in memory: sessions, engine and the
// table, with a clock that only `sleep` moves. The replies must be the same however the input is
// cut.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "protocol/resp/dialect.h"
#include "request/session.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "tests/conformance/resp_cases.h"

namespace sluice::tests::resp_memory_test {
namespace {

using nlohmann::json;

int64_t now_us;  // the clock of the server; there is one at a time

protocol::Protocol resp_protocol() {
  return protocol::find("resp").value();
}

// The server without its sockets, with only the protocol's own rules.
struct Server {
  Server() {
    now_us = 1'795'000'000'000'000;
    auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
    resp::add_throttle_rules(spaces, *rules);
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<engine::Engine>(
        engine::Engine::Deps{.store = store, .clock = clock, .live = *live, .spaces = &spaces},
        std::make_shared<spdlog::logger>("memory",
                                         std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  void sleep(int64_t ms) {
    now_us += ms * 1000;
    store.housekeep(clock.now());
  }

  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<engine::Engine> engine;
};

// A connection without its socket: it treats its input as server::Connection does.
class Connection {
 public:
  explicit Connection(Server& server)
      : server_(server), session_(protocol::make_session(resp_protocol())) {}

  void send(std::string_view bytes) {
    in_ += bytes;
    base::Buffer out;
    while (!closed_) {
      engine::Batch& batch = server_.engine->next_batch();
      // A copy, so that a sanitizer finds a view that is used for too long.
      const std::string in = in_;
      const auto received = session_->receive(in, false, batch.requests, out);
      const bool asks = batch.requests.size() > 0;
      if (asks) {
        EXPECT_EQ(server_.engine->serve(batch, resp_protocol(), *session_, out),
                  engine::Served::all);
      }
      if (received.closing) {
        session_->end(request::Ending::announced, {}, out);
        closed_ = true;
      }
      in_.erase(0, received.consumed);
      if (received.consumed == 0 && !asks) break;
    }
    out_ += out.view();
  }

  // What the server has sent since the last call.
  std::string take() { return std::exchange(out_, {}); }
  bool closed() const { return closed_; }

 private:
  Server& server_;
  std::unique_ptr<request::Session> session_;
  std::string in_, out_;
  bool closed_ = false;
};

// The answer to a step.
struct Answer {
  std::string replies;
  bool closed = false;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// How the bytes of a step are cut: the bytes of its first piece, and of each further one.
struct Cut {
  size_t step, first, further;
};
constexpr size_t whole = SIZE_MAX;

// Each connection has a unique number. In cases that show it, it becomes #.
std::string without_ids(const RespCase& c, std::string replies) {
  static const std::regex told(R"re((\$2\r\nid\r\n:|id=)\d+)re"),
      alone(R"re((^|\+OK\r\n):\d+\r\n)re");
  const std::string text = c.recorded.dump();
  const auto says = [&](const char* word) {
    return std::regex_search(text, std::regex(word, std::regex::icase));
  };
  if (says("hello|client")) replies = std::regex_replace(replies, told, "$1#");
  if (says("client.{1,16}id\\b")) replies = std::regex_replace(replies, alone, "$1:#\r\n");
  return replies;
}

// Plays a case with one of its steps cut.
std::vector<Answer> play(const RespCase& c, const Cut& cut) {
  Server server;
  std::map<int, Connection> connections;
  std::vector<Answer> answers;
  for (size_t i = 0; i < c.steps().size(); ++i) {
    const json& step = c.steps()[i];
    answers.emplace_back();
    if (step.contains("sleep_ms")) {
      server.sleep(step["sleep_ms"].get<int>());
      continue;
    }
    const bool own = step.contains("raw");
    const int number = own ? -1 : step.value("conn", 0);
    Connection& connection = connections.try_emplace(number, server).first->second;
    const std::string bytes = bytes_of(step);
    size_t size = i == cut.step ? cut.first : whole;
    for (size_t at = 0; at < bytes.size();) {
      const std::string_view piece = std::string_view(bytes).substr(at, size);
      connection.send(piece);
      at += piece.size();
      size = i == cut.step ? cut.further : whole;
    }
    answers.back() = {connection.take(), connection.closed()};
    if (own || connection.closed()) connections.erase(number);
  }
  return answers;
}

std::vector<Answer> play_without_ids(const RespCase& c, const Cut& cut) {
  auto answers = play(c, cut);
  for (Answer& answer : answers) answer.replies = without_ids(c, std::move(answer.replies));
  return answers;
}

class RespInMemory : public testing::TestWithParam<RespCase> {};

TEST_P(RespInMemory, AnswersAsRecorded) {
  const RespCase& c = GetParam();
  if (const std::string why = c.needs_redis(); !why.empty()) GTEST_SKIP() << why;
  const auto answers = play(c, {whole, whole, whole});
  ASSERT_EQ(answers.size(), c.steps().size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(i));
    const auto replies = read_resp(answers[i].replies);  // throws if they are not replies
    if (c.is_open()) continue;
    const RespDue due = due_of(c, c.steps()[i]);
    EXPECT_EQ(answers[i].closed, due.closed);
    ASSERT_EQ(replies.size(), due.replies.size()) << answers[i].replies;
    for (size_t n = 0; n < replies.size(); ++n)
      EXPECT_TRUE(fits(due.replies[n], replies[n]))
          << "expected " << due.replies[n] << "\n     got " << to_text(replies[n]);
  }
}

// Cuts every step of the case in two, at every byte; in the middle of a long step only at some
// bytes.
TEST_P(RespInMemory, AnySplitAnswersTheSame) {
  constexpr size_t end_bytes = 300, stride = 997;
  const RespCase& c = GetParam();
  const auto expected = play_without_ids(c, {whole, whole, whole});
  for (size_t i = 0; i < c.steps().size(); ++i) {
    const size_t size = bytes_of(c.steps()[i]).size();
    for (size_t at = 1; at < size;) {
      ASSERT_EQ(play_without_ids(c, {i, at, whole}), expected) << "step " << i << " cut at " << at;
      const bool middle = size > 4 * end_bytes && at >= end_bytes && at + end_bytes < size;
      at = middle ? std::min(at + stride, size - end_bytes) : at + 1;
    }
    for (const size_t piece : {1u, 2u, 3u, 7u, 61u}) {
      if (size > 4 * end_bytes && piece < 61) continue;
      ASSERT_EQ(play_without_ids(c, {i, piece, piece}), expected)
          << "step " << i << " in pieces of " << piece;
    }
  }
}

void PrintTo(const Answer& answer, std::ostream* out) {
  *out << testing::PrintToString(answer.replies) << (answer.closed ? " and the end" : "");
}

std::string name_of(const testing::TestParamInfo<RespCase>& tested) {
  return tested.param.test_name();
}

INSTANTIATE_TEST_SUITE_P(Recorded, RespInMemory, testing::ValuesIn(recorded_servers()), name_of);
INSTANTIATE_TEST_SUITE_P(Clients, RespInMemory, testing::ValuesIn(recorded_clients()), name_of);

}  // namespace
}  // namespace sluice::tests::resp_memory_test
