// Files and requests recorded with envoyproxy/ratelimit ("the original",
// tests/conformance/envoy.json). Files: which it refuses, and what sluice's diagnostics must
// contain. Requests: the limits that they met, the keys of their counters in Redis, the names of
// their metrics, and the metadata of answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "protocol/envoy/limits_file.h"
#include "tests/support/paths.h"

namespace sluice::envoy {
namespace {

using nlohmann::json;

const json& vectors() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/envoy.json"));
    return json::parse(file);
  }();
  return all;
}

// The text of a file. Only one is recorded in base64, because it is not UTF-8.
std::string text_of(const json& file) {
  if (file.is_string()) return file;
  EXPECT_EQ(file.at("b64"), "ZG9tYWluOiBk/wo=");
  return "domain: d\xff\n";
}

struct Loaded {
  std::map<std::string, std::string> files;  // by name, which is the order
  base::Diagnostics diagnostics;
  std::optional<LimitSet> set;
  std::string said;

  explicit Loaded(const json& config) {
    for (const auto& [name, text] : config.at("files").items()) files[name] = text_of(text);
    std::vector<LimitsText> texts;
    for (const auto& [name, text] : files) texts.push_back({name, text});
    const json env = config.value("env", json::object());
    const bool merge = env.value("MERGE_DOMAIN_CONFIG", "") == "true";
    set = read_limits(texts, {.merge_domains = merge}, diagnostics);
    for (const auto& d : diagnostics) said += to_string(d) + '\n';
  }
};

// One descriptor of a recorded request.
struct RecordedDescriptor {
  std::vector<request::Entry> entries;
  bool is_override = false;

  explicit RecordedDescriptor(const json& recorded) : is_override(recorded.contains("limit")) {
    const auto text = [](const json& entry, const char* member) -> std::string_view {
      const auto at = entry.find(member);
      if (at == entry.end()) return {};
      return at->get_ref<const std::string&>();
    };
    const auto all = recorded.find("entries");
    if (all == recorded.end()) return;
    for (const json& entry : *all) entries.push_back({text(entry, "key"), text(entry, "value")});
  }
};

// A recorded request with the limits that sluice finds for it.
class Request {
 public:
  Request(const LimitSet& set, const json& message) : set_(set) {
    domain_ = set.domain(message.value("domain", ""));
    if (!message.contains("descriptors")) return;
    for (const json& each : message.at("descriptors")) {
      descriptors.emplace_back(each);
      policy::MatchSteps steps;
      const bool finds = domain_ != absent && !descriptors.back().is_override;
      walks.push_back(finds ? set.find(domain_, descriptors.back().entries, steps) : Walk());
      limits.push_back(walks.back().limit);
    }
    const std::vector<uint32_t> found = limits;
    for (uint32_t& limit : limits)
      for (const uint32_t by : found)
        if (limit != absent && by != absent && set.replaces(by, limit)) limit = absent;
  }

  bool has_domain() const { return domain_ != absent; }
  // Whether the descriptor has a counter.
  bool counts(size_t i) const {
    if (!has_domain()) return false;
    if (descriptors[i].is_override) return true;
    return limits[i] != absent && !set_.limits()[limits[i]].unlimited;
  }
  std::string key(size_t i) const {
    base::Arena arena;
    return std::string(set_.key(domain_, descriptors[i].entries, walks[i], arena));
  }
  std::string metric_path(size_t i) const {
    std::string text;
    if (descriptors[i].is_override)
      set_.append_override_metric_path(domain_, descriptors[i].entries, text);
    else
      set_.append_metric_path(domain_, descriptors[i].entries, walks[i], text);
    return text;
  }

  std::vector<RecordedDescriptor> descriptors;
  std::vector<Walk> walks;
  std::vector<uint32_t> limits;

 private:
  const LimitSet& set_;
  uint32_t domain_ = absent;
};

// The limits that sluice found must be those in the statuses of the recorded answer. An unlimited
// descriptor has a status without a limit, with UINT32_MAX remaining.
void expect_told(const LimitSet& set, const Request& request, const json& answer) {
  const json statuses = answer.value("statuses", json::array());
  ASSERT_EQ(statuses.size(), request.limits.size());
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (request.descriptors[i].is_override) continue;
    SCOPED_TRACE(i);
    const json& status = statuses[i];
    const uint32_t number = request.limits[i];
    const bool unlimited = number != absent && set.limits()[number].unlimited;
    EXPECT_EQ(status.contains("currentLimit"), number != absent && !unlimited);
    EXPECT_EQ(!status.contains("currentLimit") && status.value("limitRemaining", 0u) == UINT32_MAX,
              unlimited);
    if (!status.contains("currentLimit") || number == absent) continue;
    const Limit& limit = set.limits()[number];
    const json& told = status.at("currentLimit");
    EXPECT_EQ(limit.requests_per_unit, told.value("requestsPerUnit", 0u));
    EXPECT_EQ(name_of(limit.unit), told.value("unit", ""));
    EXPECT_EQ(set.name(limit.name), told.value("name", ""));
  }
}

