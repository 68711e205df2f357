// What the messages hold is judged by protobuf's own classes in tests/clients/otlp. Here are what
// those tests cannot cause.
#include "otlp/messages.h"

#include <gtest/gtest.h>

#include <string>

#include "wire/protobuf.h"

namespace sluice::otlp {
namespace {

bool has(std::string_view text, std::string_view piece) {
  return text.find(piece) != text.npos;
}

TEST(SpanMessage, ReplacesBytesThatAreNotUtf8) {
  Span span;
  span.name = "/v1/take";
  span.method = "POST";
  span.rule.append("caf\xc3\xa9 \xff");
  std::string text;
  append_span(span, text);
  EXPECT_TRUE(has(text, "caf\xc3\xa9 \xef\xbf\xbd"));
  EXPECT_FALSE(has(text, "\xff"));
}

TEST(SpanMessage, EndsNotBeforeItsBeginIfTheClockWasSetBack) {
  Span span;
  span.began = {2'000'000};
  span.ended = {1'000'000};
  std::string text, end;
  append_span(span, text);
  wire::append_fixed64(8, 2'000'000'000, end);
  EXPECT_TRUE(has(text, end));
}

TEST(SpanMessage, TellsTheAddressOfAPeerByIPv6) {
  Span span;
  span.peer.append("[2001:db8::7]:4711");
  std::string text, port;
  append_span(span, text);
  EXPECT_TRUE(has(text, "2001:db8::7"));
  EXPECT_FALSE(has(text, "[2001"));
  wire::append_number(3, 4711, port);
  EXPECT_TRUE(has(text, port));
}

TEST(Rejected, IsReadFromTheAnswer) {
  std::string partial, answer;
  wire::append_number(1, 7, partial);
  wire::append_text(2, "too old", partial);
  wire::append_number(9, 1, answer);
  wire::append_text(1, partial, answer);
  EXPECT_EQ(read_rejected(answer).count, 7u);
  EXPECT_EQ(read_rejected(answer).why, "too old");
}

TEST(Rejected, IsNothingInAnyOtherText) {
  std::string cut;
  wire::append_text(1, "\x08", cut);
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("\x0a\x7f"), cut, std::string(100, '\xff')})
    EXPECT_EQ(read_rejected(text).count, 0u) << text;
}

}  // namespace
}  // namespace sluice::otlp
