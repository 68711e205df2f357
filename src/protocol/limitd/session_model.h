// The naive model of LimitdSession, for tests and fuzzing only: reads and writes limitd's protocol
// field by field, without protobuf's library and without regard for speed. Also stands in for the
// connection that feeds a session in pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/buffer.h"
#include "request/session.h"

namespace sluice::limitd::model {

// ---- Bytes ----

struct Bad {};  // thrown for bytes that are not a message

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
inline std::string number(uint32_t field, uint64_t value) {
  return varint(field * 8) + varint(value);
}
inline std::string text(uint32_t field, const std::string& value) {
  return varint(field * 8 + 2) + varint(value.size()) + value;
}
inline std::string frame(const std::string& body) {
  return varint(body.size()) + body;
}

inline std::string take(std::string& from, uint64_t bytes) {
  if (bytes > from.size()) throw Bad();
  std::string taken = from.substr(0, bytes);
  from.erase(0, bytes);
  return taken;
}
inline uint64_t take_varint(std::string& from) {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(take(from, 1)[0]);
    if (7 * i < 64) value |= uint64_t{byte & 0x7Fu} << (7 * i);
    if (byte < 0x80) return value;
  }
  throw Bad();
}

// ---- Requests ----

struct Asked {
  std::optional<std::string> id;
  std::optional<uint64_t> id2;
  std::string type, key;
  std::optional<uint64_t> method;
  int64_t count = 1;
  bool all = false, silent = false;
  friend bool operator==(const Asked&, const Asked&) = default;
};

inline Asked message(std::string body) {
  Asked a;
  while (!body.empty()) {
    const uint64_t key = take_varint(body);
    if (key > UINT32_MAX || key < 8) throw Bad();
    uint64_t value = 0;
    std::string bytes;
    switch (key % 8) {
      case 0:
        value = take_varint(body);
        break;
      case 1:
        take(body, 8);
        break;
      case 2: {
        const uint64_t size = take_varint(body);
        bytes = take(body, size);
        break;
      }
      case 5:
        take(body, 4);
        break;
      default:
        throw Bad();
    }
    const std::pair field(key / 8, key % 8);
    if (field == std::pair<uint64_t, uint64_t>(1, 2)) a.id = bytes, a.id2.reset();
    if (field == std::pair<uint64_t, uint64_t>(2, 2)) a.type = bytes;
    if (field == std::pair<uint64_t, uint64_t>(3, 2)) a.key = bytes;
    if (field == std::pair<uint64_t, uint64_t>(4, 0)) a.method = value;
    if (field == std::pair<uint64_t, uint64_t>(5, 0)) a.count = static_cast<int64_t>(value);
    if (field == std::pair<uint64_t, uint64_t>(6, 0)) a.all = value != 0;
    if (field == std::pair<uint64_t, uint64_t>(7, 0)) a.silent = value != 0;
    if (field == std::pair<uint64_t, uint64_t>(20, 0)) a.id2 = value, a.id.reset();
  }
  if (!a.method && a.type.empty()) throw Bad();
  if (a.method.value_or(0) > 5) throw Bad();
  return a;
}

// A request as the engine gets it.
using Pairs = std::vector<std::pair<std::string, std::string>>;
struct Requested {
  request::Verb verb{};
  int64_t cost = 1;
  Pairs descriptor;
  size_t limits = 0;
  friend bool operator==(const Requested&, const Requested&) = default;
};

inline Requested requested(const Asked& a) {
  const Pairs both{{"type", a.type}, {"key", a.key}};
  using request::Verb;
  switch (a.method.value_or(0)) {
    case 0:
    case 1:
      if (a.count < 0) return {Verb::take, INT64_MAX, both, 0};
      return {a.method == 1u ? Verb::wait : Verb::take, a.count == 0 ? 1 : a.count, both, 0};
    case 2:
      return {a.all || a.count == 0 ? Verb::reset : Verb::put, a.count < 0 ? 0 : a.count, both, 0};
    case 3:  // the key is the beginning of those that are listed
      return {Verb::list, 1, both, 0};
    case 4:
      return {Verb::noop, 1, {}, 0};
    default:
      return {Verb::peek, 1, both, 0};
  }
}

