// Every variable of limitd's environment: alone, beside its partner, empty, `0`, and no number.
#include "protocol/limitd/environment.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace sluice::limitd::environment_test {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

// As "port 80; host h; db d; level warn; file f; type x: size 3, 5 per 60s, unlimited".
std::string read(const Texts& texts, std::string& said) {
  std::vector<NamedText> variables;
  for (const auto& [name, text] : texts) variables.push_back({name, text});
  base::Diagnostics diagnostics;
  LimitdEnvironment environment(variables, diagnostics);
  LimitdConfig config;
  environment.settings(config, {});
  std::string all;
  const auto add = [&](const std::string& text) { all += (all.empty() ? "" : "; ") + text; };
  if (config.port) add("port " + std::to_string(config.port->value));
  if (config.hostname) add("host " + config.hostname->value);
  if (config.db) add("db " + config.db->value.path);
  if (config.log_level) add("level " + config.log_level->value);
  if (config.log_file) add("file " + config.log_file->value);
  for (const LimitdType& type : environment.types()) {
    std::string text = "type " + type.name + ":";
    if (type.numbers.size) text += " size " + std::to_string(*type.numbers.size);
    if (const auto& rate = type.numbers.rate)
      text += " " + std::to_string(rate->units) + " per " +
              std::to_string(rate->window.us / 1'000'000) + "s";
    if (type.numbers.unlimited.value_or(false)) text += " unlimited";
    if (!type.purpose.empty()) text += " for " + type.purpose;
    add(text);
  }
  for (const auto& d : diagnostics)
    said += (said.empty() ? "" : ", ") +
            std::string(d.severity == base::Diagnostic::Severity::error ? "error " : "warning ") +
            d.subject;
  return all;
}

struct Case {
  Texts variables;
  const char *result, *said;
};

void expect(std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    std::string named, said;
    for (const auto& [name, text] : one.variables) named += name + "=`" + text + "` ";
    const std::string result = read(one.variables, said);
    EXPECT_EQ(said, one.said) << named;
    if (said.find("error") == said.npos) {
      EXPECT_EQ(result, one.result) << named;
    }
  }
}

TEST(LimitdVariables, SettingsOfTheServer) {
  expect({{{{"PORT", "80"}}, "port 80", ""},
          {{{"PORT", "0"}}, "port 0", ""},
          {{{"PORT", " 0x50 "}}, "port 80", ""},
          {{{"PORT", ""}}, "", "error PORT"},
          {{{"PORT", "port"}}, "", "error PORT"},
          {{{"PORT", "65536"}}, "", "error PORT"},
          {{{"DB", "d"}}, "db d", ""},
          {{{"DB", "0"}}, "db 0", ""},
          {{{"DB", ""}}, "", "error DB"},
          {{{"HOSTNAME", "h"}}, "host h", ""},
          {{{"HOSTNAME", ""}}, "", ""},
          {{{"LOG_LEVEL", "warn"}, {"LOG_FILE", "f"}}, "level warn; file f", ""},
          {{{"LOG_LEVEL", ""}, {"LOG_FILE", ""}}, "", ""},
          {{{"LOG_LEVEL", "0"}}, "", "error LOG_LEVEL"},
          {{{"CONFIGURATOR", "x"}}, "", "warning CONFIGURATOR"},
          {{{"CONFIGURATOR", ""}, {"NODE_ENV", ""}}, "", ""}});
}

