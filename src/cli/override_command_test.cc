// `sluice override`, against a made-up server.
#include <gtest/gtest.h>

#include "cli/admin_commands_test.h"

namespace sluice::cli {
namespace {

Json override_of(const std::string& id) {
  return {{"id", id},
          {"dialect", "limitd"},
          {"rule", "user"},
          {"actor", {{"tenant", "acme"}, {"api", "*"}}},
          {"limits",
           Json::array(
               {{{"algorithm", "token_bucket"}, {"quota", 5}, {"window", "1s"}, {"burst", 5}}})},
          {"until", "2030-01-01T00:00:00Z"},
          {"comment", "why"},
          {"created", "2026-11-20T10:00:00Z"},
          {"applies", false}};
}

TEST_F(AdminCommands, OverrideSetSendsItsArguments) {
  answers["POST /v1/overrides"] = page(override_of("o-1"), 201);
  const auto sent = [&](Words words) {
    words.insert(words.begin(), {"override", "set"});
    EXPECT_EQ(ask(words), 0) << err;
    return Json::parse(server.requests().back().body);
  };
  EXPECT_EQ(sent({"--rule", "user", "--actor", "alice", "--quota", "10_000", "--window", "1h"}),
            Json({{"rule", "user"},
                  {"actor", "alice"},
                  {"limit", {{"quota", 10'000}, {"window", "1h"}}}}));
  EXPECT_EQ(out,
            "id        o-1\n"
            "rule      user\n"
            "protocol  limitd\n"
            "actor     tenant=acme api=*\n"
            "limits    5 per 1s, token_bucket\n"
            "until     2030-01-01T00:00:00Z\n"
            "created   2026-11-20T10:00:00Z\n"
            "comment   why\n"
            "applies   no: the live policy has no such rule\n");
  EXPECT_EQ(sent({"--rule",      "api",     "--dialect",         "native",    "--actor",
                  "tenant=acme", "--actor", "api=a=b",           "--quota",   "1",
                  "--window",    "1s",      "--burst",           "2k",        "--algorithm",
                  "sliding_log", "--until", "2030-12-01T00:00Z", "--comment", "ticket 4711"}),
            Json({{"dialect", "native"},
                  {"rule", "api"},
                  {"actor", {{"tenant", "acme"}, {"api", "a=b"}}},
                  {"limit",
                   {{"quota", 1}, {"window", "1s"}, {"algorithm", "sliding_log"}, {"burst", 2000}}},
                  {"until", "2030-12-01T00:00:00Z"},
                  {"comment", "ticket 4711"}}));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--quota", "5", "--window", "month", "--time-zone",
                  "Europe/Berlin", "--month-day", "9", "--starts-at", "06:00"})["limit"],
            Json::parse(R"({"quota":5,"window":"month","time_zone":"Europe/Berlin",
                            "month_day":"9","starts_at":"06:00"})"));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--quota", "5", "--window", "week",
                  "--week-starts", "sunday"})["limit"],
            Json::parse(R"({"quota":5,"window":"week","week_starts":"sunday"})"));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--quota", "5", "--window", "year", "--year-day",
                  "04-06"})["limit"],
            Json::parse(R"({"quota":5,"window":"year","year_day":"04-06"})"));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--limit", R"({"quota":5,"window":"1s"})",
                  "--limit", R"({"quota":9,"window":"1h"})", "--json"})["limits"],
            Json::parse(R"([{"quota":5,"window":"1s"},{"quota":9,"window":"1h"}])"));
  EXPECT_EQ(result(), override_of("o-1"));
  EXPECT_EQ(sent({"--rule", "all together", "--deny"}),
            Json({{"rule", "all together"}, {"deny", true}}));
  const Json denied = sent({"--rule", "r", "--actor", "a", "--deny", "--for", "3d"});
  EXPECT_EQ(denied["deny"], true);
  EXPECT_TRUE(denied["until"].get<std::string>().ends_with("Z"));
  EXPECT_EQ(sent({"--rule", "r", "--actor", "a", "--unlimited"})["unlimited"], true);

  answers["POST /v1/overrides"] = problem(
      409, "several rules are called `user`",
      {{"candidates",
        {{{"dialect", "limitd"}, {"rule", "user"}}, {{"dialect", "native"}, {"rule", "user"}}}}});
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "a", "--deny", "--json"}), 1);
  EXPECT_EQ(result()["candidates"][1]["dialect"], "native");
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "a", "--deny"}), 1);
  EXPECT_EQ(err,
            "error: several rules are called `user`\n"
            "  --dialect limitd --rule 'user'\n  --dialect native --rule 'user'\n");
}

