#include "protocol/http/client_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/json_writer.h"
#include "base/utf8.h"
#include "client/core.h"
#include "client/limit_words.h"
#include "wire/json.h"

namespace sluice::http {
namespace client_json {
namespace {

using wire::Json;

// ---- Requests ----

using Writer = base::JsonWriter<std::string>;

void put_seconds(std::chrono::microseconds length, Writer& out) {
  char text[calls::seconds_text_bytes_max];
  out.raw({text, calls::write_seconds(length, text)});
}

constexpr std::string_view algorithm_names[] = {"token_bucket",   "fixed_window", "aligned_window",
                                                "sliding_window", "sliding_log",  "fixed_bucket",
                                                "concurrency"};

void put_limit(const client_limit& limit, Writer& out) {
  out.open_object();
  out.name("quota");
  out.number(limit.quota);
  const bool is_calendar = calls::each_calendar_word(
      limit.calendar, [&out](std::string_view name, std::string_view value) {
        out.name(name);
        out.text(value);
      });
  if (!is_calendar && limit.algorithm != client_algorithm::fixed_bucket) {
    out.name(limit.algorithm == client_algorithm::concurrency ? "lease" : "window");
    put_seconds(limit.window, out);
  }
  if (limit.max_lease.count() > 0) {
    out.name("max_lease");
    put_seconds(limit.max_lease, out);
  }
  if (!is_calendar) {
    out.name("algorithm");
    out.text(algorithm_names[static_cast<size_t>(limit.algorithm)]);
  }
  if (limit.burst > 0) {
    out.name("burst");
    out.number(limit.burst);
  }
  out.close_object();
}

std::string problem_of(const client_subject& subject) {
  if (!subject.type.empty()) return "a type belongs to limitd's protocol";
  if (subject.entries.empty() && subject.limits.empty())
    return "the subject must have entries, or a key with limits";
  if (!subject.entries.empty() && (!subject.limits.empty() || !subject.key.empty()))
    return "the subject must have entries or a key with limits, and not both";
  const auto is_utf8 = [](const client_entry& entry) {
    return base::utf8::is_valid(entry.key) && base::utf8::is_valid(entry.value);
  };
  if (!base::utf8::is_valid(subject.key) || !std::ranges::all_of(subject.entries, is_utf8))
    return "keys and values must be UTF-8";
  for (const client_limit& limit : subject.limits)
    if (const char* const problem = calls::problem_of(limit)) return problem;
  return "";
}

// The members of a subject.
void put_subject(const client_subject& subject, Writer& out) {
  if (!subject.entries.empty()) {
    out.name("entries");
    out.open_object();
    for (const client_entry& entry : subject.entries) {
      out.name(entry.key);
      out.text(entry.value);
    }
    out.close_object();
    return;
  }
  out.name("key");
  out.text(subject.key);
  out.name("limits");
  out.open_list();
  for (const client_limit& limit : subject.limits) put_limit(limit, out);
  out.close_list();
}

void put_n(int64_t n, Writer& out) {
  out.name("n");
  out.number(n);
}

// `with_units`: each has its own.
void put_takes(const client_request& request, bool with_units, Writer& out) {
  out.name("takes");
  out.open_list();
  for (size_t i = 0; i < request.several.size(); ++i) {
    out.open_object();
    put_subject(request.several[i], out);
    if (with_units && !request.units.empty())
      put_n(request.units[i], out);
    else if (with_units && request.n)
      put_n(*request.n, out);
    out.close_object();
  }
  out.close_list();
  if (!request.each) return;
  out.name("mode");
  out.text("each");
}

// The verbs that are about a reservation which was made.
bool is_of_hold(client_verb verb) {
  return verb == client_verb::extend || verb == client_verb::renew || verb == client_verb::commit ||
         verb == client_verb::release;
}
bool makes_hold(client_verb verb) {
  return verb == client_verb::reserve || verb == client_verb::acquire;
}
bool is_about_hold(client_verb verb) {
  return makes_hold(verb) || is_of_hold(verb);
}
// Does it name its subject? A commit may.
bool has_subject(const client_request& request) {
  if (!is_of_hold(request.verb)) return true;
  return request.verb == client_verb::commit &&
         (!request.several.empty() || !request.subject.entries.empty() ||
          !request.subject.limits.empty());
}

std::string problem_of_hold(const client_request& request) {
  const client_verb verb = request.verb;
  const bool counts = verb == client_verb::extend || verb == client_verb::commit;
  if (!request.units.empty() && !counts && !makes_hold(verb))
    return "only a reserve, an acquire, an extend and a commit have units of each subject";
  if (!request.units.empty() && request.n) return "it must have `n` or `units`, and not both";
  if (!request.units.empty() && has_subject(request) &&
      request.units.size() != std::max<size_t>(request.several.size(), 1))
    return "`units` must have one number for each subject";
  if (!request.holder.empty() && !makes_hold(verb))
    return "only a reserve and an acquire have a holder";
  if (request.wait_for.count() > 0 && makes_hold(verb) && !request.several.empty())
    return "a reserve or an acquire that waits has one subject";
  // The connections of waits end with waits that are cancelled.
  if (request.wait_for.count() > 0 && request.release_on_close)
    return "places that are waited for are not released with their connection";
  if (request.release_on_close && verb != client_verb::acquire)
    return "only places that are acquired are released with their connection";
  if (!base::utf8::is_valid(request.holder)) return "the holder must be UTF-8";
  if (request.ttl.count() < 0) return "ttl must be 0 or more";
  if (request.ttl.count() > 0 &&
      (!is_about_hold(verb) || verb == client_verb::commit || verb == client_verb::release))
    return "only a reserve, an acquire, an extend and a renew have a ttl";
  if (is_of_hold(verb) && request.id.empty()) return "it must have the id of a reservation";
  if (counts && request.units.empty() && !request.n) return "it must have `n` or `units`";
  return "";
}

// What a message about a reservation has beside its subject and id.
void put_hold(const client_request& request, Writer& out) {
  const client_verb verb = request.verb;
  if (verb == client_verb::extend || verb == client_verb::commit) {
    if (request.n) {
      put_n(*request.n, out);
    } else {
      out.name("n");
      out.open_list();
      for (const int64_t n : request.units) out.number(n);
      out.close_list();
    }
  }
  if (request.ttl.count() > 0) {
    out.name("ttl");
    put_seconds(request.ttl, out);
  }
  if (!request.holder.empty()) {
    out.name("holder");
    out.text(request.holder);
  }
  if (!request.release_on_close) return;
  out.name("release_on_close");
  out.boolean(true);
}

// ---- Answers ----

std::optional<std::chrono::microseconds> length_in(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end()) return std::nullopt;
  if (at->is_null()) return client_never;
  if (!at->is_number()) return std::nullopt;
  const double us = at->get<double>() * 1e6;
  if (us >= 9.2e18 || us < 0) return client_never;
  return std::chrono::microseconds(std::llround(us));
}

std::optional<int64_t> number_in(const Json& object, const char* name) {
  const auto at = object.find(name);
  if (at == object.end() || !at->is_number_integer()) return std::nullopt;
  return at->get<int64_t>();
}

std::string text_in(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : "";
}

// A charge that left its counters in debt has no `allowed` of its own.
template <class To>
bool read_charge(const Json& object, To& to) {
  const auto over = object.find("over");
  to.charged = number_in(object, "charged");
  if (over == object.end() || !over->is_boolean() || !to.charged) return false;
  to.over = over->template get<bool>();
  to.allowed = !to.over;
  to.limit = number_in(object, "limit");
  to.remaining = number_in(object, "remaining");
  to.debt = number_in(object, "debt");
  to.retry_after = length_in(object, "retry_after");
  to.reset_after = length_in(object, "reset_after");
  return true;
}

bool read_charges(const Json& object, size_t count, client_result& result) {
  const auto over = object.find("over");
  const auto takes = object.find("takes");
  if (over == object.end() || !over->is_boolean() || takes == object.end() || !takes->is_array() ||
      takes->size() != count)
    return false;
  result.over = over->get<bool>();
  result.allowed = !result.over;
  for (const Json& one : *takes) {
    client_level& level = result.levels.emplace_back();
    if (!one.is_object() || !read_charge(one, level)) return false;
    level.name = text_in(one, "rule");
  }
  return true;
}

// A number, or one for each subject.
std::vector<int64_t> units_in(const Json& object, const char* name) {
  std::vector<int64_t> units;
  const auto at = object.find(name);
  if (at == object.end()) return units;
  if (at->is_number_integer()) units.push_back(at->get<int64_t>());
  if (!at->is_array()) return units;
  for (const Json& one : *at)
    if (one.is_number_integer()) units.push_back(one.get<int64_t>());
  return units;
}

bool is_true_in(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && *at == true;
}

// What is held, if anything is.
void read_held(const Json& object, client_result& result) {
  result.id = text_in(object, "id");
  result.ttl = length_in(object, "ttl");
  result.reserved = units_in(object, "reserved");
}

bool read_commit(const Json& object, client_result& result) {
  result.used = units_in(object, "n");
  result.returned = number_in(object, "returned");
  result.charged = number_in(object, "charged");
  result.late = is_true_in(object, "late");
  result.repeated = is_true_in(object, "repeated");
  result.limit = number_in(object, "limit");
  result.remaining = number_in(object, "remaining");
  result.debt = number_in(object, "debt");
  result.rule = text_in(object, "rule");
  result.over = result.debt.value_or(0) > 0;
  result.allowed = !result.over;
  return text_in(object, "state") == "committed" && result.returned && result.charged &&
         !result.used.empty();
}

template <class To>
bool read_decision(const Json& object, To& to) {
  const auto allowed = object.find("allowed");
  if (allowed == object.end() || !allowed->is_boolean()) return false;
  to.allowed = allowed->template get<bool>();
  to.limit = number_in(object, "limit");
  to.remaining = number_in(object, "remaining");
  to.retry_after = length_in(object, "retry_after");
  to.reset_after = length_in(object, "reset_after");
  return true;
}

bool read_takes(const Json& object, size_t count, client_result& result) {
  const auto allowed = object.find("allowed");
  const auto takes = object.find("takes");
  if (allowed == object.end() || !allowed->is_boolean() || takes == object.end() ||
      !takes->is_array() || takes->size() != count)
    return false;
  result.allowed = allowed->get<bool>();
  for (const Json& take : *takes) {
    client_level& level = result.levels.emplace_back();
    if (!take.is_object()) return false;
    level.decided = take.find("error") == take.end();
    if (level.decided && !read_decision(take, level)) return false;
    level.name = text_in(take, "rule");
  }
  return true;
}

client_result failed(client_errc error, std::string text) {
  client_result result;
  result.error = error;
  result.text = std::move(text);
  return result;
}

void read_waited(const Json& object, client_result& result) {
  result.waited = length_in(object, "waited");
  result.delayed = result.waited && result.waited->count() > 0;
}

bool read_good(const Json& object, const calls::Expected& expected, client_result& result) {
  switch (expected.verb) {
    case client_verb::take:
    case client_verb::peek:
    case client_verb::wait:
      if (expected.several > 0) return read_takes(object, expected.several, result);
      result.rule = text_in(object, "rule");
      read_waited(object, result);
      return read_decision(object, result);
    case client_verb::charge:
      result.repeated = is_true_in(object, "repeated");
      if (expected.several > 0) return read_charges(object, expected.several, result);
      result.rule = text_in(object, "rule");
      return read_charge(object, result);
    case client_verb::reserve:
    case client_verb::acquire:
    case client_verb::extend:
      read_held(object, result);
      read_waited(object, result);
      if (makes_hold(expected.verb) && expected.several > 0)
        return read_takes(object, expected.several, result);
      result.rule = text_in(object, "rule");
      return read_decision(object, result);
    case client_verb::renew:
      read_held(object, result);
      result.allowed = true;
      return result.ttl.has_value();
    case client_verb::commit:
      return read_commit(object, result);
    case client_verb::release:
      result.returned = number_in(object, "returned");
      result.allowed = true;
      return text_in(object, "state") == "released" && result.returned;
    case client_verb::put:
      result.remaining = number_in(object, "remaining");
      result.limit = number_in(object, "limit");
      return result.remaining.has_value();
    case client_verb::reset:
      result.counters = number_in(object, "reset");
      return result.counters.has_value();
    case client_verb::ping:
      return text_in(object, "status") == "ok";
    case client_verb::list:
    case client_verb::command:
      return false;
  }
  return false;
}

}  // namespace
}  // namespace client_json

