#include "otlp/caller.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace sluice::otlp {
namespace {

const std::string trace_digits = "0af7651916cd43dd8448eb211c80319c",
                  short_digits = "8448eb211c80319c", span_digits = "b7ad6b7169203331";
constexpr TraceId id{0x0af7651916cd43dd, 0x8448eb211c80319c}, short_id{0, 0x8448eb211c80319c};
constexpr uint64_t span_id = 0xb7ad6b7169203331;

TEST(Traceparent, SaysTraceSpanAndWhetherItIsSampled) {
  EXPECT_EQ(read_traceparent("00-" + trace_digits + "-" + span_digits + "-01"),
            (Caller{id, span_id, true}));
  EXPECT_EQ(read_traceparent("00-" + trace_digits + "-" + span_digits + "-00"),
            (Caller{id, span_id, false}));
  EXPECT_EQ(read_traceparent("00-" + trace_digits + "-" + span_digits + "-ff"),
            (Caller{id, span_id, true}));
  EXPECT_EQ(read_traceparent("00-" + trace_digits + "-" + span_digits + "-fe"),
            (Caller{id, span_id, false}));
}

TEST(Traceparent, OfALaterVersionMayHaveMoreBehindADash) {
  const std::string later = "01-" + trace_digits + "-" + span_digits + "-01";
  EXPECT_EQ(read_traceparent(later), (Caller{id, span_id, true}));
  EXPECT_EQ(read_traceparent(later + "-more"), (Caller{id, span_id, true}));
  EXPECT_FALSE(read_traceparent(later + "more"));
  EXPECT_FALSE(read_traceparent("00-" + trace_digits + "-" + span_digits + "-01-more"));
}

TEST(Traceparent, ThatIsMalformedIsNone) {
  const std::string zeros(32, '0');
  for (const std::string& text :
       std::vector<std::string>{"", "00", "00-" + trace_digits + "-" + span_digits,
                                "00-" + trace_digits + "-" + span_digits + "-1",
                                "ff-" + trace_digits + "-" + span_digits + "-01",
                                "0g-" + trace_digits + "-" + span_digits + "-01",
                                "00-" + zeros + "-" + span_digits + "-01",
                                "00-" + trace_digits + "-" + zeros.substr(16) + "-01",
                                "00_" + trace_digits + "-" + span_digits + "-01",
                                "00-" + trace_digits + "_" + span_digits + "-01",
                                "00-" + trace_digits + "-" + span_digits + "_01",
                                "00-" + trace_digits + "-" + span_digits + "-0x",
                                "00-" + short_digits + "-" + span_digits + "-01",
                                " 00-" + trace_digits + "-" + span_digits + "-01",
                                "00-0AF7651916CD43DD8448EB211C80319C-" + span_digits + "-01"})
    EXPECT_FALSE(read_traceparent(text)) << text;
}

TEST(B3, InOneFieldSaysTraceSpanAndPerhapsWhetherItIsSampled) {
  EXPECT_EQ(read_b3(trace_digits + "-" + span_digits), (Caller{id, span_id, {}}));
  EXPECT_EQ(read_b3(trace_digits + "-" + span_digits + "-1"), (Caller{id, span_id, true}));
  EXPECT_EQ(read_b3(trace_digits + "-" + span_digits + "-d"), (Caller{id, span_id, true}));
  EXPECT_EQ(read_b3(trace_digits + "-" + span_digits + "-0-" + span_digits),
            (Caller{id, span_id, false}));
  EXPECT_EQ(read_b3(short_digits + "-" + span_digits + "-1"), (Caller{short_id, span_id, true}));
  EXPECT_EQ(read_b3("0"), (Caller{{}, 0, false}));
  EXPECT_EQ(read_b3("1"), (Caller{{}, 0, true}));
  EXPECT_EQ(read_b3("d"), (Caller{{}, 0, true}));
}

TEST(B3, ThatIsMalformedIsNone) {
  for (const std::string& text : std::vector<std::string>{
           "", "2", "x", trace_digits, trace_digits + "-", trace_digits + "-" + span_digits + "-",
           trace_digits + "-" + span_digits + "-2", trace_digits + "-" + span_digits + "-1-",
           trace_digits + "-" + span_digits + "-1-x",
           trace_digits + "-" + span_digits + "-1-" + span_digits + "-",
           span_digits.substr(1) + "-" + span_digits, std::string(32, '0') + "-" + span_digits,
           trace_digits + "-" + std::string(16, '0'), "1-" + trace_digits + "-" + span_digits})
    EXPECT_FALSE(read_b3(text)) << text;
}

TEST(CallerFields, AreReadInAnyCaseAndTraceparentGoesFirst) {
  CallerFields fields;
  fields.add("X-B3-TraceId", short_digits);
  fields.add("x-b3-spanid", span_digits);
  fields.add("X-B3-Sampled", "0");
  fields.add("traceparents", "x");
  EXPECT_EQ(read_caller(fields), (Caller{short_id, span_id, false}));
  const std::string b3 = trace_digits + "-" + span_digits + "-0",
                    parent = "00-" + trace_digits + "-" + span_digits + "-01";
  fields.add("B3", b3);
  EXPECT_EQ(read_caller(fields), (Caller{id, span_id, false}));
  fields.add("Traceparent", parent);
  EXPECT_EQ(read_caller(fields), (Caller{id, span_id, true}));
  fields.add("traceparent", parent);
  EXPECT_EQ(read_caller(fields), Caller());
}

TEST(CallerFields, OfB3AreAllGoodOrNone) {
  const auto read = [](std::string_view trace_text, std::string_view span_text,
                       std::string_view sampled, std::string_view flags = {}) {
    return read_caller(
        {.b3_trace = trace_text, .b3_span = span_text, .b3_sampled = sampled, .b3_flags = flags});
  };
  EXPECT_EQ(read(trace_digits, span_digits, ""), (Caller{id, span_id, {}}));
  EXPECT_EQ(read(trace_digits, span_digits, "true"), (Caller{id, span_id, true}));
  EXPECT_EQ(read(trace_digits, span_digits, "false"), (Caller{id, span_id, false}));
  EXPECT_EQ(read(trace_digits, span_digits, "", "1"), (Caller{id, span_id, true}));
  EXPECT_EQ(read("", "", "0"), (Caller{{}, 0, false}));
  EXPECT_EQ(read(trace_digits, "", "1"), Caller());
  EXPECT_EQ(read("", span_digits, "1"), Caller());
  EXPECT_EQ(read(trace_digits, span_digits, "yes"), Caller());
  EXPECT_EQ(read(trace_digits + "0", span_digits, "1"), Caller());
}

TEST(CallerFields, AreKnownByTheirNames) {
  for (const char* name :
       {"traceparent", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags"})
    EXPECT_TRUE(is_caller_field(name)) << name;
  for (const char* name : {"", "b", "tracestate", "x-b3-parentspanid", "B3"})
    EXPECT_FALSE(is_caller_field(name)) << name;
}

// What is read of a text that was changed at random has ids that stand in it, and both or none.
TEST(CallerFields, ThatWereChangedAtRandomGiveWhatStandsInThem) {
  std::mt19937_64 random(1);
  const std::vector<std::string> whole{"00-" + trace_digits + "-" + span_digits + "-01",
                                       trace_digits + "-" + span_digits + "-1-" + span_digits,
                                       short_digits + "-" + span_digits + "-d"};
  constexpr std::string_view characters = "0123456789abcdefgF-x ";
  size_t read = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = whole[random() % whole.size()];
    for (size_t changes = random() % 3; changes > 0; --changes) {
      const size_t at = random() % (text.size() + 1);
      if (random() % 3 == 0 && at < text.size())
        text.erase(at, 1 + random() % 20);
      else if (random() % 2 == 0 || at == text.size())
        text.insert(at, 1, characters[random() % characters.size()]);
      else
        text[at] = characters[random() % characters.size()];
    }
    for (const auto& caller : {read_traceparent(text), read_b3(text)}) {
      if (!caller) continue;
      ++read;
      EXPECT_EQ(caller->trace == TraceId(), caller->span == 0) << text;
      if (caller->span == 0) continue;
      char hex[17];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(caller->span));
      EXPECT_NE(text.find(hex), text.npos) << text;
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(caller->trace.low));
      EXPECT_NE(text.find(hex), text.npos) << text;
    }
  }
  EXPECT_GT(read, 20'000u);
}

}  // namespace
}  // namespace sluice::otlp