TEST(EnvoyVectors, FilesAreAcceptedAndRefused) {
  size_t refused = 0, asked = 0, errors = 0;
  for (const json& vector : vectors().at("config_files")) {
    SCOPED_TRACE(vector.at("name").get<std::string>());
    const Loaded loaded(vector);
    const bool accepted = vector.at("verdict") == "ok";
    ASSERT_EQ(loaded.set.has_value(), accepted) << loaded.said;
    EXPECT_EQ(base::has_errors(loaded.diagnostics), !accepted);
    if (accepted) {
      ++asked;
      const Request request(*loaded.set, vector.at("ask"));
      expect_told(*loaded.set, request, vector.at("answer"));
      continue;
    }
    ++refused;
    for (const json& word : vector.value("says", json::array())) {
      const auto& text = word.get_ref<const std::string&>();
      const bool said = std::any_of(
          loaded.diagnostics.begin(), loaded.diagnostics.end(), [&](const base::Diagnostic& d) {
            return (d.subject + ' ' + d.message).find(text) != std::string::npos;
          });
      EXPECT_TRUE(said) << text << " in " << loaded.said;
    }
    // sluice reports the error for the same file as the original.
    const std::string blamed = vector.at("error");
    for (const base::Diagnostic& d : loaded.diagnostics) {
      EXPECT_EQ(d.severity, base::Diagnostic::Severity::error);
      EXPECT_TRUE(blamed.starts_with(d.file + ": ")) << to_string(d);
      EXPECT_FALSE(d.message.empty());
      EXPECT_FALSE(d.remedy.empty()) << to_string(d);
      EXPECT_TRUE(d.line > 0 || loaded.files.at(d.file).find(':') == std::string::npos)
          << to_string(d);
    }
    errors += loaded.diagnostics.size();
  }
  EXPECT_EQ(asked + refused, 77u);
  EXPECT_EQ(refused, 43u);
  EXPECT_EQ(errors, refused + 1);  // one file has two errors: it has no domain either
}

// The key without its last part, which stands for the window: `_{W60}` for a window of 60 s.
std::string without_window(const std::string& key) {
  return key.substr(0, key.rfind("_{W"));
}

bool has_file_changes(const json& recorded) {
  return std::any_of(
      recorded.at("steps").begin(), recorded.at("steps").end(), [](const json& step) {
        return step.contains("write") || step.contains("remove") || step.contains("log");
      });
}

TEST(EnvoyVectors, RequestsMatchTheRecordedLimitsAndCounters) {
  size_t requests = 0, keys = 0;
  for (const json& recorded : vectors().at("cases")) {
    SCOPED_TRACE(recorded.at("name").get<std::string>());
    const std::string config = recorded.at("config");
    if (has_file_changes(recorded) || config == "badstart") continue;
    const json& files = vectors().at("configs").at(config);
    const Loaded loaded(files);
    ASSERT_TRUE(loaded.set) << loaded.said;
    std::set<std::string> counters;
    for (const json& step : recorded.at("steps")) {
      const json http = step.value("http", json::object());
      const json raw = step.value("raw", json::object());
      const json& message = http.contains("json")     ? http.at("json")
                            : raw.contains("request") ? raw.at("request")
                            : step.contains("call")   ? step.at("call")
                                                      : json();
      if (!message.is_object() || step.contains("method")) continue;
      if (message.dump().find("\"b64\"") != std::string::npos) continue;  // text that is not UTF-8
      const Request request(*loaded.set, message);
      for (size_t i = 0; i < request.limits.size(); ++i)
        if (request.counts(i)) counters.insert(request.key(i));
      json answer = step.value("reply", json());
      if (answer.is_object() && answer.contains("json")) answer = answer.at("json");
      if (!answer.is_object() || !answer.contains("statuses")) continue;
      ++requests;
      expect_told(*loaded.set, request, answer);
    }
    const json env = files.value("env", json::object());
    const std::string prefix = env.value("CACHE_KEY_PREFIX", "");
    for (const char* which : {"redis", "redis2"}) {
      const json left = recorded.value(which, json::object());
      for (const auto& [key, value] : left.items()) {
        if (key.find("{W") == std::string::npos) continue;  // a step of the case set this key
        const std::string text = without_window(key);
        ASSERT_TRUE(text.starts_with(prefix));
        // This test does not read requests recorded as bytes or as texts for /json, so it does not
        // know their counters.
        const bool is_read =
            !recorded.contains("steps") ||
            std::none_of(recorded.at("steps").begin(), recorded.at("steps").end(),
                         [](const json& step) {
                           return (step.contains("raw") && step.at("raw").contains("b64")) ||
                                  (step.contains("http") && step.at("http").contains("body")) ||
                                  step.contains("redis");
                         });
        if (!is_read) continue;
        EXPECT_TRUE(counters.contains(text.substr(prefix.size()))) << key;
        ++keys;
      }
    }
  }
  EXPECT_GT(requests, 200u);
  EXPECT_GT(keys, 120u);
}

