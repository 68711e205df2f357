// Any bytes must give the same requests and refusals in one piece and in pieces. Boost.Beast must
// read each of the requests as the same one. The first byte says how the rest is cut, and whether
// the bounds are small.
#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/http1_reader.h"
#include "wire/http1_reader_model.h"

namespace {

using namespace sluice::wire;
namespace http = boost::beast::http;

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr Http1Reader::Bounds small_bounds{
    .head_bytes = 96, .fields = 5, .body_bytes = 24, .chunk_bytes = 40, .chunked_body_bytes = 16};

void require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s:\n%.*s\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

std::string lower_of(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = http_lower(c);
  return lower;
}

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

// A target in absolute form from its path on; other targets as they are.
std::string_view without_authority(std::string_view target, std::string_view host) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == target.npos) return target;
  return target.substr(scheme + 3 + host.size());
}

// Beast adds trailers to the fields, and refuses some names that Http1Reader ignores in trailers.
bool has_special_trailers(std::string_view body) {
  const std::string lower = lower_of(body);
  for (const std::string_view name : {"content-length", "transfer-encoding", "connection"})
    if (lower.find(name) != lower.npos) return true;
  return false;
}

void feed(http::request_parser<http::string_body>& parser, std::string_view part,
          std::string_view text) {
  while (!part.empty() && !parser.is_done()) {
    boost::beast::error_code error;
    part.remove_prefix(parser.put(boost::asio::buffer(part.data(), part.size()), error));
    require(!error, error.message().c_str(), text);
  }
  require(part.empty(), "it ends before", text);
}

void compare_heads(const http::request_parser<http::string_body>& parser, const Http1Head& head,
                   std::string_view text) {
  const auto& message = parser.get();
  const std::string target = text_of(message.target());
  const std::string query = head.has_query ? "?" + std::string(head.query) : "";
  const std::string_view rest = without_authority(target, head.host);
  const std::string_view path = rest.starts_with('/') || rest == "*" ? head.path : "";
  require(text_of(message.method_string()) == head.method, "another method", text);
  require(rest == std::string(path) + query, "another target", text);
  require(message.version() == (head.is_http10 ? 10 : 11), "another version", text);
  // In HTTP/1.0, of `close` and `keep-alive` together Beast follows the latter.
  require(parser.keep_alive() == head.keep_alive || (head.is_http10 && !head.keep_alive),
          "it is kept alive otherwise", text);
  Fields ours, theirs;
  for (const HttpField& field : head.fields) ours.emplace_back(lower_of(field.name), field.value);
  for (const auto& field : message)
    theirs.emplace_back(lower_of(text_of(field.name_string())), text_of(field.value()));
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  require(ours == theirs, "other fields", text);
}

// `text`: one request that the reader accepted, and nothing else.
void judge(std::string_view text, const Http1Reader::Bounds& bounds) {
  Http1Reader reader(bounds);
  Http1Reader::Result result = reader.next(text);
  if (result.found == Http1Reader::Found::head) result = reader.next(text.substr(result.consumed));
  require(result.found == Http1Reader::Found::request, "it was a request before", text);

  while (text.starts_with("\r\n")) text.remove_prefix(2);
  const std::string_view head = text.substr(0, text.find("\r\n\r\n") + 4);
  const std::string_view body = text.substr(head.size());
  http::request_parser<http::string_body> parser;
  parser.header_limit(1 << 20);
  parser.body_limit(1 << 20);
  parser.eager(true);
  feed(parser, head, text);
  require(parser.is_header_done(), "its head ends elsewhere", text);
  compare_heads(parser, reader.head(), text);
  if (reader.head().is_chunked && has_special_trailers(body)) return;
  feed(parser, body, text);
  require(parser.is_done(), "it ends behind", text);
  require(parser.get().body() == reader.body(), "another body", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const bool is_small = data[0] >= 128;
  const Http1Reader::Bounds bounds = is_small ? small_bounds : Http1Reader::Bounds{};
  const Http1Transcript whole = http1_transcript(text, bounds);
  require(whole.fault.empty(), whole.fault.c_str(), text);
  size_t step = data[0] % 128u;
  for (const bool is_regular : {true, false}) {
    const Http1Transcript split = http1_transcript(text, bounds, [&] {
      if (is_regular) return size_t{data[0] % 128u} + 1;
      step = step * 31 % 127 + 3;
      return step % 17 + 1;
    });
    require(split.fault.empty(), split.fault.c_str(), text);
    require(split.text() == whole.text(), (whole.text() + "but in pieces\n" + split.text()).c_str(),
            text);
  }
  size_t begin = 0;
  for (const size_t end : whole.ends) {
    judge(text.substr(begin, end - begin), bounds);
    begin = end;
  }
  return 0;
}
