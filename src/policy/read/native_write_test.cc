// Native rules that are written as YAML and read again (policy/read/native_write.h), at random.
#include "policy/read/native_write.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "base/bounds.h"
#include "limit/decide.h"
#include "policy/read/native.h"

namespace sluice::policy {
namespace {

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  RuleSet rules() {
    RuleSet set;
    const int64_t count = any(1, 12);
    for (int64_t i = 0; i < count; ++i) set.add(native_dialect, rule(i));
    return set;
  }

 private:
  int64_t any(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }

  // A word of parts that have a meaning in YAML or in stored names of counters.
  std::string word(int64_t size_min) {
    static constexpr std::array<std::string_view, 28> parts = {
        "a",  "B",    "9",    "*",        " ",  ":",    "#",
        "-",  "?",    "{",    "]",        ",",  "&x",   "!t",
        "\"", "'",    "\\",   "\n",       "\t", "\r",   std::string_view("\0", 1),
        "<<", "\x7f", "null", "\xc3\xa9", "%",  "true", "="};
    std::string text;
    for (int64_t size = any(size_min, 6); size > 0; --size)
      text += parts[static_cast<size_t>(any(0, std::ssize(parts) - 1))];
    return any(0, 40) == 0 ? text + std::string(2000, 'x') : text;
  }

  int64_t units() { return any(0, 3) == 0 ? base::bounds::quota_max - any(0, 2) : any(1, 200); }

  Rule rule(int64_t number) {
    Rule rule;
    rule.name = any(0, 9) == 0 ? "" : "r" + std::to_string(number) + "._-";
    if (any(0, 1) == 0) rule.comment = word(1);
    rule.mode = static_cast<Mode>(any(0, 2));
    rule.then = static_cast<Then>(any(0, 1));
    rule.on_store_error = static_cast<request::OnError>(any(0, 3));
    rule.reserve = {.ttl_max = {any(0, 1) == 0 ? any(1, 5) * 1'000'001 : 600'000'000},
                    .fraction = any(0, 1) == 0 ? any(1, 999'999) : request::HoldTerms::whole,
                    .keeps = any(0, 1) == 0,
                    .ignores_late = any(0, 1) == 0};
    for (int64_t i = any(0, 4); i > 0; --i) {
      // The number in front makes keys differ within a rule and between rules without a name.
      const std::string key = std::to_string(10 * number + i) + word(0);
      const std::string value = word(0);
      rule.pattern += (rule.pattern.empty() ? "" : " ") + key + "=" + value;
      rule.conditions.push_back({key, Pattern::wildcard(value)});
    }
    if (rule.conditions.empty()) {
      rule.pattern = "any";
      rule.name = "any" + std::to_string(number);
    }
    for (int64_t i = any(0, 3); i > 0; --i) rule.actor.push_back(std::to_string(i) + word(0));
    if (any(0, 3) == 0) rule.fair_by = word(1);
    rule.limits = limits();
    if (limit::is_counted(rule.limits))
      rule.counts = static_cast<limit::LimitMask>(any(0, limit::all_of(rule.limits)));
    limit::Overdrafts overdrafts;
    for (const limit::Limit& limit : rule.limits)
      overdrafts.add(limit, any(0, 2) == 0 ? units() - 1 : limit::Overdrafts::none);
    if (limit::is_counted(rule.limits) && overdrafts.has_any())
      rule.overdrafts = std::make_shared<const limit::Overdrafts>(overdrafts);
    const bool has_units = std::ranges::any_of(rule.limits, [](const limit::Limit& limit) {
      return limit::has_counter(limit.algorithm) &&
             limit.algorithm != limit::Algorithm::concurrency;
    });
    if (has_units && any(0, 2) == 0) rule.unit = "tokens-" + std::to_string(number);
    return rule;
  }

  std::vector<limit::Limit> limits() {
    using limit::Algorithm;
    const int64_t kind = any(0, 9);
    if (kind == 0) return {{Algorithm::deny, 0, {}}};
    if (kind == 1) return {{Algorithm::unlimited, base::bounds::quota_max, {}}};
    std::vector<limit::Limit> all;
    for (int64_t i = any(1, 8); i > 0; --i) {
      limit::Limit limit{static_cast<Algorithm>(any(2, 8)), units(), {any(1, 10'000'000)}};
      if (any(0, 9) == 0) limit.window.us = base::bounds::window_us_max;
      if (limit.algorithm == Algorithm::token_bucket) limit.burst = units();
      if (limit.algorithm == Algorithm::fixed_bucket) {
        limit.window = {};
        limit.burst = limit.quota;
      }
      if (limit.algorithm == Algorithm::concurrency)
        limit.burst = any(0, 1) == 0 ? limit.window.us : base::bounds::window_us_max;
      all.push_back(limit);
      if (limit::cells(all) > limit::cells_max) all.pop_back();
    }
    return all;
  }

  std::mt19937_64 random_;
};

TEST(WriteNative, ReadsBackRandomRules) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RuleSet written = Writer(seed).rules();
    const std::string text = "rules:\n" + native_text(written.native_rules());
    request::Spaces spaces;
    RuleSet read, again;
    base::Diagnostics diagnostics;
    read_native(text, "f", spaces, read, diagnostics);
    for (const auto& d : diagnostics)
      ASSERT_NE(d.severity, base::Diagnostic::Severity::error) << to_string(d) << "\n" << text;
    ASSERT_EQ(read.native_rules().size(), written.native_rules().size());
    for (size_t i = 0; i < read.native_rules().size(); ++i) {
      Rule expected = written.native_rules()[i];
      expected.space = read.native_rules()[i].space;
      ASSERT_TRUE(same_rule(read.native_rules()[i], expected)) << i << " of\n" << text;
    }
    // With the same spaces, which are interned by name.
    read_native("rules:\n" + native_text(read.native_rules()), "f", spaces, again, diagnostics);
    for (size_t i = 0; i < read.native_rules().size(); ++i)
      ASSERT_EQ(again.native_rules()[i].space, read.native_rules()[i].space);
  }
}

}  // namespace
}  // namespace sluice::policy
