// Recorded keys of every protocol, overrides and lists (tests/redis/recorded). A server must
// continue each counter where the one that recorded left it, and make the same keys. A program
// whose keys differ records the file again, with SLUICE_RECORD_KEYS=FILE.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/droplet_client.h"
#include "tests/support/http_client.h"
#include "tests/support/limitd_client.h"
#include "tests/support/paths.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::recorded_keys_test {
namespace {

using nlohmann::ordered_json;
using Words = std::vector<std::string>;

constexpr int64_t year_s = 365 * 86'400;
// How far times may be from the recorded ones, on a busy machine.
constexpr int64_t slack_us = 180'000'000;

// The windows are long, so that no units come back during the test.
const std::string native_rules = R"(rules:
  - name: api
    match: { r: "*" }
    actor: r
    limits:
      - { quota: 20, window: 24h }
      - { algorithm: token_bucket, quota: 1000, window: 240h, burst: 50 }
  - name: jobs
    match: { queue: "*", tenant: "*" }
    actor: [queue, tenant]
    limits: [{ algorithm: sliding_log, quota: 5, window: 24h }]
  - name: seats
    match: { seat: "*" }
    actor: seat
    limits: [{ algorithm: fixed_bucket, quota: 4 }]
)";
const std::string envoy_limits = R"(domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 9 }
  - key: own
    rate_limit: { unit: year, requests_per_unit: 9, algorithm: fixed_window }
)";

class Program {
 public:
  explicit Program(const RedisServer& redis) {
    folder_.write("rules.ini",
                  "[method=GET ip=*]\ncreditLimit = 7\nresetSeconds = 86400\nactorField = ip\n\n"
                  "[default]\ncreditLimit = 1000\nresetSeconds = 86400\n");
    folder_.write("limitd.yaml",
                  "db: { inMemory: true }\nbuckets:\n  fixed:\n    size: 5\n"
                  "  daily:\n    size: 5\n    per_day: 5\n");
    folder_.write("limits/shop.yaml", envoy_limits);
    std::string text = "listen:\n";
    for (const char* protocol : protocols)
      text += std::string("  - { protocol: ") + protocol + ", address: \"127.0.0.1:0\" }\n";
    text += "store: { redis: { nodes: [\"" + redis.address() + "\"], deadline_ms: 20000 } }\n" +
            "policy:\n  - divvy: rules.ini\n  - limitd: limitd.yaml\n  - envoy: limits\n" +
            native_rules;
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.write("sluice.yaml", text),
                                       "--log-level", "info", "--admin", "127.0.0.1:0"}});
    for (const char* protocol : protocols) ports_[protocol] = await_listening(*process_, protocol);
    ports_["admin"] = await_listening(*process_, "admin");
    process_->says(": connected");
  }

  std::string hit(const std::string& line) {
    auto client = TcpClient::connect(ports_["divvy"]);
    const std::string reply = client->ask("HIT " + line);
    return reply.substr(0, reply.rfind(' '));  // without the time
  }
  std::string limitd(const LimitdAsked& asked) {
    LimitdClient client(*TcpClient::connect(ports_["limitd"]));
    const LimitdReply reply = client.ask(asked);
    std::string text = reply.kind + (reply.conformant ? " yes " : " no ") +
                       std::to_string(reply.remaining) + "/" + std::to_string(reply.limit);
    for (const auto& item : reply.items)
      text += "; " + item.instance + " " + std::to_string(item.remaining);
    return text;
  }
  std::string drop(const DropletTake& take) {
    const DropletLeft reply = DropletClient(ports_["droplet"]).ask(take);
    std::string text = reply.accept ? "yes" : "no";
    for (const auto& [period, left] : reply.left) text += " " + period + "=" + std::to_string(left);
    return text;
  }
  // The reply's text, or its first three numbers: the others are times.
  std::string command(const Words& words) {
    const RespValue reply = RespClient(ports_["resp"])(words);
    std::string text = reply.text;
    for (size_t i = 0; i < 3 && i < reply.list.size(); ++i)
      text += std::to_string(reply.list[i].number) + " ";
    return text;
  }
  std::string take(const std::string& body, const std::string& path = "/v1/take") {
    const HttpAnswer answer =
        http(ports_["http"], "POST", path, body, "Content-Type: application/json\r\n");
    const auto json = ordered_json::parse(answer.body, nullptr, false);
    std::string text = std::to_string(answer.status);
    for (const char* name : {"limit", "remaining"})
      if (json.contains(name)) text += " " + json[name].dump();
    return text;
  }
  std::string envoy(const std::string& key, int hits) {
    const ordered_json body = {
        {"domain", "shop"},
        {"hitsAddend", hits},
        {"descriptors", {{{"entries", {{{"key", key}, {"value", "v:_1"}}}}}}}};
    const HttpAnswer answer = http(ports_["envoy"], "POST", "/json", body.dump());
    const auto json = ordered_json::parse(answer.body, nullptr, false);
    std::string text = std::to_string(answer.status);
    if (json.contains("statuses"))
      text += " " + json["statuses"].at(0).value("limitRemaining", ordered_json(0)).dump();
    return text;
  }
  std::string admin(const std::string& method, const std::string& target,
                    const std::string& body = {}) {
    const HttpAnswer answer = http(ports_["admin"], method, target, body);
    return std::to_string(answer.status) + " " + answer.body;
  }

 private:
  static constexpr const char* protocols[] = {"divvy", "limitd", "droplet",
                                              "resp",  "http",   "envoy"};
  Folder folder_;
  std::unique_ptr<Process> process_;
  std::map<std::string, uint16_t> ports_;
};