TEST_F(AdminCommands, OverrideSetSaysWhichLimitsItReplaces) {
  Json one = override_of("o-1");
  one["dialect"] = "native";
  one["all_limits"] = false;
  one["limits"].push_back(
      {{"algorithm", "fixed_window"}, {"quota", 9}, {"window", "1d"}, {"of_rule", true}});
  answers["POST /v1/overrides"] = page(one, 201);
  const Words set{"override", "set",     "--rule", "r",        "--actor",
                  "a",        "--quota", "5",      "--window", "1s"};
  EXPECT_EQ(ask(set), 0) << err;
  EXPECT_FALSE(Json::parse(server.requests().back().body).contains("all_limits"));
  EXPECT_TRUE(said(out,
                   "limits    5 per 1s, token_bucket; 9 per 1d (the rule's)\n"
                   "replaces  the rule's limit per 1s; its others stay\n"))
      << out;
  answers["GET /v1/overrides?limit=100"] =
      page({{"overrides", Json::array({one})}, {"total", 1}, {"kept", true}});
  EXPECT_EQ(ask({"override", "list"}), 0) << err;
  EXPECT_TRUE(said(out, "  5 per 1s, token_bucket; 9 per 1d (the rule's)  2030")) << out;
  // The answer about one that replaces all limits.
  one["all_limits"] = true;
  one["limits"].erase(1);
  answers["POST /v1/overrides"] = page(one, 201);
  Words all = set;
  all.push_back("--all-limits");
  EXPECT_EQ(ask(all), 0) << err;
  EXPECT_EQ(Json::parse(server.requests().back().body)["all_limits"], true);
  EXPECT_TRUE(said(out, "replaces  all limits of the rule\n")) << out;
  answers["GET /v1/overrides?limit=100"] =
      page({{"overrides", Json::array({one})}, {"total", 1}, {"kept", true}});
  EXPECT_EQ(ask({"override", "list"}), 0) << err;
  EXPECT_TRUE(said(out, "  5 per 1s, token_bucket (all limits)  2030")) << out;
  one["limits"] = Json::array({{{"algorithm", "deny"}, {"quota", 0}}});
  answers["GET /v1/overrides?limit=100"] =
      page({{"overrides", Json::array({one})}, {"total", 1}, {"kept", true}});
  EXPECT_EQ(ask({"override", "list"}), 0) << err;
  EXPECT_TRUE(said(out, "  always denied  2030")) << out;
  EXPECT_EQ(ask({"override", "set", "--rule", "r", "--deny", "--all-limits"}), 2);
  EXPECT_EQ(ask({"override", "list", "--all-limits"}), 2);
}

TEST_F(AdminCommands, OverridesAreListedShownAndRemoved) {
  answers["GET /v1/overrides?rule=user&actor=a%20b&limit=2"] =
      page({{"overrides", Json::array({override_of("o-1"), override_of("o-2")})},
            {"total", 9},
            {"next", "o-2"}});
  EXPECT_EQ(ask({"override", "list", "--rule", "user", "--actor", "a b", "--limit", "2"}), 0)
      << err;
  EXPECT_EQ(lines().size(), 3u) << out;
  EXPECT_EQ(
      lines()[1],
      "o-1  user (not live)  tenant=acme api=*  5 per 1s, token_bucket  2030-01-01T00:00:00Z  why");
  EXPECT_EQ(err, "note: 9 in all; --limit N lists more of them\n");
  Json ended = override_of("o-3");
  ended["ended"] = true;
  answers["GET /v1/overrides?rule=ended&limit=100"] =
      page({{"overrides", Json::array({ended})}, {"total", 1}});
  EXPECT_EQ(ask({"override", "list", "--rule", "ended"}), 0) << err;
  EXPECT_TRUE(said(out, "  2030-01-01T00:00:00Z (ended)  why\n")) << out;
  answers["GET /v1/overrides/o-3"] = page(ended);
  EXPECT_EQ(ask({"override", "show", "o-3"}), 0) << err;
  EXPECT_TRUE(said(out, "until     2030-01-01T00:00:00Z (ended)\n")) << out;
  // The document as the server sent it, with `kept`.
  const Json none{{"total", 0}, {"kept", false}, {"overrides", Json::array()}};
  answers["GET /v1/overrides?limit=100"] = page(none);
  EXPECT_EQ(ask({"override", "list", "--json"}), 0);
  EXPECT_EQ(result(), none);
  EXPECT_EQ(ask({"override", "list"}), 0);
  EXPECT_EQ(out + err, "note: there are no overrides\n");
  answers["GET /v1/overrides?rule=u&dialect=native&actor=a%1B&limit=100"] = page(none);
  EXPECT_EQ(ask({"override", "list", "--rule", "u", "--dialect", "native", "--actor", "a\x1b"}), 0);
  EXPECT_EQ(out + err,
            "note: no override matches --rule 'u' --dialect 'native' --actor 'a\\x1b'\n");
  answers["GET /v1/overrides/o-1"] = page(override_of("o-1"));
  EXPECT_EQ(ask({"override", "show", "o-1", "--json"}), 0);
  EXPECT_EQ(result()["id"], "o-1");
  answers["DELETE /v1/overrides/o-1"] = page(override_of("o-1"));
  EXPECT_EQ(ask({"override", "remove", "o-1"}), 0);
  EXPECT_EQ(out, "o-1: removed\n");
  // An id that does not exist does not keep the others from being removed.
  answers["DELETE /v1/overrides/o-2"] = page(override_of("o-2"));
  const Words some{"override", "remove", "o-1", "o-9", "o-8\x1b", "o-2"};
  EXPECT_EQ(ask(some), 1);
  EXPECT_EQ(out, "o-1: removed\no-2: removed\n");
  EXPECT_EQ(err, "error: o-9: there is nothing here\nerror: o-8\\x1b: there is nothing here\n");
  Words as_json = some;
  as_json.push_back("--json");
  EXPECT_EQ(ask(as_json), 1);
  EXPECT_EQ(result(), Json({{"error", "o-9: there is nothing here"},
                            {"status", 404},
                            {"removed", {"o-1", "o-2"}},
                            {"refused", {"o-9", "o-8\x1b"}}}));
  answers["DELETE /v1/overrides/o-9"] = problem(401, "this needs the admin token");
  EXPECT_EQ(ask(some), 3);
  EXPECT_EQ(out, "o-1: removed\n");
  EXPECT_TRUE(err.starts_with("error: o-9: the server requires its admin token")) << err;
}