base::Done append_client_body(const client_request& request, std::string& out) {
  using namespace client_json;
  std::string problem;
  if (request.verb == client_verb::list) problem = "counters cannot be listed over this protocol";
  if (!request.several.empty() && request.verb != client_verb::take &&
      request.verb != client_verb::peek && request.verb != client_verb::charge &&
      !is_about_hold(request.verb))
    problem = "only takes, peeks, charges and reservations may have several subjects";
  const bool counts_all = request.verb == client_verb::charge || is_about_hold(request.verb);
  if (counts_all && request.each) problem = "a charge or reservation of several subjects is of all";
  if (!request.id.empty() && !counts_all) problem = "only a charge or a reservation may have an id";
  if (problem.empty()) problem = problem_of_hold(request);
  if (request.wait_for.count() < 0) problem = "wait_for must be 0 or more";
  const bool names_subject = has_subject(request), settles = is_of_hold(request.verb);
  for (const client_subject& subject : request.several)
    if (problem.empty() && names_subject) problem = problem_of(subject);
  if (problem.empty() && names_subject && request.several.empty())
    problem = problem_of(request.subject);
  if (!problem.empty()) return base::Problem{std::move(problem)};
  Writer to(out, base::JsonForm::spaced);
  to.open_object();
  if (!names_subject) {
    // The reservation has it.
  } else if (request.several.empty()) {
    put_subject(request.subject, to);
    if (request.verb == client_verb::put && request.all) {
      to.name("all");
      to.boolean(true);
    } else if (!request.units.empty() && !settles) {
      put_n(request.units.front(), to);
    } else if (request.n && request.verb != client_verb::reset && !settles) {
      put_n(*request.n, to);
    }
    if ((request.verb == client_verb::wait || makes_hold(request.verb)) &&
        request.wait_for.count() > 0) {
      to.name("timeout");
      put_seconds(request.wait_for, to);
    }
  } else {
    put_takes(request, !settles, to);
  }
  put_hold(request, to);
  if (!request.id.empty()) {
    to.name("id");
    to.text(request.id);
  }
  to.close_object();
  return {};
}

