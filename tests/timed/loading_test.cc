// A policy of 100,000 rules is read within two seconds, whatever its format and its shape. That is
// processor time of the thread that reads, so other processes do not count.
#include <gtest/gtest.h>
#include <time.h>

#include <cstdio>
#include <string>

#include "policy/read/native.h"
#include "policy/read/native_review.h"
#include "protocol/divvy/rules.h"
#include "request/space.h"
#include "tests/support/named_rules.h"
#include "tests/support/patience.h"

namespace sluice::policy {
namespace {

// Where times are not asserted, the test only checks what is read.
const size_t count = tests::holds_times() ? 100'000 : 1'000;
constexpr double seconds_max = 2.0;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

void expect_in_time(double seconds, const char* what) {
  if (tests::holds_times()) {
    EXPECT_LT(seconds, seconds_max) << what;
  }
}

struct Loaded {
  request::Spaces spaces;
  RuleSet rules;
  base::Diagnostics diagnostics;
};

template <class Load>
void loads(const char* what, Load&& load) {
  Loaded loaded;
  const double begin = thread_seconds();
  load(loaded);
  const double seconds = thread_seconds() - begin;
  ASSERT_FALSE(base::has_errors(loaded.diagnostics)) << to_string(loaded.diagnostics.front());
  ASSERT_GE(loaded.rules.native_rules().size() + loaded.rules.rules(&divvy::dialect).size(), count);
  expect_in_time(seconds, what);
  testing::Test::RecordProperty(what, std::to_string(seconds));
  std::printf("%s: %.2f s\n", what, seconds);
}

void loads_native(const char* what, const std::string& text) {
  loads(what,
        [&](Loaded& into) { read_native(text, "f", into.spaces, into.rules, into.diagnostics); });
}

std::string native(std::string (*match)(size_t)) {
  std::string text = "rules:\n";
  for (size_t i = 0; i < count; ++i)
    text += "- name: r" + std::to_string(i) + "\n  match: { " + match(i) +
            " }\n  limit: { quota: 100, window: 1m }\n";
  return text;
}

TEST(Loading, NativeRulesOfTheNamedSets) {
  for (const auto& set : tests::named_rules) loads_native(set.name, text_of(set, count));
}

TEST(Loading, NativeRulesThatAllResembleEachOther) {
  loads_native("star in front",
               native([](size_t i) { return "p: \"*/v" + std::to_string(i) + "\""; }));
  loads_native("two stars",
               native([](size_t i) { return "p: \"/a/*/v" + std::to_string(i) + "/*\""; }));
  loads_native("any value",
               native([](size_t i) { return "p: \"*\", k" + std::to_string(i) + ": \"*\""; }));
  loads_native("prefixes of all sizes", native([](size_t i) {
                 return "p: \"/" + std::string(i % 100, 'x') + std::to_string(i) + "*\"";
               }));
  loads_native("one pattern", native([](size_t) { return std::string("p: /a"); }));
}

TEST(Loading, ReviewOfRulesThatAllResembleEachOther) {
  for (const char* before : {"*/v", "/a/*/v"}) {
    std::string text = "rules:\n";
    for (size_t i = 0; i < count; ++i)
      text += "- { match: { p: \"" + (before + std::to_string(i)) + "/*\" }, deny: true }\n";
    Loaded loaded;
    read_native(text, "f", loaded.spaces, loaded.rules, loaded.diagnostics);
    const double begin = thread_seconds();
    review(loaded.rules, loaded.diagnostics);
    expect_in_time(thread_seconds() - begin, before);
    EXPECT_FALSE(base::has_errors(loaded.diagnostics)) << before;
  }
}

TEST(Loading, DivvyIni) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += "[method=GET path=/pantry/" + std::to_string(i) + (i % 2 != 0 ? "/*" : "") +
            " ip=*]\ncreditLimit=9\nresetSeconds=9\nactorField=ip\n\n";
  text += "[default]\ncreditLimit=0\n";
  loads("Divvy's INI", [&](Loaded& into) {
    divvy::read_divvy(text, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "f", into.spaces,
                      into.rules, into.diagnostics);
  });
}

TEST(Loading, DivvyJson) {
  std::string text = "{ \"overrides\": [\n";
  for (size_t i = 0; i < count; ++i)
    text += "{ \"operation\": { \"method\": \"GET\", \"path\": \"/pantry/" + std::to_string(i) +
            (i % 2 != 0 ? "/*" : "") +
            "\", \"ip\": \"*\" }, \"creditLimit\": 9, \"resetSeconds\": 9, \"actorField\": \"ip\" "
            "},\n";
  text.resize(text.size() - 2);
  text += "],\n\"default\": { \"operation\": {}, \"creditLimit\": 0 } }\n";
  loads("Divvy's JSON", [&](Loaded& into) {
    divvy::read_divvy(text, divvy::DivvyFormat::json, divvy::DivvyMatching::code, "f", into.spaces,
                      into.rules, into.diagnostics);
  });
}

}  // namespace
}  // namespace sluice::policy