TEST_F(AdminCommands, AnOverrideIsRemovedByItsRuleAndActor) {
  const auto found = [&](const std::string& query, Json overrides) {
    answers["GET /v1/overrides?" + query] =
        page({{"overrides", std::move(overrides)}, {"total", 2}});
  };
  found("rule=user&actor=a%20b&limit=2", Json::array({override_of("o-1")}));
  answers["DELETE /v1/overrides/o-1"] = page(override_of("o-1"));
  EXPECT_EQ(ask({"override", "remove", "--rule", "user", "--actor", "a b"}), 0) << err;
  EXPECT_EQ(out, "o-1: removed\n");
  const size_t asked = server.requests().size();
  found("rule=user&actor=none&limit=2", Json::array());
  EXPECT_EQ(ask({"override", "remove", "--rule", "user", "--actor", "none"}), 1);
  EXPECT_TRUE(err.starts_with("error: no override has that rule and actor; ")) << err;
  // Several are never removed together.
  found("rule=user&actor=two&limit=2", Json::array({override_of("o-1"), override_of("o-2")}));
  EXPECT_EQ(ask({"override", "remove", "--rule", "user", "--actor", "two"}), 1);
  EXPECT_TRUE(said(err, "add `--dialect`, or name the ID")) << err;
  EXPECT_EQ(server.requests().size(), asked + 2);
  found("rule=user&dialect=native&actor=two&limit=2", Json::array({override_of("o-1")}));
  EXPECT_EQ(ask({"override", "remove", "--rule", "user", "--actor", "two", "--dialect", "native"}),
            0)
      << err;
  for (const Words& words :
       {Words{}, {"--rule", "user"}, {"--actor", "a"}, {"o-1", "--rule", "user", "--actor", "a"}}) {
    Words all{"override", "remove"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(ask(all), 2);
    EXPECT_TRUE(said(err, "remove wants one ID or more, or --rule and --actor")) << err;
  }
}

TEST_F(AdminCommands, OverrideSetNamesTheOptionsThatAreMissing) {
  EXPECT_EQ(ask({"override", "set", "--actor", "a", "--deny"}), 2);
  EXPECT_TRUE(said(err, "add `--rule RULE`")) << err;
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--window", "1m"}), 2);
  EXPECT_TRUE(said(err, "add `--quota N`")) << err;
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--deny", "--until", "next friday"}), 2);
  EXPECT_TRUE(said(err, "for a length of time write `--for 3d`")) << err;
  const std::string refusal = "limit: has no window; add `window: 1s`";
  answers["POST /v1/overrides"] = problem(400, refusal);
  EXPECT_EQ(ask({"override", "set", "--rule", "user", "--actor", "a", "--quota", "5"}), 1);
  EXPECT_EQ(err, "error: " + refusal + " (here: `--window 1s`)\n");
  EXPECT_EQ(
      ask({"override", "set", "--rule", "user", "--actor", "a", "--quota", "5", "--window", "1"}),
      1);
  EXPECT_EQ(err, "error: " + refusal + "\n");
}

TEST_F(AdminCommands, OverrideLoadIsRefusedWithWhatToSend) {
  for (const Words& words : {Words{"override", "load"}, {"override", "load", "overrides.json"}}) {
    EXPECT_EQ(ask(words), 2);
    EXPECT_TRUE(said(err, "there is no `override load`: send a list")) << err;
    EXPECT_TRUE(said(err, "curl http://127.0.0.1:8380/v1/overrides --json @")) << err;
  }
  EXPECT_TRUE(server.requests().empty());
}

}  // namespace
}  // namespace sluice::cli