client_result read_client_answer(unsigned status, std::string_view body,
                                 const calls::Expected& expected) {
  using namespace client_json;
  Json object;
  if (wire::is_bounded(body)) object = Json::parse(body, nullptr, false);
  const std::string words = "status " + std::to_string(status);
  if (!object.is_object()) {
    const bool is_away = status >= 500;
    return failed(is_away ? client_errc::unavailable : client_errc::bad_reply,
                  words + ", and its body is not a JSON object");
  }
  if (status == 200 || status == 429) {
    client_result result;
    if (read_good(object, expected, result)) return result;
    if (status == 200) return failed(client_errc::bad_reply, "the answer is to another request");
  }
  const std::string detail = text_in(object, "detail");
  const std::string text = detail.empty() ? words : detail;
  if (status == 408 && (expected.verb == client_verb::wait || makes_hold(expected.verb))) {
    client_result result;
    result.text = text;
    return result;
  }
  if (is_of_hold(expected.verb) && (status == 404 || status == 409 || status == 410)) {
    client_result result = failed(status == 404   ? client_errc::no_such_hold
                                  : status == 409 ? client_errc::already_settled
                                                  : client_errc::hold_ended,
                                  text);
    result.used = units_in(object, "n");
    return result;
  }
  if (status == 400 && text_in(object, "type") == "urn:sluice:problem:no-places")
    return failed(client_errc::no_places, text);
  if (status == 404) return failed(client_errc::no_rule, text);
  return failed(status >= 500 ? client_errc::unavailable : client_errc::refused, text);
}

}  // namespace sluice::http
