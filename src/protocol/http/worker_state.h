// The state that the HTTP sessions of one worker share: memory, and the request and answer being
// processed. One thread; outlives the sessions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/same.h"
#include "base/time.h"
#include "limit/limit.h"
#include "protocol/http/answer.h"
#include "protocol/http/exchange.h"
#include "protocol/http/limit_fields.h"
#include "protocol/http/take_body.h"
#include "request/peer.h"
#include "wire/http1_reader.h"
#include "wire/http2_session.h"
#include "wire/http_field.h"

namespace sluice::http {

// Caches the texts of limits in header fields (limit_fields.h) for the limits that were used last;
// they change only with the rules. Each worker has one, used by its thread.

class PolicyMembers {
 public:
  // The most limits whose texts are kept. Beyond it new ones replace others.
  static constexpr size_t kept_max = 256;

  struct Texts {
    std::string_view policy_member, quoted_name;  // of ShownLimit
  };

  // The texts for a limit with this name and unit. Valid until the next call.
  Texts find(std::string_view name, std::string_view unit, const limit::Limit& limit) {
    Kept& kept = kept_[place_of(name, limit)];
    if (kept.limit != limit || !base::same(kept.name, name) || kept.unit != unit ||
        kept.member.empty()) [[unlikely]]
      write(name, unit, limit, kept);
    return {kept.member, std::string_view(kept.member).substr(0, kept.quoted_bytes)};
  }

 private:
  struct Kept {
    std::string name, unit, member;
    limit::Limit limit{};
    size_t quoted_bytes = 0;
  };

  static size_t place_of(std::string_view name, const limit::Limit& limit) {
    const auto mixed =
        (static_cast<uint64_t>(limit.quota) ^ static_cast<uint64_t>(limit.window.us) * 31 ^
         (name.empty() ? 0 : static_cast<uint64_t>(name.back())) ^ limit.calendar.code()) *
        0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed >> 56);
  }
  void write(std::string_view name, std::string_view unit, const limit::Limit& limit, Kept& kept) {
    kept.name = name;
    kept.unit = unit;
    kept.limit = limit;
    scratch_.clear();
    append_member_name(name, scratch_);
    kept.quoted_bytes = scratch_.size();
    scratch_.clear();
    append_policy_member(name, unit, limit, scratch_);
    kept.member = scratch_.view();
  }

  std::array<Kept, kept_max> kept_;
  base::Buffer scratch_;
};

struct HttpWorker final : request::WorkerState {
  static constexpr size_t exchanges_kept_max = 1024;

  // Take a free exchange, and give it back.
  std::unique_ptr<Exchange> take_exchange() {
    if (free_exchanges.empty()) return std::make_unique<Exchange>();
    auto exchange = std::move(free_exchanges.back());
    free_exchanges.pop_back();
    return exchange;
  }
  void give_back(std::unique_ptr<Exchange> exchange) {
    if (free_exchanges.size() < exchanges_kept_max && !exchange->is_large())
      free_exchanges.push_back(std::move(exchange));
  }

  Held held() const override { return {http2.held_bytes(), http2.bytes_max()}; }

  // "Tue, 24 Nov 2026 20:15:23 GMT" (RFC 9110, 5.6.7), and the same as a line of HTTP/1.1. Valid
  // until the next call.
  std::string_view date(base::Time now) {
    const std::string_view line = date_line(now);
    return line.substr(date_begin.size(), line.size() - date_begin.size() - 2);
  }
  std::string_view date_line(base::Time now);
  // A random number, for values that must differ between clients.
  uint64_t random() { return random_engine(); }

  static constexpr std::string_view date_begin = "Date: ";

  wire::Http2Pool http2;
  std::vector<std::unique_ptr<Exchange>> free_exchanges;
  TakeBodyReader body_reader;
  TakeBody body;
  Answer answer;
  std::vector<request::Entry> auth_entries;
  std::vector<wire::HttpField> fields;   // those of an HTTP/2 request
  wire::Http1FieldList spare_fields;     // shared by the idle readers of HTTP/1.1
  std::vector<ShownLimit> shown_limits;  // those of the answer
  PolicyMembers policy_members;
  std::string date_text;  // of date_second
  int64_t date_second = INT64_MIN;
  std::mt19937_64 random_engine{std::random_device()()};
};

}  // namespace sluice::http