// ---- Replies ----

// A verdict with what it points to, and the time at which it was reached.
struct Answer {
  limit::Decision decision;
  bool matched = true, allowed = true, delayed = false, counted = true, failed = false;
  std::vector<request::Listed> listed;
  base::Time now{};

  request::Verdict verdict() const {
    request::Verdict v;
    v.allowed = allowed;
    v.tightest = matched ? &decision : nullptr;
    v.matched = matched;
    if (delayed) v.waited = base::seconds(1);
    static constexpr limit::Limit no_counter{};
    if (!counted) v.limit = &no_counter;
    if (failed) v.error = "out of memory";
    v.listed = listed;
    return v;
  }
};

// The answer to the n-th request of a connection; over many n, replies of all shapes.
inline Answer answer_of(size_t n) {
  const auto k = static_cast<int64_t>(n);
  Answer a;
  a.allowed = n % 2 == 0;
  a.decision = {n % 3 != 0, k % 4 * 1'000'000'007, k * 1'234'567 - 3, {k * 777'777}, {}};
  if (n % 5 == 4) a.decision.reset_after = base::never;
  if (n % 4 == 1) a.decision.remaining = a.decision.limit;
  a.matched = n % 7 != 6;
  a.failed = n % 11 == 10;
  a.delayed = n % 3 == 2 && a.allowed;
  a.counted = n % 8 != 3;
  for (size_t i = 0; i < n % 4; ++i)
    a.listed.push_back({std::string(i * 50, 'k'), answer_of(n / 4 + i).decision});
  if (!a.matched) a.listed.clear();
  a.now = {1'425'920'267'000'000 + k * 333'333};
  return a;
}

inline uint64_t seconds(base::Duration after, base::Time now) {
  if (after == base::never) return 0;
  if (now.us > 0 && after.us > INT64_MAX - now.us) after.us = INT64_MAX - now.us;
  const int64_t us = now.us + after.us;
  return us <= 0 ? 0 : static_cast<uint64_t>(us / 1'000'000 + (us % 1'000'000 != 0));
}

inline uint64_t int32(int64_t value) {
  if (value > INT32_MAX) value = INT32_MAX;
  if (value < INT32_MIN) value = INT32_MIN;
  return static_cast<uint64_t>(value);
}

inline std::string level(uint32_t field, int64_t remaining, uint64_t reset, int64_t limit) {
  return number(field, int32(remaining)) + number(field + 1, reset) +
         number(field + 2, int32(limit));
}

inline std::string reply(const Asked& a, const Answer& answer) {
  const std::string id = a.id2 ? number(20, *a.id2) : text(1, a.id.value_or(""));
  const uint64_t method = a.method.value_or(0);
  if (method == 4) return frame(id + text(104, ""));
  if (a.silent) return "";
  if (answer.failed) {
    if (method == 3) return frame(id + text(103, ""));
    if (method == 2) return frame(id + text(102, level(1, 0, 0, 0)));
    if (method == 5) return frame(id + text(105, level(1, 0, 0, 0)));
    return frame(id + text(101, number(1, 0) + level(3, 0, 0, 0)));
  }
  if (!answer.matched) return frame(id + text(100, number(1, 1)));
  if (method == 3) {
    std::string items;
    for (const request::Listed& l : answer.listed)
      items += text(1, (l.key.empty() ? "" : text(1, l.key)) +
                           level(2, l.decision.remaining,
                                 seconds(l.decision.reset_after, answer.now), l.decision.limit));
    return frame(id + text(103, items));
  }
  const limit::Decision& d = answer.decision;
  uint64_t reset = seconds(d.reset_after, answer.now);
  if (!answer.counted && d.allowed && method != 5) reset = seconds({}, answer.now);
  if (method == 2 && answer.counted &&
      (a.all || a.count == 0 || std::max<int64_t>(a.count, 0) >= d.limit || d.remaining >= d.limit))
    reset = 0;
  if (method == 2) return frame(id + text(102, level(1, d.remaining, reset, d.limit)));
  if (method == 5) return frame(id + text(105, level(1, d.remaining, reset, d.limit)));
  return frame(id + text(101, number(1, answer.allowed) + (answer.delayed ? number(2, 1) : "") +
                                  level(3, d.remaining, reset, d.limit)));
}

