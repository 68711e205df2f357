// For tests and the fuzz target: writes what a reader of HTTP/1.1 finds in pieces of bytes as a
// text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http1_reader.h"

namespace sluice::wire {

struct Http1Transcript {
  std::vector<std::string> requests{};  // as `shown` writes them, with the place where each ends
  std::vector<size_t> ends{};           // the places where the requests end in the bytes
  unsigned status = 0;                  // that of the refusal; 0: none
  std::string problem{};
  bool has_begun = false;
  // How the reader has broken its contract; empty: it has not.
  std::string fault{};

  std::string text() const {
    std::string all;
    for (const std::string& request : requests) all += request;
    if (status != 0) all += "refused: " + std::to_string(status) + " " + problem + "\n";
    if (has_begun) all += "unfinished\n";
    return all;
  }
};

inline std::string shown(const Http1Head& head) {
  std::string text(head.method);
  text.append(" ").append(head.path);
  if (head.has_query) text.append("?").append(head.query);
  text.append(" host=").append(head.host).append(head.is_http10 ? " 1.0" : " 1.1");
  if (!head.keep_alive) text += " close";
  if (head.awaits_go_ahead) text += " expects";
  if (head.has_body) text += " body=" + std::to_string(head.body_bytes);
  if (head.is_chunked) text += " chunked";
  for (const HttpField& field : head.fields)
    text.append("\n  ").append(field.name).append(": ").append(field.value);
  return text + "\n";
}

// `cut`: how many bytes arrive next, at least 1. Each call of the reader gets a copy of its input
// of the exact size, freed at the next call, so that a sanitizer finds reads past its end and old
// views.
inline Http1Transcript http1_transcript(std::string_view text, const Http1Reader::Bounds& bounds,
                                        const std::function<size_t()>& cut,
                                        Http1Reader::Use use = Http1Reader::Use::requests) {
  using Found = Http1Reader::Found;
  Http1Reader reader(bounds, use);
  Http1Transcript told;
  std::string head_before;
  size_t at = 0, arrived = 0;
  std::unique_ptr<char[]> bytes;
  for (bool waits = true;;) {
    if (waits && arrived == text.size()) break;
    if (waits) arrived = std::min(text.size(), arrived + cut());
    const size_t size = arrived - at;
    auto copy = std::make_unique<char[]>(size);
    std::copy_n(text.data() + at, size, copy.get());
    bytes = std::move(copy);
    const auto [consumed, found] = reader.next({bytes.get(), size});
    if (consumed > size) told.fault = "consumed more than there is";
    at += consumed;
    waits = found == Found::incomplete;
    if (found == Found::head) {
      if (!head_before.empty()) told.fault = "a head was reported twice";
      head_before = shown(reader.head());
    } else if (found == Found::request) {
      const std::string head = shown(reader.head());
      if (!head_before.empty() && head_before != head) told.fault = "the head has changed";
      head_before.clear();
      told.requests.push_back(head + "  [" + std::string(reader.body()) + "] until " +
                              std::to_string(at) + "\n");
      told.ends.push_back(at);
      if (reader.has_begun()) told.fault = "a whole request has begun";
    } else if (found == Found::broken) {
      told.status = reader.status();
      told.problem = reader.problem();
      if (at != arrived) told.fault = "a broken connection has bytes left";
      return told;
    }
    if (waits && reader.unfinished_bytes() > 2 * (bounds.head_bytes + bounds.body_bytes))
      told.fault = "more is unfinished than the bounds allow";
    if (!told.fault.empty()) return told;
  }
  told.has_begun = reader.has_begun();
  return told;
}

inline Http1Transcript http1_transcript(std::string_view text,
                                        const Http1Reader::Bounds& bounds = {}) {
  return http1_transcript(text, bounds, [&] { return std::max<size_t>(text.size(), 1); });
}

}  // namespace sluice::wire
