// Which counters begin fresh under a new policy, and why (policy/fresh_starts.h).
#include "policy/fresh_starts.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/read/native.h"
#include "request/space.h"

namespace sluice::policy {
namespace {

struct Worlds {
  request::Spaces spaces;
  RuleSet was{}, is{};

  std::string fresh(const std::string& before, const std::string& after, size_t most = 9) {
    read(before, was);
    read(after, is);
    size_t more = 0;
    std::string text;
    for (const FreshStart& one : fresh_starts(was, is, most, more)) text += to_text(one) + "\n";
    return text + (more > 0 ? std::to_string(more) + " more\n" : "");
  }

 private:
  void read(const std::string& text, RuleSet& rules) {
    base::Diagnostics diagnostics;
    read_native("rules:\n" + text, "p.yaml", spaces, rules, diagnostics);
    for (const auto& one : diagnostics)
      if (one.severity == base::Diagnostic::Severity::error) ADD_FAILURE() << to_string(one);
  }
};

std::string fresh(const std::string& before, const std::string& after, size_t most = 9) {
  return Worlds().fresh(before, after, most);
}

const std::string head = "- { name: login, match: { path: /login }, actor: ip, ";

TEST(FreshStarts, OfARuleThatGoesOnAreItsLimitsThatTakeNothingOver) {
  const std::string hour = "limit: { quota: 100, window: 1h, algorithm: fixed_window }";
  EXPECT_EQ(fresh(head + hour + " }", head + hour + " }"), "");
  EXPECT_EQ(fresh(head + hour + " }",
                  head + "limit: { quota: 7, window: 2h, algorithm: fixed_window } }"),
            "")
      << "its units are in the new window";
  EXPECT_EQ(fresh(head + hour + " }", head + "limit: { quota: 100, window: 1h } }"),
            "rule `login`, 100 per 1h (token_bucket): begins fresh: its algorithm was "
            "fixed_window\n");
  EXPECT_EQ(fresh(head + "limit: { quota: 5, window: 1m, algorithm: sliding_window } }",
                  head + "limit: { quota: 5, window: 2m, algorithm: sliding_window } }"),
            "rule `login`, 5 per 2m (sliding_window): begins fresh: its window was 1m\n");
  EXPECT_EQ(fresh(head + hour + " }", head + "limit: { quota: 9, algorithm: fixed_bucket } }"),
            "rule `login`, 9 (fixed_bucket): begins fresh: its algorithm was fixed_window\n");
  EXPECT_EQ(fresh(head + "limit: { quota: 5, window: 1m } }",
                  head + "limit: { quota: 9, algorithm: fixed_bucket } }"),
            "")
      << "buckets go on as buckets";
}

TEST(FreshStarts, OfLimitsThatAreAddedMovedAndRemoved) {
  const std::string a = "{ quota: 100, window: 1h, algorithm: fixed_window }",
                    b = "{ quota: 9, window: 1s, algorithm: fixed_window }";
  EXPECT_EQ(fresh(head + "limits: [" + a + "] }", head + "limits: [" + b + ", " + a + "] }"),
            "rule `login`, 9 per 1s (fixed_window): begins fresh: it is new\n");
  EXPECT_EQ(
      fresh(head + "limits: [" + a + ", " + b + "] }", head + "limits: [" + b + ", " + a + "] }"),
      "");
  EXPECT_EQ(fresh(head + "limits: [" + a + ", " + b + "] }", head + "limits: [" + b + "] }"), "");
}

TEST(FreshStarts, OfARuleWhoseCountersHaveAnotherName) {
  const std::string limit = "limit: { quota: 5, window: 1m } }";
  EXPECT_EQ(fresh(head + limit, "- { name: signin, match: { path: /login }, actor: ip, " + limit),
            "rule `signin`: its counters begin fresh: its name was `login`\n");
  EXPECT_EQ(fresh(head + limit, "- { match: { path: /login }, actor: ip, " + limit),
            "rule `path=/login`: its counters begin fresh: its name was `login`\n");
  EXPECT_EQ(fresh("- { match: { path: /login }, actor: ip, " + limit, head + limit),
            "rule `login`: its counters begin fresh: it had no name\n");
  EXPECT_EQ(fresh(head + limit, "- { name: login, match: { path: /login }, actor: user, " + limit),
            "rule `login`: its counters begin fresh: its actor was `ip`\n");
  EXPECT_EQ(fresh("- { match: { path: /login }, actor: ip, " + limit,
                  "- { match: { path: /logon }, actor: ip, " + limit),
            "rule `path=/logon`: its counters begin fresh: it has no name, and its match was "
            "`path=/login`\n");
  EXPECT_EQ(fresh(head + limit, "- { name: login, match: { path: /logon }, actor: ip, " + limit),
            "")
      << "a name keeps the counters";
  EXPECT_EQ(fresh(head + limit, head + limit + "\n- { name: other, actor: user, " + limit), "")
      << "a rule that is new";
}

TEST(FreshStarts, AreBounded) {
  const std::string limit = "limit: { quota: 5, window: 1m } }";
  std::string before, after;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "- { name: r" + std::to_string(i) + ", actor: ";
    before += name + "ip, " + limit + "\n";
    after += name + "user, " + limit + "\n";
  }
  EXPECT_EQ(fresh(before, after, 1),
            "rule `r0`: its counters begin fresh: its actor was `ip`\n4 more\n");
}

}  // namespace
}  // namespace sluice::policy
