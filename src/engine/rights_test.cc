// The rights of users across protocols: those whose clients know no tokens are as without users;
// of the others random users with random rights and patterns, and random requests by three
// protocols, whose users are replaced in between: each answer and each counter is as a model says
// that knows texts alone.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "protocol/droplet/message.h"
#include "protocol/limitd/message.h"
#include "protocol/protocol.h"
#include "request/peer.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::engine::rights_test {
namespace {

using access::Right;

constexpr const char* rules =
    "rules:\n"
    "- { name: a, match: { ip: '*' }, actor: ip, then: continue, limit: { quota: 100000, window: "
    "1h, algorithm: fixed_window } }\n"
    "- { name: trial, mode: shadow, match: { ip: '*' }, limit: { quota: 1, window: 1h } }\n"
    "- { name: b, match: { tenant: '*' }, actor: tenant, limit: { quota: 100000, window: 1h, "
    "algorithm: fixed_window } }\n";
constexpr std::array ips = {"", "1", "12", "2"}, tenants = {"", "t1", "t2", "x"};
constexpr std::array patterns = {"a", "a:*",  "a:1*", "a:12", "a:2",
                                 "b", "b:t*", "b:t1", "*",    "b:x"};

// What a request names: an address, a tenant or both, and units.
struct Part {
  std::string ip, tenant;
  int units = 1;
  bool gives_back = false;

  std::vector<std::string> counters() const {
    std::vector<std::string> all;
    if (!ip.empty()) all.push_back("a:" + ip);
    if (!tenant.empty()) all.push_back("b:" + tenant);
    return all;
  }
  std::string json() const {
    return std::string("{") + (ip.empty() ? "" : R"("ip": ")" + ip + "\"") +
           (ip.empty() || tenant.empty() ? "" : ", ") +
           (tenant.empty() ? "" : R"("tenant": ")" + tenant + "\"") + "}";
  }
  std::string words() const {
    return "ENTRIES " + std::to_string((ip.empty() ? 0 : 1) + (tenant.empty() ? 0 : 1)) +
           (ip.empty() ? "" : " ip=" + ip) + (tenant.empty() ? "" : " tenant=" + tenant);
  }
  std::string descriptor() const {
    std::string entries;
    for (const auto& [key, value] : {std::pair("ip", ip), std::pair("tenant", tenant)})
      if (!value.empty())
        entries += std::string(entries.empty() ? "" : ", ") + R"({"key": ")" + key +
                   R"(", "value": ")" + value + "\"}";
    return R"({"entries": [)" + entries + R"(], "hits_addend": )" + std::to_string(units) +
           (gives_back ? R"(, "is_negative_hits": true})" : "}");
  }
};

// The model of a user: which right it has, and of each right the patterns; none: all counters.
struct ModelUser {
  std::array<bool, 4> rights{};
  std::array<std::vector<std::string>, 4> only{};

  bool may(Right right) const { return rights[static_cast<size_t>(right)]; }
  bool reaches(Right right, const Part& part) const {
    const auto& all = only[static_cast<size_t>(right)];
    if (all.empty()) return true;
    return std::ranges::all_of(part.counters(), [&](const std::string& counter) {
      return std::ranges::any_of(all, [&](const std::string& pattern) {
        if (pattern.back() == '*')
          return counter.starts_with(pattern.substr(0, pattern.size() - 1));
        return pattern == counter || pattern == counter.substr(0, 1);
      });
    });
  }
};