using Replies = std::vector<std::pair<std::string, std::string>>;

// Sends the same requests of every protocol at each call. Most are of counters that only `actor`
// has.
Replies ask_all(Program& program, const std::string& actor, int64_t count) {
  const std::string n = std::to_string(count);
  const auto entries = [&](const std::string& named) {
    return R"({"entries":{)" + named + R"(},"n":)" + n + "}";
  };
  const std::string odd = actor + R"(:{\"})";  // characters that mean something in keys or JSON
  return {
      {"divvy", program.hit("")},
      {"divvy's actor", program.hit("method=GET ip=" + actor)},
      {"native", program.take(entries(R"("r":")" + odd + R"(")"))},
      {"two values", program.take(entries(R"("queue":")" + odd + R"(","tenant":"t")"))},
      {"put back", program.take(entries(R"("seat":")" + actor + R"(")"))},
      {"own limits",
       program.take(R"({"key":")" + actor + R"(","limits":[{"quota":9,"window":"24h"},)" +
                    R"({"algorithm":"token_bucket","quota":99,"window":"240h"}],"n":)" + n + "}")},
      {"limitd", program.limitd({LimitdMethod::take, "fixed", actor, count})},
      {"limitd's refill", program.limitd({LimitdMethod::take, "daily", actor, count})},
      {"droplet",
       program.drop({.bucket = actor, .count = count, .limits = {{"lw", 50}, {"ld", 9}}})},
      {"cell", program.command({"CL.THROTTLE", actor, "8", "1", "1000000", n})},
      {"crab", program.command({"THROTTLE", actor, "8", "1", "1000000", n})},
      {"gcra", program.command({"GCRA", actor, "8", "1", "1000000", "TOKENS", n})},
      {"envoy", program.envoy("user", static_cast<int>(count))},
      {"envoy's own", program.envoy("own", static_cast<int>(count))},
  };
}

std::string name_of(const ordered_json& listed) {
  std::string text;
  for (const char* key : {"rule", "actor"})
    if (listed.contains(key)) text += listed[key].dump() + " ";
  return text;
}

// The listed counters: rule, actor and remaining units of each, sorted.
std::string counters(Program& program) {
  const auto json =
      ordered_json::parse(program.admin("GET", "/v1/counters?limit=100").substr(4), nullptr, false);
  std::multimap<std::string, std::string> listed;
  for (const auto& one : json["counters"]) {
    std::string left;
    for (const auto& limit : one["limits"]) left += " " + limit["remaining"].dump();
    listed.emplace(name_of(one), left);
  }
  std::string text;
  for (const auto& [name, left] : listed) text += name + left + "\n";
  return text;
}

std::string overrides(Program& program) {
  const auto json =
      ordered_json::parse(program.admin("GET", "/v1/overrides").substr(4), nullptr, false);
  std::map<std::string, std::string> listed;
  for (const auto& one : json["overrides"]) listed[name_of(one)] = one["limits"].dump();
  std::string text;
  for (const auto& [name, limits] : listed) text += name + " " + limits + "\n";
  return text;
}

std::string set_override(Program& program, const std::string& rule, const std::string& actor,
                         const std::string& limit) {
  return program
      .admin("POST", "/v1/overrides",
             R"({"rule":")" + rule + R"(","actor":")" + actor + R"(","limit":)" + limit + "}")
      .substr(0, 3);
}

