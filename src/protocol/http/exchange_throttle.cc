// throttlecrab's POST /throttle, with answers and errors in throttlecrab's form. Its body has a
// reader of its own: throttlecrab skips members that it does not know, of any value, whereas the
// reader of takes (take_body.h) refuses them at their first byte, and so need not skip anything.
#include <algorithm>
#include <optional>
#include <string>

#include "base/decimal.h"
#include "limit/gcra.h"
#include "protocol/http/dialect.h"
#include "protocol/http/exchange.h"
#include "wire/json.h"

namespace sluice::http {
namespace {

using wire::Json;

struct ThrottleBody {
  std::string key;
  int64_t quantity = 1;
  limit::Limit limit{};
};

std::optional<int64_t> integer_of(const Json& body, const char* member) {
  const auto found = body.find(member);
  if (found == body.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return found->get<int64_t>();
}

// Returns what is wrong with the body; empty: nothing. Unknown members are skipped, as throttlecrab
// does.
std::string read_throttle_body(std::string_view text, ThrottleBody& to) {
  const Json body =
      wire::is_bounded(text) ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
  if (body.is_discarded() || !body.is_object()) return "the body must be an object of JSON";
  const auto key = body.find("key");
  if (key == body.end() || !key->is_string()) return "`key` must be a text";
  to.key = key->get<std::string>();
  int64_t numbers[3] = {};
  constexpr const char* names[] = {"max_burst", "count_per_period", "period"};
  for (size_t i = 0; i < 3; ++i) {
    const auto number = integer_of(body, names[i]);
    if (!number) return std::string("`") + names[i] + "` must be a whole number";
    numbers[i] = *number;
  }
  if (const auto quantity = body.find("quantity"); quantity != body.end() && !quantity->is_null()) {
    const auto number = integer_of(body, "quantity");
    if (!number) return "`quantity` must be a whole number";
    to.quantity = *number;
  }
  if (to.quantity < 0) return "negative quantity: " + std::to_string(to.quantity);
  const limit::gcra::Rate rate = limit::gcra::crab_rate(numbers[0], numbers[1], numbers[2]);
  if (rate.error == limit::gcra::Error::out_of_range)
    return "max_burst, count_per_period and period are out of range together";
  if (rate.error != limit::gcra::Error::none) return "invalid rate limit parameters";
  to.limit = rate.limit;
  return {};
}

}  // namespace

Exchange::Begun Exchange::begin_throttle(const Question& question, const RequestFields& fields,
                                         uint32_t note, request::Requests& requests) {
  if (!is_json_type(fields.content_type))
    return refuse(problems::unsupported_type, "the body must be application/json");
  ThrottleBody body;
  if (const std::string problem = read_throttle_body(question.body, body); !problem.empty())
    return refuse(problems::bad_request, problem);
  requests.open();
  requests.add(request::Entry{kind_entry, throttle_kind});
  requests.add(request::Entry{database_entry, "0"});
  requests.add(request::Entry{key_entry, requests.hold(body.key)});
  requests.add(body.limit);
  requests.commit({.note = note, .cost = body.quantity, .prefix = {}, .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

// The answer has whole seconds, as throttlecrab's has, also if a rule or an override has replaced
// the request's limit.
void Exchange::take_throttle(const request::Verdict& verdict, const ConnectionContext& around) {
  if (fail_by(verdict, around)) return;
  if (verdict.tightest == nullptr) {
    refuse(problems::reduced_capacity, "no rule decides");
    return;
  }
  const limit::Decision& decision = *verdict.tightest;
  if (limit::gcra::is_out_of_range(decision)) {
    refuse(problems::bad_request, "the quantity is out of range with these numbers");
    return;
  }
  const auto seconds = [](base::Duration length) {
    return length == base::never ? -1 : limit::gcra::seconds_up(length);
  };
  members_.append(decision.allowed ? "\"allowed\": true" : "\"allowed\": false");
  const auto append = [&](std::string_view name, int64_t value) {
    members_.append(", \"");
    members_.append(name);
    members_.append("\": ");
    base::append_decimal(value, members_);
  };
  append("limit", decision.limit);
  append("remaining", std::max<int64_t>(decision.remaining, 0));
  append("reset_after", seconds(decision.reset_after));
  append("retry_after", decision.allowed ? 0 : seconds(decision.retry_after));
}

}  // namespace sluice::http