TEST(EnvoyVectors, MetricsHaveTheRecordedNames) {
  constexpr std::string_view begin = "ratelimit.service.rate_limit.";
  constexpr std::string_view stats[] = {"total_hits",      "over_limit",
                                        "near_limit",      "within_limit",
                                        "shadow_mode",     "over_limit_with_local_cache",
                                        "domain_not_found"};
  size_t cases = 0;
  for (const json& recorded : vectors().at("cases")) {
    if (!recorded.contains("stats")) continue;
    SCOPED_TRACE(recorded.at("name").get<std::string>());
    const Loaded loaded(vectors().at("configs").at(recorded.at("config").get<std::string>()));
    ASSERT_TRUE(loaded.set) << loaded.said;
    std::set<std::string> ours, theirs;
    for (const json& step : recorded.at("steps")) {
      if (!step.contains("call")) continue;
      const Request request(*loaded.set, step.at("call"));
      const std::string domain = step.at("call").value("domain", "");
      std::string unknown;
      append_sanitized(domain, unknown);
      if (!request.has_domain() && !domain.empty()) ours.insert(unknown);
      for (size_t i = 0; i < request.limits.size(); ++i)
        if (request.counts(i)) ours.insert(request.metric_path(i));
    }
    for (const auto& [name, count] : recorded.at("stats").items()) {
      if (!name.starts_with(begin)) continue;
      const std::string path = name.substr(begin.size(), name.find(".__") - begin.size());
      const size_t dot = path.rfind('.');
      EXPECT_NE(std::find(std::begin(stats), std::end(stats), path.substr(dot + 1)),
                std::end(stats))
          << name;
      theirs.insert(path.substr(0, dot));
    }
    EXPECT_EQ(ours, theirs);
    ++cases;
  }
  EXPECT_EQ(cases, 15u);
}

json to_json(const MetadataMap& metadata);

json to_json(const MetadataValue& value) {
  return std::visit(
      [](const auto& data) -> json {
        using Data = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<Data, MetadataMap>) {
          return to_json(data);
        } else if constexpr (std::is_same_v<Data, MetadataList>) {
          json all = json::array();
          for (const MetadataValue& item : data) all.push_back(to_json(item));
          return all;
        } else {
          return data;
        }
      },
      value.data);
}

json to_json(const MetadataMap& metadata) {
  json all = json::object();
  for (const auto& [key, value] : metadata) all[key] = to_json(value);
  return all;
}

TEST(EnvoyVectors, MetadataIsMergedAsRecorded) {
  const Loaded loaded(vectors().at("configs").at("meta"));
  ASSERT_TRUE(loaded.set) << loaded.said;
  size_t told = 0, without = 0;
  for (const json& recorded : vectors().at("cases")) {
    if (recorded.at("config") != "meta") continue;
    SCOPED_TRACE(recorded.at("name").get<std::string>());
    for (const json& step : recorded.at("steps")) {
      if (!step.contains("call") || !step.contains("reply")) continue;
      const json decision = step.value("decision", json::object());
      const json& answer = decision.contains("reply") ? decision.at("reply") : step.at("reply");
      const Request request(*loaded.set, step.at("call"));
      MetadataMap all;
      for (size_t i = 0; i < request.limits.size(); ++i) {
        if (request.limits[i] == absent) continue;
        const auto& metadata = loaded.set->limits()[request.limits[i]].metadata;
        if (metadata && answer.at("statuses")[i].value("code", "") == "OK")
          merge_metadata(*metadata, all);
      }
      const json expected = answer.at("dynamicMetadata").value("metadata", json::object());
      EXPECT_EQ(to_json(all), expected);
      ++(expected.empty() ? without : told);
    }
  }
  EXPECT_GT(told, 8u);
  EXPECT_GT(without, 3u);
}

}  // namespace
}  // namespace sluice::envoy
