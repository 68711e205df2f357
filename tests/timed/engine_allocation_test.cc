// From a session's bytes to its replies, through rules and store, without a socket. After warming
// up, requests of limitd, of droplet and of RESP allocate nothing. (Divvy's requests go through a
// whole server in allocation_test.cc.)
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <string>

#include "base/clock.h"
#include "engine/engine.h"
#include "protocol/droplet/rules.h"
#include "protocol/droplet/session_model.h"
#include "protocol/limitd/rules.h"
#include "protocol/protocol.h"
#include "protocol/resp/dialect.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "tests/support/limitd_client.h"
#include "tests/timed/allocations.h"
#include "wire/resp.h"

namespace sluice::tests {
namespace {

namespace droplet = droplet::model;

class Server {
 public:
  Server() {
    const std::string text =
        "db: { inMemory: true }\nbuckets:\n  bench:\n    size: 1000\n    per_second: 1000\n"
        "    override: { k3: { size: 5 }, any: { match: \"^k7\", size: 9 } }\n";
    const std::array files = {limitd::NamedText{"limitd.yaml", text}};
    auto rules = std::make_shared<policy::RuleSet>();
    limitd::LimitdConfig config;
    base::Diagnostics diagnostics;
    limitd::read_limitd(files, {}, spaces_, *rules, config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    sluice::droplet::add_droplet_rule(spaces_, *rules);
    sluice::resp::add_throttle_rules(spaces_, *rules);
    live_ = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine_ = std::make_unique<engine::Engine>(
        engine::Engine::Deps{.store = store_, .clock = clock_, .live = *live_, .spaces = &spaces_},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // Returns the number of bytes of the replies, 0 if not all requests were served.
  size_t serve(protocol::Protocol protocol, request::Session& session, std::string_view bytes) {
    out_.clear();
    engine::Batch& batch = engine_->next_batch();
    if (session.receive(bytes, false, batch.requests, out_).consumed != bytes.size()) return 0;
    if (engine_->serve(batch, protocol, session, out_) != engine::Served::all) return 0;
    return out_.size();
  }

 private:
  request::Spaces spaces_;
  store::EmbeddedStore store_{size_t{64} << 20, base::Hash(1), spaces_};
  base::Clock clock_;
  std::unique_ptr<live::Live> live_;
  std::unique_ptr<engine::Engine> engine_;
  base::Buffer out_;
};

void expect_no_allocation(protocol::Protocol protocol, const std::string& hello,
                          const std::string& batch) {
  Server server;
  const auto session = protocol::make_session(protocol);
  if (!hello.empty()) {
    ASSERT_GT(server.serve(protocol, *session, hello), 0u);
  }
  // Creates the counters, and lets buffers grow to the longest replies, which are refusals.
  for (int round = 0; round < 100; ++round) ASSERT_GT(server.serve(protocol, *session, batch), 0u);
  const Allocations allocations;
  bool ok = true;
  for (int round = 0; round < 1'000; ++round) ok &= server.serve(protocol, *session, batch) > 0;
  EXPECT_EQ(allocations.count(), 0u);
  EXPECT_TRUE(ok);
}

TEST(EngineAllocation, LimitdsRequestsAllocateNothing) {
  std::string batch;
  for (int i = 0; i < 16; ++i) {
    const std::string key = "k" + std::to_string(i);
    batch += limitd_frame({LimitdMethod::take, "bench", key, 1}, std::to_string(i));
    if (i % 5 == 0) batch += limitd_frame({LimitdMethod::put, "bench", key, 1}, "p");
    if (i % 5 == 1) batch += limitd_frame({LimitdMethod::get, "bench", key}, "g");
    if (i % 5 == 2) batch += limitd_frame({LimitdMethod::take, "unknown", key, 1}, "u");
    if (i % 5 == 3) batch += limitd_frame({LimitdMethod::ping, "", ""}, "pong");
  }
  expect_no_allocation(protocol::find("limitd").value(), "", batch);
}

TEST(EngineAllocation, DropletsRequestsAllocateNothing) {
  std::string batch;
  for (uint32_t i = 0; i < 16; ++i) {
    batch += droplet::frame(2, droplet::bytes_field(1, "bucket:" + std::to_string(i)) +
                                   droplet::bytes_field(2, "id") + droplet::number_field(5, 10) +
                                   droplet::number_field(6, 1'000) +
                                   droplet::number_field(11, i % 7 == 6 ? 1 : 0));
  }
  expect_no_allocation(protocol::find("droplet").value(), std::string(droplet::handshake), batch);
}

TEST(EngineAllocation, CommandsThatThrottleAllocateNothing) {
  std::string batch;
  const auto add = [&](std::initializer_list<std::string_view> words) {
    base::Buffer out;
    wire::append_resp_command(std::span(words.begin(), words.size()), out);
    batch += out.view();
  };
  for (int i = 0; i < 16; ++i) {
    const std::string key = "k" + std::to_string(i), burst = std::to_string(i);
    add({"CL.THROTTLE", key, burst, "30", "60"});
    add({"THROTTLE", key, "5", "30", "60", "1"});
    add({"GCRA", key, burst, "30", "60", "TOKENS", "2"});
    add({"SLUICE.TAKE", "KEY", key, "LIMIT", "10", "60s", "N", "2"});
    add({"SLUICE.CHARGE", "KEY", key, "LIMIT", "10", "60s", "N", "3"});
    add({"PING"});
  }
  expect_no_allocation(protocol::find("resp").value(), "", batch);
}

}  // namespace
}  // namespace sluice::tests