// ---- Connections ----

// What a session made of one connection's bytes.
struct Transcript {
  std::vector<Requested> requests;
  std::vector<std::string> replies;  // with the verdicts of `answer_of`
  bool closing = false;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

// What a session must make of a connection that sends `bytes`.
inline Transcript expected(std::string bytes) {
  Transcript t;
  for (const char* word :
       {"GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "TRAC", "CONN", "PRI "})
    t.closing |= bytes.starts_with(word);
  while (!bytes.empty() && !t.closing) {
    uint64_t size = 0;
    size_t prefix = 0;
    bool open = true;
    while (open && prefix < 5 && prefix < bytes.size()) {
      const auto byte = static_cast<uint8_t>(bytes[prefix]);
      size += uint64_t{byte & 0x7Fu} << (7 * prefix++);
      open = byte >= 0x80;
    }
    if (open && prefix < 5) break;
    t.closing = open || size > base::bounds::frame_bytes_max;
    if (t.closing || bytes.size() - prefix < size) break;
    take(bytes, prefix);
    const std::string body = take(bytes, size);
    if (body.empty()) continue;
    try {
      const Asked asked = message(body);
      t.replies.push_back(reply(asked, answer_of(t.requests.size())));
      t.requests.push_back(requested(asked));
    } catch (const Bad&) {
      t.closing = true;
    }
  }
  return t;
}

// Feeds `session` as a connection does: `cuts` are the sizes of the pieces that arrive one by one,
// the rest arrives last. Each call gets its bytes in memory of their own, freed before the next
// call, so that a sanitizer finds views that are kept too long. Waits and lists are answered last,
// from copies of their requests.
inline Transcript run(request::Session& session, std::string_view bytes,
                      const std::vector<size_t>& cuts) {
  struct Later {
    size_t n;
    request::Request request;
    std::unique_ptr<std::string> tag;
  };
  Transcript t;
  std::vector<Later> later;
  request::Requests requests;
  base::Buffer out;
  std::string rest;
  const auto answer = [&](size_t n, const request::Request& request) {
    const Answer given = answer_of(n);
    out.clear();
    if (!session.reply(request, given.verdict(), given.now, out)) throw Bad();
    t.replies[n] = out.view();
  };
  const auto receive = [&](bool end) {
    while (!t.closing) {
      const std::unique_ptr<char[]> memory(new char[rest.size()]);
      std::copy(rest.begin(), rest.end(), memory.get());
      requests.clear();
      const request::Received received =
          session.receive({memory.get(), rest.size()}, end, requests, out);
      t.closing = received.closing;
      for (const request::Request& r : requests.items()) {
        Pairs descriptor;
        for (const request::Entry& e : requests.descriptor(r))
          descriptor.emplace_back(e.key, e.value);
        const size_t n = t.requests.size();
        t.requests.push_back({r.verb, r.cost, std::move(descriptor), requests.limits(r).size()});
        t.replies.emplace_back();
        if (r.verb != request::Verb::wait && r.verb != request::Verb::list) {
          answer(n, r);
          continue;
        }
        later.push_back({n, r, std::make_unique<std::string>(r.tag)});
        request::Request& copy = later.back().request;
        copy.tag = *later.back().tag;
        copy.entry_first = copy.entry_count = copy.limits.first = copy.limits.count = 0;
      }
      rest.erase(0, received.consumed);
      if (received.consumed == 0) break;
    }
  };
  for (size_t i = 0; i <= cuts.size() && !t.closing; ++i) {
    const size_t size = i < cuts.size() ? std::min(cuts[i], bytes.size()) : bytes.size();
    rest += bytes.substr(0, size);
    bytes.remove_prefix(size);
    receive(false);
  }
  receive(true);
  for (size_t i = later.size(); i-- > 0;) answer(later[i].n, later[i].request);
  return t;
}

}  // namespace sluice::limitd::model
