// Log lines as JSON, read by another parser (nlohmann's).
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/utf8.h"
#include "log/log.h"
#include "tests/support/dice.h"

namespace sluice::log {
namespace {

using Json = nlohmann::json;
using tests::Dice;

std::string line_of(std::string_view message, spdlog::level::level_enum level = spdlog::level::info,
                    std::string_view module = "server") {
  spdlog::details::log_msg line(spdlog::string_view_t(module.data(), module.size()), level,
                                spdlog::string_view_t(message.data(), message.size()));
  line.time =
      std::chrono::system_clock::time_point(std::chrono::microseconds(1'767'323'045'000'042));
  std::string out;
  append_json_line(out, line);
  return out;
}

// As a reader of UTF-8 shows the text.
std::string sanitized(std::string_view text) {
  std::string out(base::utf8::sanitized_size(text), '\0');
  base::utf8::sanitize(text, out.data());
  return out;
}

TEST(LogJson, IsOneObjectALine) {
  EXPECT_EQ(line_of("hello \"you\" \\ there"),
            "{\"time\":\"2026-01-02T03:04:05.000042Z\",\"level\":\"info\",\"module\":\"server\","
            "\"message\":\"hello \\\"you\\\" \\\\ there\"}\n");
  EXPECT_EQ(Json::parse(line_of("x", spdlog::level::warn)).at("level"), "warn");
  EXPECT_EQ(Json::parse(line_of("x", spdlog::level::err)).at("level"), "error");
  EXPECT_EQ(Json::parse(line_of("x", spdlog::level::info, "")).at("module"), "log");
}

TEST(LogJson, EscapesEveryByte) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    EXPECT_EQ(Json::parse(line_of(one)).at("message"), sanitized(one)) << byte;
    all += one;
  }
  EXPECT_EQ(Json::parse(line_of(all)).at("message"), sanitized(all));
  const std::string line = line_of(all);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  for (const char c : line.substr(0, line.size() - 1))
    EXPECT_GE(static_cast<unsigned char>(c), 0x20);
}

TEST(LogJson, IsWellFormedWhateverTheMessageHas) {
  // Parts that may be handled wrong: starts and ends of characters, escapes, control characters.
  static const std::string parts[] = {"\xc3",
                                      "\xa9",
                                      "\xe2\x82",
                                      "\xe2\x82\xac",
                                      "\xf0\x9f\x98\x80",
                                      "\xf0\x9f",
                                      "\xed\xa0\x80",
                                      "\xff",
                                      "\"",
                                      "\\",
                                      "\\u12",
                                      "\n",
                                      "\r",
                                      "\x1b[31m",
                                      "\x7f",
                                      "a",
                                      std::string(1, '\0')};
  Dice dice(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string message;
    for (size_t n = dice(size_t{12}); n > 0; --n)
      message += dice(4) == 0 ? std::string(1, static_cast<char>(dice(256)))
                              : parts[dice(std::size(parts))];
    const Json json = Json::parse(line_of(message));
    ASSERT_EQ(json.size(), 4u);
    ASSERT_EQ(json.at("message"), sanitized(message));
  }
}

TEST(Log, ChangesFormatAndLevelsWhileItRuns) {
  testing::internal::CaptureStderr();
  {
    Log log(spdlog::level::info);
    const auto& store = *log.logger(LogModule::store);
    log.logger()->info("one");
    LogSettings settings = log.settings();
    settings.format = LogFormat::json;
    settings.modules[LogModule::store] = spdlog::level::debug;
    log.set(settings);
    EXPECT_TRUE(store.should_log(spdlog::level::debug));
    EXPECT_FALSE(log.logger()->should_log(spdlog::level::debug));
    log.logger(LogModule::store)->debug("two\n");
    log.logger()->debug("unheard");
    settings.modules.clear();
    settings.level = spdlog::level::warn;
    log.set(settings);
    log.logger(LogModule::store)->info("unheard");
    log.logger(LogModule::redis)->warn("three");
  }
  const std::string text = testing::internal::GetCapturedStderr();
  // A line has the format of the time when it is written, which may be a little later.
  const size_t second = text.find('\n') + 1, third = text.find('\n', second) + 1;
  const Json two = Json::parse(text.substr(second, third - second));
  EXPECT_EQ(two.at("message"), "two\n");
  EXPECT_EQ(two.at("module"), "store");
  EXPECT_EQ(two.at("level"), "debug");
  EXPECT_EQ(Json::parse(text.substr(third)).at("message"), "three");
  EXPECT_EQ(Json::parse(text.substr(third)).at("module"), "redis");
}

TEST(Log, HasNamesForItsModules) {
  for (const std::string_view name : log_module_names) EXPECT_EQ(name_of(*log_module(name)), name);
  for (const char* word : {"", "Server", "everything"}) EXPECT_FALSE(log_module(word)) << word;
  EXPECT_EQ(name_of(spdlog::level::critical), "error");
  EXPECT_EQ(name_of(spdlog::level::off), "off");
}

}  // namespace
}  // namespace sluice::log
