// Http1Reader: its bounds, requests that arrive in pieces, and the work and memory that it needs.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/heap.h"
#include "wire/http1_reader.h"
#include "wire/http1_reader_model.h"
#include "wire/http1_told_test.h"

namespace sluice::wire::http1_pieces_test {
namespace {

using Bounds = Http1Reader::Bounds;
using Found = Http1Reader::Found;
using http1_test::chunked;
using http1_test::get;
using http1_test::told;
using tests::heap_bytes;

unsigned status_of(const std::string& text, const Bounds& bounds = {}) {
  return told(text, bounds).status;
}

// ---- Bounds ----

TEST(Http1Pieces, HeadsHaveABoundOfBytes) {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\nA: bcdefgh\r\n\r\n";
  const Http1Transcript fits = told("\r\n" + head + head, {.head_bytes = head.size()});
  EXPECT_EQ(fits.requests.size(), 2u) << fits.text();
  for (size_t bytes = 17; bytes < head.size(); ++bytes)
    EXPECT_EQ(status_of(head, {.head_bytes = bytes}), 431u) << bytes;
  // If the request line alone reaches the bound, the URI is too long.
  for (size_t bytes = 1; bytes <= 15; ++bytes)
    EXPECT_EQ(status_of(head, {.head_bytes = bytes}), 414u) << bytes;
  EXPECT_EQ(status_of(head, {.head_bytes = 16}), 431u);
  EXPECT_EQ(status_of(std::string(100, 'x'), {.head_bytes = 100}), 414u);
  EXPECT_EQ(status_of(std::string(99, 'x'), {.head_bytes = 100}), 0u);
}

TEST(Http1Pieces, HeadsHaveABoundOfFields) {
  const std::string head = get("A: b\r\nC: d\r\n");
  EXPECT_EQ(status_of(head, {.fields = 3}), 0u);
  EXPECT_EQ(status_of(head, {.fields = 2}), 431u);
}

TEST(Http1Pieces, BodiesHaveABound) {
  const std::string request = get("Content-Length: 5\r\n") + "abcde";
  EXPECT_EQ(told(request, {.body_bytes = 5}).requests.size(), 1u);
  EXPECT_EQ(status_of(request, {.body_bytes = 4}), 413u);
  const std::string chunks = chunked("2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n");
  EXPECT_EQ(told(chunks, {.body_bytes = 5}).requests.size(), 1u);
  EXPECT_EQ(status_of(chunks, {.body_bytes = 4}), 413u);
  EXPECT_EQ(told(chunks, {.body_bytes = 9, .chunked_body_bytes = 5}).requests.size(), 1u);
  EXPECT_EQ(status_of(chunks, {.body_bytes = 9, .chunked_body_bytes = 4}), 413u);
  EXPECT_EQ(told(request, {.body_bytes = 5, .chunked_body_bytes = 0}).requests.size(), 1u);
}

TEST(Http1Pieces, LinesOfChunkedBodiesHaveABound) {
  const std::string lines = "1;a=b\r\n" + std::string("\r\n0\r\nA: b\r\n\r\n");
  const std::string request = chunked("1;a=b\r\nx\r\n0\r\nA: b\r\n\r\n");
  EXPECT_EQ(told(request, {.chunk_bytes = lines.size()}).requests.size(), 1u);
  for (size_t bytes = 0; bytes < lines.size(); ++bytes)
    EXPECT_EQ(status_of(request, {.chunk_bytes = bytes}), 413u) << bytes;
}

TEST(Http1Pieces, OnlyAFewEmptyLinesAreSkipped) {
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += "\r\n";
  EXPECT_EQ(told(lines + get("") + lines + get("")).requests.size(), 2u);
  EXPECT_EQ(status_of(lines + "\r\n" + get("")), 400u);
}

// ---- Pieces ----

TEST(Http1Pieces, ReportsTheHeadOnceBeforeTheBodyArrives) {
  const std::string head = "PUT /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
  Http1Reader reader;
  ASSERT_EQ(reader.next(head + "ab").found, Found::head);
  EXPECT_EQ(reader.head().body_bytes, 5u);
  EXPECT_TRUE(reader.has_begun());
  EXPECT_GE(reader.unfinished_bytes(), head.size());
  EXPECT_EQ(reader.next("ab").found, Found::incomplete);
  EXPECT_EQ(reader.next({}).found, Found::incomplete);
  const Http1Reader::Result last = reader.next("cdeGET");
  ASSERT_EQ(last.found, Found::request);
  EXPECT_EQ(last.consumed, 3u);
  EXPECT_EQ(reader.head().path, "/a");
  EXPECT_EQ(reader.head().fields[1].value, "5");
  EXPECT_EQ(reader.body(), "abcde");
  EXPECT_EQ(reader.take_body(), "abcde");
  EXPECT_EQ(reader.body(), "");
  EXPECT_EQ(reader.unfinished_bytes(), 0u);
}

TEST(Http1Pieces, ABodyIsHandedOverOnce) {
  Http1Reader reader;
  const std::string in = get("Content-Length: 2\r\n") + "ab";
  ASSERT_EQ(reader.next(in).found, Found::request);
  EXPECT_EQ(reader.take_body(), "ab");
  EXPECT_EQ(reader.take_body(), "");
}

// What is only announced takes nobody's room.
TEST(Http1Pieces, HoldNoMoreThanTwiceWhatHasArrived) {
  constexpr size_t slack = 64;
  const std::string sized = "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
  for (const std::string& head : {chunked(""), sized}) {
    Http1Reader reader({.head_bytes = 65'536, .body_bytes = 1'048'576});
    ASSERT_EQ(reader.next(head).found, Found::head);
    EXPECT_LE(reader.unfinished_bytes(), 2 * head.size() + slack);
    std::string arrived = head;
    if (head == chunked("")) {
      EXPECT_EQ(reader.next("f4240\r\n").found, Found::incomplete);
      arrived += "f4240\r\n";
    }
    for (size_t piece = 1; arrived.size() + piece < 1'000'000; piece *= 3) {
      EXPECT_EQ(reader.next(std::string(piece, 'x')).found, Found::incomplete);
      arrived.append(piece, 'x');
      EXPECT_GE(reader.unfinished_bytes(), arrived.size() - sizeof "f4240\r\n");
      EXPECT_LE(reader.unfinished_bytes(), 2 * arrived.size() + slack);
    }
  }
}

// ---- Work and memory ----

// A head of several pages of memory arrives byte by byte. Until the last byte arrives, the pages
// before the new byte (at a line's end: before that line) are protected against reading and
// writing.
TEST(Http1Pieces, ReadsNoByteOfAnIncompleteHeadTwice) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::string head = "GET /" + std::string(page, 'p') + " HTTP/1.1\r\nHost: x\r\n";
  while (head.size() < 12 * page) head += "Name-" + std::to_string(head.size()) + ": value\r\n";
  head += "Long: " + std::string(3 * page, 'v') + "\r\n\r\n";
  const size_t size = (head.size() / page + 1) * page;
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* const bytes = static_cast<char*>(memory);
  Http1Reader reader({.head_bytes = head.size(), .fields = head.size()});
  for (size_t at = 0, line = 0; at + 1 < head.size(); ++at) {
    ASSERT_EQ(mprotect(memory, size, PROT_READ | PROT_WRITE), 0);
    bytes[at] = head[at];
    const bool is_end = head[at] == '\n';
    ASSERT_EQ(mprotect(memory, (is_end ? line : at) / page * page, PROT_NONE), 0);
    ASSERT_EQ(reader.next({bytes, at + 1}).found, Found::incomplete) << at;
    if (is_end) line = at + 1;
  }
  ASSERT_EQ(mprotect(memory, size, PROT_READ | PROT_WRITE), 0);
  bytes[head.size() - 1] = '\n';
  ASSERT_EQ(reader.next({bytes, head.size()}).found, Found::request);
  EXPECT_EQ(reader.head().path.size(), page + 1);
  EXPECT_EQ(reader.head().fields.front().value, "x");
  EXPECT_EQ(reader.head().fields.back().value.size(), 3 * page);
  munmap(memory, size);
}

TEST(Http1Pieces, IdleReadersHoldLittle) {
  std::string fields;
  for (int i = 0; i < 100; ++i) fields += "Name: value\r\n";
  const std::string large = get(fields + "Content-Length: 50000\r\n") + std::string(50'000, 'b');
  const std::string chunks = chunked("c350\r\n" + std::string(50'000, 'b') + "\r\n0\r\n\r\n");
  std::vector<Http1Reader> readers(1'000);
  const size_t before = heap_bytes();
  for (Http1Reader& reader : readers) {
    for (const std::string& request : {large, chunks, get("A: b\r\n")}) {
      ASSERT_EQ(reader.next(request).found, Found::request);
      std::string_view rest = request;
      rest.remove_prefix(reader.next(rest.substr(0, 100)).consumed);
      Found found = Found::incomplete;
      for (size_t have = 100; found != Found::request && !rest.empty();) {
        const Http1Reader::Result result = reader.next(rest.substr(0, have));
        found = result.found;
        rest.remove_prefix(result.consumed);
        have += 1'000;
      }
      ASSERT_EQ(reader.next({}).found, Found::incomplete);
    }
    EXPECT_FALSE(reader.has_begun());
  }
  EXPECT_LT(heap_bytes(), before + 300 * readers.size());
}

// That nothing is allocated at all is counted in tests/timed/http_allocation_test.cc.
TEST(Http1Pieces, RequestsOfFewFieldsKeepTheListOfTheFirstAndNothingElse) {
  Http1Reader reader;
  const std::string in = get("A: b\r\nC: d\r\nE: f\r\nG: h\r\nContent-Length: 2\r\n") + "ab";
  ASSERT_EQ(reader.next(in).found, Found::request);
  const HttpField* const list = reader.head().fields.data();
  const size_t before = heap_bytes();
  for (int i = 0; i < 100; ++i) {
    reader.next({});
    ASSERT_EQ(reader.next(in).found, Found::request);
    ASSERT_EQ(reader.head().fields.data(), list);
  }
  EXPECT_EQ(heap_bytes(), before);
}

}  // namespace
}  // namespace sluice::wire::http1_pieces_test
