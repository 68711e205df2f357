// For tests of commands that charge counters: a session that is served by an engine with the table
// in memory, with some rules, at a time that the test sets. Single-threaded.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"
#include "request/charge_ids.h"
#include "request/peer.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/holds.h"

namespace sluice::resp::commands_test {

inline constexpr int64_t second = 1'000'000;

inline int64_t now_us;  // the clock of the world; a test has one world at a time

struct View final : request::ServerView {
  std::string_view version() const override { return "1.2.3"; }
  request::ServerFigures figures() const override { return {}; }
};

struct World {
  // `more_rules`: further rules as YAML, added to those below.
  explicit World(const RespOptions& its_options = {}, const std::string& more_rules = "")
      : options(its_options), session(peer()) {
    now_us = 1'795'000'000 * second;
    static const protocol::Protocol number = protocol::find("resp").value();
    protocol = number;
    auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
    base::Diagnostics diagnostics;
    policy::read_native(
        "rules:\n"
        "- { name: login, match: { path: /login }, actor: ip, limit: { quota: 3, window: 1m, "
        "algorithm: fixed_window } }\n"
        "- { name: vip, match: { command: cl.throttle, key: 'vip*' }, actor: key, limit: { quota: "
        "2, window: 10s, algorithm: fixed_window } }\n"
        "- { match: { command: '*', key: 'no*' }, deny: true }\n"
        "- { match: { command: cl.throttle, key: 'jar*' }, actor: key, limit: { quota: 1, "
        "algorithm: fixed_bucket } }\n"
        "- { match: { user: '*' }, actor: user, limit: { quota: 7, window: 1h } }\n" +
            more_rules,
        "test.yaml", spaces, *rules, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    add_throttle_rules(spaces, *rules, options);
    live = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine = std::make_unique<engine::Engine>(
        engine::Engine::Deps{.store = store,
                             .clock = clock,
                             .live = *live,
                             .spaces = &spaces,
                             .holds = &holds,
                             .wake = [] {}},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  request::Peer peer() {
    return {.server = &view, .options = &options, .clock = &clock, .charge_ids = ids.get()};
  }

  // The replies of a session to inline commands.
  std::string say(RespSession& one, std::string text) {
    base::Buffer replies;
    while (!text.empty()) {
      engine::Batch& batch = engine->next_batch();
      base::Buffer out;
      const auto received = one.receive(text, false, batch.requests, out);
      const size_t asked = batch.requests.size();
      if (received.consumed == 0 && asked == 0) break;
      most_asked = std::max(most_asked, asked);
      if (asked > 0) {
        EXPECT_EQ(engine->serve(batch, protocol, one, out), engine::Served::all);
      }
      replies.append(out.view());
      text.erase(0, received.consumed);
    }
    return std::string(replies.view());
  }
  std::string say(const std::string& text) { return say(session, text); }
  // The integers of a reply, separated by blanks; or the line of its error.
  std::string numbers(const std::string& command) {
    const std::string reply = say(command + "\n");
    std::string words;
    for (size_t at = reply.find(':'); at != reply.npos; at = reply.find(':', at + 1))
      words += (words.empty() ? "" : " ") + reply.substr(at + 1, reply.find('\r', at) - at - 1);
    return reply.starts_with('-') ? reply.substr(0, reply.find('\r')) : words;
  }

  size_t most_asked = 0;  // the most requests of one batch so far
  const RespOptions options;
  const View view;
  protocol::Protocol protocol{};
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  store::Holds holds{store, spaces, {}};
  std::unique_ptr<live::Live> live;
  std::unique_ptr<engine::Engine> engine;
  const std::unique_ptr<request::ChargeIds> ids = std::make_unique<request::ChargeIds>();
  RespSession session;
};

}  // namespace sluice::resp::commands_test