// Numbers are read by Number(), to which an empty text is 0.
TEST(LimitdVariables, NumbersOfAType) {
  const auto with = [](Texts more) {
    more.emplace_back("BUCKET_1_NAME", "x");
    return more;
  };
  expect({{with({{"BUCKET_1_SIZE", "3"}}), "type x: size 3", ""},
          {with({{"BUCKET_1_SIZE", "0"}}), "type x: size 0", ""},
          {with({{"BUCKET_1_SIZE", ""}}), "type x: size 0", "warning BUCKET_1_SIZE"},
          {with({{"BUCKET_1_SIZE", ""}, {"BUCKET_1_PER_SECOND", "5"}}), "type x: size 0 5 per 1s",
           "warning BUCKET_1_SIZE"},
          {with({{"BUCKET_1_SIZE", "3e1"}}), "type x: size 30", ""},
          {with({{"BUCKET_1_SIZE", "0x1e"}}), "type x: size 30", ""},
          {with({{"BUCKET_1_SIZE", " 30.0 "}}), "type x: size 30", ""},
          {with({{"BUCKET_1_SIZE", "3.5"}}), "", "error BUCKET_1_SIZE"},
          {with({{"BUCKET_1_SIZE", "many"}}), "", "error BUCKET_1_SIZE"},
          {with({{"BUCKET_1_SIZE", "-1"}}), "", "error BUCKET_1_SIZE"},
          {with({{"BUCKET_1_PER_SECOND", "5"}}), "type x: 5 per 1s", ""},
          {with({{"BUCKET_1_PER_MINUTE", "5"}}), "type x: 5 per 60s", ""},
          {with({{"BUCKET_1_PER_HOUR", "5"}}), "type x: 5 per 3600s", ""},
          {with({{"BUCKET_1_PER_DAY", "5"}}), "type x: 5 per 86400s", ""},
          {with({{"BUCKET_1_PER_SECOND", "0"}}), "", "error BUCKET_1_PER_SECOND"},
          {with({{"BUCKET_1_PER_SECOND", ""}}), "", "error BUCKET_1_PER_SECOND"},
          {with({{"BUCKET_1_PER_MINUTE", ""}}), "", "error BUCKET_1_PER_MINUTE"},
          {with({{"BUCKET_1_PER_HOUR", "x"}}), "", "error BUCKET_1_PER_HOUR"},
          {with({{"BUCKET_1_PER_DAY", ""}, {"BUCKET_1_SIZE", "3"}}), "type x: size 3", ""},
          {with({{"BUCKET_1_PER_SECOND", "5"}, {"BUCKET_1_PER_HOUR", "5"}}), "",
           "error BUCKET_1_PER_HOUR"}});
}

TEST(LimitdVariables, NameAndPurposeOfAType) {
  const auto with = [](Texts more) {
    more.insert(more.begin(), {"BUCKET_1_SIZE", "3"});
    return more;
  };
  expect(
      {{with({}), "", "error BUCKET_1_SIZE"},
       {{{"BUCKET_1_SIZE", ""}}, "", "warning BUCKET_1_SIZE, error BUCKET_1_SIZE"},
       {{{"BUCKET_1_NAME", "x"}}, "", "error BUCKET_1_NAME"},
       {{{"BUCKET_1_NAME", ""}}, "", ""},
       {with({{"BUCKET_1_NAME", ""}}), "", "error BUCKET_1_SIZE"},
       {with({{"BUCKET_1_NAME", "0"}}), "type 0: size 3", ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_UNLIMITED", "true"}}), "type x: size 3 unlimited",
        ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_UNLIMITED", ""}}), "type x: size 3", ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_UNLIMITED", "0"}}), "type x: size 3", ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_UNLIMITED", "x"}}), "",
        "error BUCKET_1_UNLIMITED"},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PURPOSE", "why"}}), "type x: size 3 for why", ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PURPOSE", ""}, {"BUCKET_1_MATCH", ""}}),
        "type x: size 3", ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_MATCH", "y"}}), "type x: size 3",
        "warning BUCKET_1_MATCH"},
       {{{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PER_INTERVAL", "5"}, {"BUCKET_1_INTERVAL", "2000"}},
        "type x: 5 per 2s",
        ""},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_INTERVAL", "2000"}}), "",
        "error BUCKET_1_INTERVAL"},
       {with({{"BUCKET_1_NAME", "x"}, {"BUCKET_1_PER_INTERVAL", ""}, {"BUCKET_1_INTERVAL", ""}}),
        "type x: size 3", ""},
       {{{"BUCKET_NAME", "x"}}, "", "warning BUCKET_NAME"},
       {{{"BUCKET_NAME", ""}}, "", ""}});
}

}  // namespace
}  // namespace sluice::limitd::environment_test