class Sessions {
 public:
  Sessions() {
    auto set = std::make_shared<policy::RuleSet>(protocol::dialects());
    base::Diagnostics diagnostics;
    policy::read_native(rules, "test.yaml", spaces_, *set, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    live_ = std::make_unique<live::Live>(live::LivePolicy{std::move(set)});
    engine_ = std::make_unique<Engine>(
        Engine::Deps{.store = store_, .clock = clock_, .live = *live_, .spaces = &spaces_},
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
    for (const char* name : {"http", "resp", "envoy"}) {
      auto& one = sessions_[name];
      one.protocol = protocol::find(name).value();
      const protocol::Description& its = describe(one.protocol);
      if (its.make_worker_state != nullptr) one.worker = its.make_worker_state();
      one.session = its.make_session({.access = &access, .worker = one.worker.get()});
    }
  }

  std::string say(const std::string& name, const std::string& text) {
    auto& one = sessions_.at(name);
    std::string in = text, all;
    while (!in.empty()) {
      Batch& batch = engine_->next_batch();
      base::Buffer out;
      const request::Received received = one.session->receive(in, false, batch.requests, out);
      const bool asks = batch.requests.size() > 0;
      if (asks) {
        EXPECT_EQ(engine_->serve(batch, one.protocol, *one.session, out), Served::all);
      }
      all += out.view();
      in.erase(0, received.consumed);
      if (received.consumed == 0 && !asks) break;
    }
    EXPECT_TRUE(in.empty()) << name << ": " << text;
    return all;
  }
  // The answer to a POST, with its status first.
  std::string post(const std::string& name, const std::string& path, const std::string& token,
                   const std::string& body) {
    return say(name, "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
                         token + "\r\nContent-Type: application/json\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n\r\n" + body)
        .substr(9);
  }

  access::Access access;

 private:
  struct One {
    protocol::Protocol protocol{};
    std::unique_ptr<request::WorkerState> worker;
    std::unique_ptr<request::Session> session;
  };
  request::Spaces spaces_;
  base::Clock clock_{{[] { return int64_t{1'800'000'000'000'000}; },
                      [] { return int64_t{1'800'000'000'000'000}; }}};
  store::EmbeddedStore store_{0, base::Hash(1), spaces_};
  std::unique_ptr<live::Live> live_;
  std::unique_ptr<Engine> engine_;
  std::map<std::string, One> sessions_;
};

class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed) { replace_users(); }

  void step() {
    if (one_in(10)) replace_users();
    const std::string name = pick(names);
    switch (below(3)) {
      case 0:
        ask_http(name);
        break;
      case 1:
        ask_resp(name);
        break;
      default:
        ask_envoy(name);
    }
  }
  // Each counter has what the model says.
  void check() {
    for (const char* ip : ips)
      if (*ip != 0) check_one("a:" + std::string(ip), {.ip = ip, .tenant = {}});
    for (const char* tenant : tenants)
      if (*tenant != 0) check_one("b:" + std::string(tenant), {.ip = {}, .tenant = tenant});
  }
  size_t permitted = 0, refused = 0, unknown = 0;

 private:
  static constexpr std::array names = {"one", "two", "three"};

  size_t below(size_t count) { return random_() % count; }
  template <class List>
  typename List::value_type pick(const List& list) {
    return list[below(list.size())];
  }
  bool one_in(size_t n) { return below(n) == 0; }

  void replace_users() {
    users_.clear();
    std::vector<access::User> all = {
        {"ops", {Right::take, Right::put, Right::look}, access::digest_of("ops")}};
    for (const char* name : names) {
      if (one_in(6)) continue;
      ModelUser& model = users_[name];
      access::User user{name, {}, access::digest_of(name)};
      for (size_t i = 0; i < 4; ++i) {
        if (one_in(5)) continue;
        model.rights[i] = true;
        user.rights.add(static_cast<Right>(i));
        if (static_cast<Right>(i) == Right::admin || one_in(3)) continue;
        for (size_t count = 1 + below(4); count > 0; --count)
          model.only[i].emplace_back(pick(patterns));
        user.reach[i] = access::Reach(model.only[i]);
      }
      all.push_back(std::move(user));
    }
    world_.access.set(std::make_shared<const access::Users>(std::move(all)));
  }

  Part random_part() {
    Part part;
    do {
      part.ip = pick(ips);
      part.tenant = pick(tenants);
    } while (part.counters().empty());
    part.units = static_cast<int>(1 + below(3));
    return part;
  }
  std::vector<Part> random_parts(size_t most) {
    std::vector<Part> parts(1 + below(most));
    for (Part& part : parts) part = random_part();
    return parts;
  }

  enum class Answer { permitted, refused, unknown };
  // What a message of these parts gets; charges what it charges.
  Answer judge(const std::string& name, Right right, const std::vector<Part>& parts) {
    const auto user = users_.find(name);
    if (user == users_.end()) {
      ++unknown;
      return Answer::unknown;
    }
    const bool may = user->second.may(right) && std::ranges::all_of(parts, [&](const Part& part) {
                       const Right its = part.gives_back ? Right::put : right;
                       return user->second.may(its) && user->second.reaches(its, part);
                     });
    ++(may ? permitted : refused);
    if (!may) return Answer::refused;
    if (right == Right::look) return Answer::permitted;
    for (const Part& part : parts)
      for (const std::string& counter : part.counters()) {
        int& used = used_[counter];
        used = part.gives_back || right == Right::put ? std::max(0, used - part.units)
                                                      : used + part.units;
      }
    return Answer::permitted;
  }

  void ask_http(const std::string& name) {
    struct Form {
      const char* path;
      Right right;
      size_t most;
    };
    static constexpr std::array<Form, 6> forms = {{{"/v1/take", Right::take, 4},
                                                   {"/v1/batch", Right::take, 6},
                                                   {"/v1/charge", Right::take, 3},
                                                   {"/v1/peek", Right::look, 3},
                                                   {"/v1/put", Right::put, 3},
                                                   {"/v1/wait", Right::take, 1}}};
    const Form form = pick(forms);
    const std::vector<Part> parts = random_parts(form.most);
    std::string body;
    if (parts.size() == 1 && form.path != std::string_view("/v1/batch")) {
      body =
          R"({"n": )" + std::to_string(parts[0].units) + R"(, "entries": )" + parts[0].json() + "}";
    } else {
      for (const Part& part : parts)
        body += std::string(body.empty() ? "" : ", ") + R"({"n": )" + std::to_string(part.units) +
                R"(, "entries": )" + part.json() + "}";
      const bool has_mode =
          form.path == std::string_view("/v1/take") || form.path == std::string_view("/v1/peek");
      body = R"({"takes": [)" + body + "]" + (has_mode && one_in(2) ? R"(, "mode": "each"})" : "}");
    }
    const std::string said = world_.post("http", form.path, name, body);
    expect(said.substr(0, 3), judge(name, form.right, parts), {"200", "403", "401"},
           form.path + (" " + body + " by " + name + ": " + said));
  }

  void ask_resp(const std::string& name) {
    struct Form {
      const char* command;
      Right right;
    };
    static constexpr std::array<Form, 5> forms = {{{"SLUICE.TAKE ", Right::take},
                                                   {"SLUICE.CHARGE ", Right::take},
                                                   {"SLUICE.PEEK ", Right::look},
                                                   {"SLUICE.PUT ", Right::put},
                                                   {"SLUICE.MTAKE ", Right::take}}};
    const Form form = pick(forms);
    const bool is_several = form.command == std::string_view("SLUICE.MTAKE ");
    std::vector<Part> parts = random_parts(is_several ? 4 : 1);
    std::string command = form.command + (is_several ? std::to_string(parts.size()) + " " : "");
    for (Part& part : parts) {
      part.units = parts[0].units;
      command += part.words() + " ";
    }
    command += (is_several && one_in(2) ? "EACH N " : "N ") + std::to_string(parts[0].units);
    // The connection stays who it is as long as the list has that user. RESET ends that.
    world_.say("resp", "RESET\r\n");
    const bool is_known = world_.say("resp", "AUTH " + name + "\r\n") == "+OK\r\n";
    EXPECT_EQ(is_known, users_.contains(name));
    if (one_in(3)) replace_users();
    const std::string said = world_.say("resp", command + "\r\n");
    const Answer answer = is_known ? judge(name, form.right, parts) : Answer::unknown;
    const std::string kind = said.starts_with("-NOAUTH")   ? "-NOAUTH"
                             : said.starts_with("-NOPERM") ? "-NOPERM"
                                                           : said.substr(0, 1);
    expect(kind, answer, {"*", "-NOPERM", "-NOAUTH"}, command + " by " + name + ": " + said);
  }

  void ask_envoy(const std::string& name) {
    std::vector<Part> parts = random_parts(4);
    std::string descriptors;
    for (Part& part : parts) {
      part.gives_back = one_in(4);
      descriptors += (descriptors.empty() ? "" : ", ") + part.descriptor();
    }
    const std::string body = R"({"domain": "d", "descriptors": [)" + descriptors + "]}";
    const std::string said = world_.post("envoy", "/json", name, body);
    expect(said.substr(0, 3), judge(name, Right::take, parts), {"200", "403", "401"},
           body + " by " + name + ": " + said);
  }

  static void expect(const std::string& said, Answer answer,
                     const std::array<const char*, 3>& answers, const std::string& about) {
    EXPECT_EQ(said, answers[static_cast<size_t>(answer)]) << about;
  }

  void check_one(const std::string& counter, const Part& part) {
    const std::string said =
        world_.post("http", "/v1/peek", "ops", R"({"n": 0, "entries": )" + part.json() + "}");
    const size_t at = said.find("\"remaining\": ");
    ASSERT_NE(at, std::string::npos) << said;
    EXPECT_EQ(100'000 - std::stoi(said.substr(at + 13)), used_[counter]) << counter;
  }

  std::mt19937 random_;
  Sessions world_;
  std::map<std::string, ModelUser> users_;
  std::map<std::string, int> used_;
};

TEST(RightsModel, EachAnswerAndCounterIsAsTheModelSays) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    for (int i = 0; i < 400 && !testing::Test::HasFailure(); ++i) {
      model.step();
      if (i % 40 == 39) model.check();
    }
    EXPECT_GT(model.permitted, 80u);
    EXPECT_GT(model.refused, 80u);
    EXPECT_GT(model.unknown, 10u);
  }
}

// ---- Protocols whose clients know no tokens ----

std::string masked(std::string_view message) {
  constexpr std::string_view handshake =
      "GET / HTTP/1.1\r\nHost: localhost:3000\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  std::string bytes(handshake);
  bytes += '\x82';
  bytes += static_cast<char>(0x80u | message.size());
  return bytes.append(4, '\0').append(message);
}

// The verbs of each such protocol as its clients send them.
std::map<std::string_view, std::vector<std::string>> verbs_without_users() {
  std::map<std::string_view, std::vector<std::string>> all;
  all["divvy"] = {"HIT a=b\n"};
  for (const bool reset : {false, true})
    for (const uint32_t type : {0u, droplet::query_type}) {
      droplet::DropletRequest request{.bucket = "b", .id = "i", .reset = reset, .type = type};
      request.limits[0] = 3;
      base::Buffer bytes;
      append_droplet_request(request, bytes);
      all["droplet"].push_back(masked(bytes.view()));
    }
  using limitd::LimitdMethod;
  for (const LimitdMethod method : {LimitdMethod::take, LimitdMethod::wait, LimitdMethod::put,
                                    LimitdMethod::status, LimitdMethod::ping, LimitdMethod::get}) {
    base::Buffer bytes;
    limitd::append_limitd_request({.id = {"1"}, .type = "ip", .key = "k", .method = method}, bytes);
    all["limitd"].emplace_back(bytes.view());
  }
  return all;
}

// The requests of a session for these bytes, and what it answers by itself.
std::string asked_by(protocol::Protocol number, const access::Access* access,
                     const std::string& bytes) {
  const protocol::Description& its = describe(number);
  const auto worker = its.make_worker_state == nullptr ? nullptr : its.make_worker_state();
  const auto session = its.make_session({.access = access, .worker = worker.get()});
  request::Requests requests;
  base::Buffer out;
  std::string all, in = bytes;
  while (!in.empty()) {
    requests.clear();
    const request::Received received = session->receive(in, false, requests, out);
    for (const request::Request& request : requests.items()) {
      all += std::string(name_of(request.verb)) + " " + std::to_string(request.cost);
      for (const request::Entry& entry : requests.descriptor(request))
        all += " " + std::string(entry.key) + "=" + std::string(entry.value);
      all += "\n";
    }
    EXPECT_FALSE(requests.has_guarded());
    EXPECT_FALSE(received.closing) << session->fault().code;
    if (received.consumed == 0) break;
    in.erase(0, received.consumed);
  }
  EXPECT_TRUE(in.empty());
  return all + std::string(out.view());
}

TEST(Rights, AreEverybodysWhereAProtocolKnowsNoTokens) {
  const access::Access users{std::make_shared<const access::Users>(
      std::vector<access::User>{{"app", {Right::look}, access::digest_of("app")}})};
  const auto verbs = verbs_without_users();
  for (const protocol::Protocol number : protocol::numbers()) {
    const protocol::Description& its = describe(number);
    if (its.authenticates) continue;
    const auto found = verbs.find(its.name);
    ASSERT_NE(found, verbs.end()) << its.name << " has no line in this test";
    for (const std::string& bytes : found->second) {
      const std::string asked = asked_by(number, &users, bytes);
      EXPECT_NE(asked, "") << its.name;
      EXPECT_EQ(asked, asked_by(number, nullptr, bytes)) << its.name;
    }
  }
}

}  // namespace
}  // namespace sluice::engine::rights_test
