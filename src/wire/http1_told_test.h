// For tests: what a reader of HTTP/1.1 finds in bytes, however they are cut.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/support/dice.h"
#include "wire/http1_reader.h"
#include "wire/http1_reader_model.h"

namespace sluice::wire::http1_test {

inline std::string get(const std::string& fields) {
  return "GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n";
}
inline std::string chunked(const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body;
}

// What the reader finds in `text` in one piece; checks that it finds the same byte by byte and in
// random pieces.
inline Http1Transcript told(const std::string& text, const Http1Reader::Bounds& bounds = {},
                            Http1Reader::Use use = Http1Reader::Use::requests) {
  const Http1Transcript whole = http1_transcript(
      text, bounds, [&] { return text.size() + 1; }, use);
  EXPECT_EQ(whole.fault, "") << text;
  for (uint32_t seed = 0; seed < 6; ++seed) {
    tests::Dice dice(seed);
    const size_t longest = seed == 0 ? 1 : seed * seed * 3;
    const Http1Transcript split = http1_transcript(
        text, bounds, [&] { return 1 + dice(longest); }, use);
    EXPECT_EQ(split.fault, "") << text << " seed " << seed;
    EXPECT_EQ(split.text(), whole.text()) << text << " seed " << seed;
  }
  return whole;
}

}  // namespace sluice::wire::http1_test
