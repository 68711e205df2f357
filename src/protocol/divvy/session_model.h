// The naive model of DivvySession, for tests and fuzzing only: reads Divvy's protocol as Divvy
// does, on UTF-16 units of decoded text, without regard for speed. Also stands in for the
// connection that feeds a session in pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "request/session.h"
#include "testing/utf8_model.h"

namespace sluice::divvy::model {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// What a session made of one connection's bytes.
struct Transcript {
  std::vector<Pairs> requests;
  std::string replies;   // with the numbers of `answer_of`
  std::string farewell;  // the error line with its LF; empty: not closed for an error
  bool closing = false;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

// The verdict for the n-th request of a connection; over many n, replies of all shapes.
struct Answer {
  limit::Decision decision;
  bool matched, allowed;
};
inline Answer answer_of(size_t n) {
  const auto k = static_cast<int64_t>(n);
  const limit::Duration reset = n % 5 == 4 ? base::never : limit::Duration{k * 777'777};
  return {{n % 2 == 0, 1 << 20, k * 1'234'567 - 3, reset, {}}, n % 7 != 6, n % 2 == 0};
}

using base::utf8::model::decode;
using base::utf8::model::encode;

inline bool is_space(char16_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000 || c == 0xFEFF;
}

inline std::u16string trim(std::u16string text) {
  while (!text.empty() && is_space(text.front())) text.erase(0, 1);
  while (!text.empty() && is_space(text.back())) text.pop_back();
  return text;
}

// Removes one string from the front of `text` and returns it; throws what is wrong with it.
inline std::u16string take_string(std::u16string& text) {
  std::u16string taken;
  if (text.empty()) return taken;
  if (text[0] == u'"') {
    const size_t close = text.find(u'"', 1);
    if (close == text.npos) throw std::string("Unexpected end of quoted string.");
    taken = text.substr(1, close - 1);
    text.erase(0, close + 1);
    return taken;
  }
  size_t size = 0;
  while (size < text.size() && text[size] != u'=' && !is_space(text[size])) ++size;
  taken = text.substr(0, size);
  text.erase(0, size);
  return taken;
}

// The pairs of a line, which comes without its end; throws the text of the ERR line.
inline Pairs parse(std::string_view bytes) {
  try {
    std::u16string text = decode(bytes);
    std::string word = encode(take_string(text));
    for (char& c : word) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    if (word != "HIT")
      throw std::pair<int, std::string>(
          0, "ERR unknown-command \"Unrecognized command: " + word + "\"");
    text = trim(text);
    Pairs pairs;
    while (!text.empty()) {
      const std::u16string key = take_string(text);
      if (text.empty()) throw std::string("Unexpected end of input string.");
      if (text[0] != u'=') throw "Expected '=', found '" + encode(text.substr(0, 1)) + "'";
      text.erase(0, 1);
      const std::u16string value = take_string(text);
      if (pairs.size() == base::bounds::descriptor_entries_max)
        throw std::string("More than 256 pairs in one request.");
      pairs.emplace_back(encode(key), encode(value));
      if (text.empty()) break;
      if (!is_space(text[0]))
        throw "Expected whitespace, found '" + encode(text.substr(0, 1)) + "'";
      while (!text.empty() && is_space(text[0])) text.erase(0, 1);
    }
    return pairs;
  } catch (const std::string& reason) {
    throw std::pair<int, std::string>(0, "ERR unknown \"" + reason + "\"");
  }
}

inline void reply(size_t n, std::string& out) {
  const Answer answer = answer_of(n);
  if (!answer.matched) {
    out += "OK false 0 -1\n";
    return;
  }
  const limit::Decision& d = answer.decision;
  // The time of a grant is rounded to the nearest second, that of a refusal up, to 1 s at least.
  const int64_t us = d.reset_after.us;
  const int64_t seconds = answer.allowed    ? (us / 1000 + 500) / 1000
                          : us <= 1'000'000 ? 1
                                            : (us - 1) / 1'000'000 + 1;
  out += std::string("OK ") + (answer.allowed ? "true " : "false ") +
         std::to_string(d.remaining < 0 ? 0 : d.remaining) + " " +
         std::to_string(d.reset_after == base::never ? -1 : seconds) + "\n";
}

// What a session must make of a connection that sends `bytes`, and then ends if `end`.
inline Transcript expected(std::string_view bytes, bool end) {
  Transcript t;
  while (!bytes.empty()) {
    const size_t lf = bytes.find('\n');
    if (std::min(lf, bytes.size()) > base::bounds::line_bytes_max) {
      t.farewell = "ERR unknown \"Line is longer than 1048576 bytes.\"\n";
      t.closing = true;
      break;
    }
    if (lf == bytes.npos && !end) break;
    std::string_view line = bytes.substr(0, lf);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    try {
      t.requests.push_back(parse(line));
      reply(t.requests.size() - 1, t.replies);
    } catch (const std::pair<int, std::string>& error) {
      t.farewell = error.second + "\n";
      t.closing = true;
      break;
    }
    bytes = lf == bytes.npos ? std::string_view() : bytes.substr(lf + 1);
  }
  return t;
}

// Feeds `session` as a connection does: `cuts` are the sizes of the pieces that arrive one by one,
// the rest arrives last. Each call gets its bytes in memory of their own, freed before the next
// call, so that a sanitizer finds views that are kept too long.
inline Transcript run(request::Session& session, std::string_view bytes,
                      const std::vector<size_t>& cuts, bool end) {
  Transcript t;
  request::Requests requests;
  base::Buffer out;
  std::string rest;
  const auto receive = [&](bool last) {
    while (!t.closing) {
      const std::unique_ptr<char[]> memory(new char[rest.size()]);
      std::copy(rest.begin(), rest.end(), memory.get());
      requests.clear();
      const request::Received received =
          session.receive({memory.get(), rest.size()}, last, requests, out);
      t.closing = received.closing;
      const size_t first = t.requests.size();
      for (const request::Request& request : requests.items()) {
        Pairs pairs;
        for (const request::Entry& e : requests.descriptor(request))
          pairs.emplace_back(e.key, e.value);
        t.requests.push_back(std::move(pairs));
      }
      for (size_t n = first; n < t.requests.size(); ++n) {
        const Answer answer = answer_of(n);
        limit::Decision decision = answer.decision;
        decision.retry_after = decision.reset_after;
        request::Verdict verdict;
        verdict.allowed = answer.allowed;
        verdict.tightest = answer.matched ? &decision : nullptr;
        session.reply(requests.items()[n - first], verdict, {}, out);
      }
      if (received.consumed == 0) break;
      rest.erase(0, received.consumed);
    }
  };
  for (size_t i = 0; i <= cuts.size() && !t.closing; ++i) {
    const size_t size = i < cuts.size() ? std::min(cuts[i], bytes.size()) : bytes.size();
    rest += bytes.substr(0, size);
    bytes.remove_prefix(size);
    receive(false);
  }
  if (end) receive(true);
  t.replies = out.view();
  out.clear();
  session.end(request::Ending::announced, {}, out);
  t.farewell = out.view();
  return t;
}

}  // namespace sluice::divvy::model