// ---- What is in Redis ----

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Writes times as distances from `from_us`, the time when the counters were read: `@usN@` or
// `@nsN@`; and the second in which Envoy's window of a year began as `@year@`.
std::string without_moments(const std::string& text, int64_t from_us) {
  static const std::regex digits("[0-9]+");
  std::string out;
  auto end = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), digits), none; at != none; ++at) {
    const std::string number = at->str();
    out.append(end, text.begin() + at->position());
    end = text.begin() + at->position() + at->length();
    const bool us = number.size() == 16, ns = number.size() == 19;
    if (number == std::to_string(from_us / 1'000'000 / year_s * year_s))
      out += "@year@";
    else if (us)
      out += "@us" + std::to_string(std::stoll(number) - from_us) + "@";
    else if (ns)
      out += "@ns" + std::to_string(std::stoll(number) - from_us * 1'000) + "@";
    else
      out += number;
  }
  return out.append(end, text.end());
}

std::string with_moments(const std::string& text, int64_t from_us) {
  static const std::regex moment("@(us|ns|year)(-?[0-9]*)@");
  std::string out;
  auto end = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), moment), none; at != none; ++at) {
    out.append(end, text.begin() + at->position());
    end = text.begin() + at->position() + at->length();
    const std::string unit = (*at)[1], number = (*at)[2];
    if (unit == "year")
      out += std::to_string(from_us / 1'000'000 / year_s * year_s);
    else
      out += std::to_string(std::stoll(number) + (unit == "us" ? from_us : from_us * 1'000));
  }
  return out.append(end, text.end());
}

ordered_json read_all(RedisClient client, int64_t from_us) {
  std::map<std::string, ordered_json> sorted;
  const auto words = [&](const Words& command) {
    ordered_json all = ordered_json::array();
    for (const auto& one : client(command).list) all.push_back(without_moments(one.text, from_us));
    return all;
  };
  for (const auto& key : client({"KEYS", "*"}).list) {
    const std::string type = client({"TYPE", key.text}).text;
    ordered_json value;
    if (type == "hash")
      value = words({"HGETALL", key.text});
    else if (type == "list")
      value = words({"LRANGE", key.text, "0", "-1"});
    else
      value = without_moments(client({"GET", key.text}).text, from_us);
    sorted[without_moments(key.text, from_us)] = {
        {"type", type}, {"value", value}, {"ttl_ms", client({"PTTL", key.text}).number}};
  }
  return sorted;
}

void write_all(RedisClient client, const ordered_json& keys, int64_t from_us) {
  for (const auto& [name, its] : keys.items()) {
    const std::string key = with_moments(name, from_us);
    Words words = {its["type"] == "hash" ? "HSET" : its["type"] == "list" ? "RPUSH" : "SET", key};
    if (its["value"].is_string())
      words.push_back(with_moments(its["value"], from_us));
    else
      for (const auto& one : its["value"]) words.push_back(with_moments(one, from_us));
    EXPECT_FALSE(client(words).is_error()) << name;
    if (its["ttl_ms"] >= 0) client({"PEXPIRE", key, its["ttl_ms"].dump()});
  }
}

// Leaves out the parts of a unit of limits that come with a request, because these come back all
// the time.
std::string without_parts(const std::string& text) {
  static const std::regex parts("(@us-?[0-9]+@ [0-9]+ [0-9]+) [0-9]+");
  return text.starts_with("s1;k ") ? std::regex_replace(text, parts, "$1") : text;
}

// Do two texts differ only in times, and these by no more than the slack?
bool are_alike(const std::string& one, const std::string& other_one) {
  const std::string a = without_parts(one), b = without_parts(other_one);
  static const std::regex moment("@(us|ns)(-?[0-9]+)@");
  if (std::regex_replace(a, moment, "@$1@") != std::regex_replace(b, moment, "@$1@")) return false;
  std::sregex_iterator at(a.begin(), a.end(), moment), other(b.begin(), b.end(), moment), none;
  for (; at != none && other != none; ++at, ++other) {
    const int64_t apart = std::stoll((*at)[2]) - std::stoll((*other)[2]);
    if (std::abs(apart) > ((*at)[1] == "us" ? slack_us : slack_us * 1'000)) return false;
  }
  return true;
}

// What differs. Of overrides, which have random ids, only the number is compared here: go_on()
// compares what the servers say about them.
std::string compare(const ordered_json& got, const ordered_json& recorded) {
  std::string wrong;
  for (const auto& [key, its] : got.items())
    if (!recorded.contains(key)) wrong += "a new key: " + key + "\n";
  for (const auto& [key, its] : recorded.items()) {
    if (!got.contains(key)) {
      wrong += "no key " + key + "\n";
      continue;
    }
    const ordered_json& one = got[key];
    const int64_t ttl = one["ttl_ms"], other = its["ttl_ms"];
    const bool same = its["value"].is_string() ? are_alike(one["value"], its["value"])
                                               : one["type"] == its["type"] &&
                                                     one["value"].size() == its["value"].size();
    if (!same || (ttl < 0) != (other < 0) || std::abs(ttl - other) > slack_us / 1'000)
      wrong += key + ": " + one.dump() + "\n   recorded " + its.dump() + "\n";
  }
  return wrong;
}

// Makes counters of two actors, and overrides. go_on() uses them, and returns the replies.
void begin(Program& program) {
  ask_all(program, "a", 2);
  EXPECT_EQ(set_override(program, "api", "a", R"({"quota":40,"window":"24h"})"), "201");
  EXPECT_EQ(set_override(program, "seats", "*", R"({"algorithm":"fixed_bucket","quota":6})"),
            "201");
  ask_all(program, "b", 1);
}
Replies go_on(Program& program) {
  Replies replies = {{"overrides", overrides(program)}, {"counters", counters(program)}};
  const auto add = [&](Replies more) {
    for (auto& one : more) replies.push_back(std::move(one));
  };
  add({{"status", program.limitd({LimitdMethod::status, "fixed", ""})},
       {"override", program.take(R"({"entries":{"r":"a"},"n":30})")}});
  for (int64_t count = 3; count > 0; --count) add(ask_all(program, "a", count));
  add(ask_all(program, "new", 1));
  add({{"given back", program.take(R"({"entries":{"seat":"a"},"n":1})", "/v1/put")},
       {"limitd's put", program.limitd({LimitdMethod::put, "fixed", "a", 1})},
       {"another", set_override(program, "api", "b", R"({"quota":70,"window":"24h"})")},
       {"overrides", overrides(program)},
       {"counters", counters(program)},
       {"status", program.limitd({LimitdMethod::status, "fixed", ""})}});
  return replies;
}

TEST(RecordedKeys, AreWrittenByTheReleaseThatRecords) {
  const char* const file = std::getenv("SLUICE_RECORD_KEYS");
  if (file == nullptr) GTEST_SKIP() << "SLUICE_RECORD_KEYS names no file";
  const RedisServer redis;
  Program program(redis);
  begin(program);
  const int64_t from_us = now_us();
  ordered_json all = {{"begun", read_all(redis.client(), from_us)}};
  for (const auto& [name, reply] : go_on(program)) all["replies"].push_back({name, reply});
  all["gone_on"] = read_all(redis.client(), from_us);
  std::ofstream(file) << all.dump(1) << "\n";
}

ordered_json recorded() {
  std::ifstream in(source_path("tests/redis/recorded/keys.json"));
  return ordered_json::parse(in);
}

// The release that was recorded listed a counter of Envoy's under its whole stored name in place of
// the name of its actor.
std::string as_named_now(std::string recorded) {
  const std::string_view before = R"("shop.own" "shop_own_)", now = R"("shop.own" ")";
  for (size_t at = 0; (at = recorded.find(before, at)) != recorded.npos; at += now.size())
    recorded.replace(at, before.size(), now);
  return recorded;
}

TEST(RecordedKeys, CountersOfEveryProtocolContinue) {
  const ordered_json all = recorded();
  const RedisServer redis;
  const int64_t from_us = now_us();
  write_all(redis.client(), all["begun"], from_us);
  ASSERT_EQ(compare(read_all(redis.client(), from_us), all["begun"]), "");
  Program program(redis);
  const Replies replies = go_on(program);
  ASSERT_EQ(replies.size(), all["replies"].size());
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].first, all["replies"][i][0]);
    EXPECT_EQ(replies[i].second, as_named_now(all["replies"][i][1]))
        << replies[i].first << ", reply " << i;
  }
  EXPECT_EQ(compare(read_all(redis.client(), from_us), all["gone_on"]), "");
}

TEST(RecordedKeys, AreTheOnesThatThisReleaseMakes) {
  const RedisServer redis;
  Program program(redis);
  begin(program);
  const int64_t from_us = now_us();
  EXPECT_EQ(compare(read_all(redis.client(), from_us), recorded()["begun"]), "");
}

}  // namespace
}  // namespace sluice::tests::recorded_keys_test
