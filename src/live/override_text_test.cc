// The limits of an override, in JSON, are read as the limits of a policy, in YAML.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "live/override_registry.h"
#include "policy/read/native.h"
#include "policy/read/yaml_tree.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::live::override_text_test {
namespace {

struct Read {
  limit::Limit limit;
  std::string wrong;  // the first thing that is wrong
};

Read by_yaml(const std::string& text) {
  Read read;
  policy::YamlDocument document;
  EXPECT_FALSE(policy::parse_yaml(text, document)) << text;
  base::Diagnostics diagnostics;
  policy::YamlReader reader("", document, diagnostics);
  read.limit = policy::read_limit(document.root(), reader);
  if (diagnostics.empty()) return read;
  const base::Diagnostic& d = diagnostics.front();
  const bool whole = d.subject.empty() || d.subject == "limit";
  read.wrong = (whole ? "limit" : "limit." + d.subject) + ": " + d.message +
               (d.remedy.empty() ? "" : "; " + d.remedy);
  return read;
}

Read by_json(const std::string& text) {
  wire::Json body;
  body["limit"] = wire::Json::parse(text);
  std::vector<limit::Limit> limits;
  policy::OwnLimits own = 0;
  const OverrideProblem problem = read_limits(body, NamedRule{}, limits, own);
  if (problem) return {{}, problem.field + ": " + problem.why};
  return {limits.at(0), ""};
}

// JSON is YAML, but each is read by a parser of its own: both must agree.
TEST(OverrideText, ReadsALimitLikeAPolicy) {
  for (const std::string text : {
           R"({"quota": 5, "window": "1s"})",
           R"({"quota": "10_000", "window": "1h", "burst": 7})",
           R"({"window": "250ms", "quota": "5k", "algorithm": "sliding_log"})",
           R"({"quota": 3, "algorithm": "fixed_bucket"})",
           R"({"quota": 3, "algorithm": "concurrency", "lease": "30s", "max_lease": "5m"})",
           R"({"quota": "\u0035", "window": "1s"})",
           R"({})",
           R"({"quota": 5})",
           R"({"window": "1s"})",
           R"({"quota": 0, "window": "1s"})",
           R"({"quota": -1, "window": "1s"})",
           R"({"quota": 1.5, "window": "1s"})",
           R"({"quota": 18446744073709551615, "window": "1s"})",
           R"({"quota": true, "window": "1s"})",
           R"({"quota": null, "window": "1s"})",
           R"({"quota": "null", "window": "1s"})",
           R"({"quota": "", "window": "1s"})",
           R"({"quota": [], "window": "1s"})",
           R"({"quota": [1, [2]], "window": "1s"})",
           R"({"quota": {"n": 1}, "window": "1s"})",
           R"({"quota": 5, "window": 60})",
           R"({"quota": 5, "window": "soon"})",
           R"({"quota": 5, "window": "0s"})",
           R"({"quota": 5, "window": "1s", "quotas": 6})",
           R"({"quota": 5, "window": "1s", "<<": {"burst": 1}})",
           R"({"quota": 5, "window": "1s", "": 1})",
           R"({"quota": 5, "window": "1s", "algorithm": "leaky"})",
           R"({"quota": 5, "window": "1s", "algorithm": ["token_bucket"]})",
           R"({"quota": 5, "window": "1s", "burst": 2, "algorithm": "fixed_window"})",
           R"({"quota": 5, "window": "1s", "algorithm": "fixed_bucket"})",
       }) {
    const Read yaml = by_yaml(text), json = by_json(text);
    EXPECT_EQ(json.wrong, yaml.wrong) << text;
    if (yaml.wrong.empty()) {
      EXPECT_EQ(json.limit, yaml.limit) << text;
    }
  }
}

std::string actor_of(const wire::Json& actor, const std::vector<std::string>& keys) {
  std::vector<std::string> values;
  const OverrideProblem problem = read_actor(wire::Json{{"actor", actor}}, keys, values);
  return problem ? "refused: " + problem.field + ": " + problem.why : policy::key_text(values);
}

TEST(OverrideText, ReadsAnActorInEachOfItsForms) {
  using wire::Json;
  const std::vector<std::string> one = {"user"}, two = {"tenant", "api"};
  const auto list = [](const Json& value) { return Json::array({value}); };
  EXPECT_EQ(actor_of("alice", one), "alice");
  EXPECT_EQ(actor_of("user=alice", one), "alice");
  EXPECT_EQ(actor_of("other=alice", one), "other=alice");
  EXPECT_EQ(actor_of(Json::array({"bob", "alice"}), one), "[alice, bob]");
  EXPECT_EQ(actor_of({{"user", list("cidr(10.0.0.0/8)")}}, one), "cidr(10.0.0.0/8)");
  EXPECT_EQ(actor_of("acme|[a, b]", two), "acme|[a, b]");
  EXPECT_EQ(actor_of({{"tenant", "ac|me"}, {"api", Json::array({"b", "a"})}}, two),
            "ac\\|me|[a, b]");
  EXPECT_EQ(actor_of(list("a"), two),
            "refused: actor: must be a text, or an object with the keys `tenant`, `api`");
  for (const Json& wrong : {Json(7), Json(nullptr), Json::array(), list(1), Json{{"user", 7}},
                            Json{{"user", list(list("a"))}}, Json("10.0.0.0/8"), list("regex(/a/)"),
                            Json{{"user", "cidr(x)"}}})
    EXPECT_TRUE(actor_of(wrong, one).starts_with("refused: actor")) << wrong;
}

TEST(OverrideText, ReportsAnInvalidLimitWithItsField) {
  EXPECT_EQ(
      by_json(R"({"quota": 5, "window": 60})").wrong,
      "limit.window: `60` has no unit; write `60s` if seconds are meant; units are us, ms, s, "
      "m, h, d");
  EXPECT_EQ(by_json(R"({"quota": 5, "windows": "1s"})").wrong,
            "limit.windows: is not a known key; did you mean `window`?");
  EXPECT_EQ(by_json("[]").wrong,
            "limit: must be an object, as {\"quota\": 100, \"window\": \"1s\"}");
}

// An answer's members that policies do not have are accepted when it is sent back.
TEST(OverrideText, ALimitOfAnAnswerIsRead) {
  const limit::Limit bucket{limit::Algorithm::fixed_bucket, 3, {}, 3},
      window{limit::Algorithm::token_bucket, 5, base::seconds(60), 9};
  for (const limit::Limit& one : {bucket, window}) {
    wire::Json json = to_json(one);
    json["of_rule"] = true;
    EXPECT_EQ(by_json(json.dump()).limit, one) << json.dump();
  }
}

}  // namespace
}  // namespace sluice::live::override_text_test
