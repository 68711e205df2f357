#include "protocol/resp/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "config/config.h"
#include "config/file_reader.h"
#include "config/settings.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::resp {
namespace {

using policy::YamlNode;

template <size_t N>
std::string choices(const std::array<std::string_view, N>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// The index of `text` in `names`. If it is missing, that is reported and the result is N.
template <size_t N>
size_t choice(const std::array<std::string_view, N>& names, std::string_view text,
              const base::Diagnostic& place, base::Diagnostics& diagnostics) {
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end())
    config::complain(place, "`" + std::string(text) + "` is not one of " + choices(names),
                     "write one of these", diagnostics);
  return static_cast<size_t>(at - names.begin());
}

// The name of the answer for requests that the store cannot decide.
std::string_view name_of_answer(request::OnError answer) {
  const auto at = std::find(store_error_answers.begin(), store_error_answers.end(), answer);
  return store_error_names[static_cast<size_t>(at - store_error_answers.begin())];
}

void read_idle_timeout(config::FileReader& reader, const std::string& key, const YamlNode& value,
                       base::Duration& to) {
  const auto text = reader.text(key, value);
  if (!text) return;
  const auto length = *text == "0" ? base::Duration{} : base::parse_duration(*text);
  const bool none = length && length->us == 0;
  if (none || (length && length->us >= base::bounds::timeout_us_min &&
               length->us <= base::bounds::timeout_us_max))
    to = *length;
  else
    config::complain(reader.place(key, value), "`" + *text + "` is not a timeout",
                     "write a length of time from `100ms` to `1d`, as in `5m`, or 0 for none",
                     reader.diagnostics());
}

}  // namespace

std::unique_ptr<protocol::Settings> RespSettings::clone() const {
  return std::make_unique<RespSettings>(*this);
}

void RespSettings::read(config::FileReader& reader, const YamlNode& section) {
  RespOptions& its = options_.value;
  options_.origin = reader.origin(section);
  const auto number = [&](size_t& to, uint64_t least, uint64_t most) {
    return [&reader, &to, least, most](const std::string& key, const YamlNode& value) {
      if (const auto n = reader.number(key, value, least, most)) to = static_cast<size_t>(*n);
    };
  };
  reader.map(section, "resp",
             {{"dialects",
               [&](const std::string& key, const YamlNode& value) {
                 if (!reader.sequence(key, value, "dialects: [cell, sluice]")) return;
                 its.answers = {};
                 for (YamlNode item = value.first_child(); item; item = item.next()) {
                   const auto text = reader.text(key, item);
                   if (!text) continue;
                   const size_t at =
                       choice(family_names, *text, reader.place(key, item), reader.diagnostics());
                   if (at < its.answers.size()) its.answers[at] = true;
                 }
               }},
              {"inline_limits",
               [&](const std::string& key, const YamlNode& value) {
                 its.inline_limits =
                     reader.truth(key, value, "write `inline_limits: false` to refuse KEY subjects")
                         .value_or(its.inline_limits);
               }},
              {"unmatched",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 const size_t at =
                     choice(unmatched_names, *text, reader.place(key, value), reader.diagnostics());
                 if (at < unmatched_names.size()) its.unmatched = static_cast<Unmatched>(at);
               }},
              {"max_waiting", number(its.waiting_max, 0, 1'000'000)},
              {"on_store_error",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 const size_t at = choice(store_error_names, *text, reader.place(key, value),
                                          reader.diagnostics());
                 if (at < store_error_names.size()) its.on_store_error = store_error_answers[at];
               }},
              {"throttle_true_reset",
               [&](const std::string& key, const YamlNode& value) {
                 its.throttle_true_reset =
                     reader
                         .truth(key, value,
                                "write `throttle_true_reset: true` to have THROTTLE tell when the "
                                "bucket is full")
                         .value_or(its.throttle_true_reset);
               }},
              {"cell_shared",
               [&](const std::string& key, const YamlNode& value) {
                 shared_ = {reader
                                .truth(key, value,
                                       "write `cell_shared: true` to count together with "
                                       "redis-cell in one Redis")
                                .value_or(its.cell_shared),
                            reader.origin(value)};
                 its.cell_shared = shared_.value;
               }},
              {"idle_timeout",
               [&](const std::string& key, const YamlNode& value) {
                 read_idle_timeout(reader, key, value, its.idle_timeout);
               }},
              {"max_words", number(its.bounds.words, 16, 65'536)},
              {"max_word", number(its.bounds.word_bytes, 64, 1'000'000)}});
}

std::vector<std::pair<std::string, std::string>> RespSettings::lines() const {
  const RespOptions& its = options_.value;
  std::string dialects;
  for (size_t i = 0; i < family_names.size(); ++i)
    if (its.answers[i]) dialects += (dialects.empty() ? "" : ", ") + std::string(family_names[i]);
  // Further settings that differ from their defaults.
  std::string more;
  if (its.on_store_error != request::OnError::error)
    more += ", on_store_error: " + std::string(name_of_answer(its.on_store_error));
  if (its.throttle_true_reset) more += ", throttle_true_reset: true";
  if (its.cell_shared) more += ", cell_shared: true";
  if (its.idle_timeout.us > 0) more += ", idle_timeout: " + config::in_one_unit(its.idle_timeout);
  return {{"resp: { dialects: [" + dialects +
               "], inline_limits: " + (its.inline_limits ? "true" : "false") +
               ", unmatched: " + std::string(unmatched_names[static_cast<size_t>(its.unmatched)]) +
               more + ", max_waiting: " + std::to_string(its.waiting_max) +
               ", max_words: " + std::to_string(its.bounds.words) +
               ", max_word: " + std::to_string(its.bounds.word_bytes) + " }",
           options_.origin}};
}

void RespSettings::add_to(server::Options& options, protocol::Protocol self) const {
  auto its = std::make_shared<RespOptions>(options_.value);
  its->connections = std::make_shared<Connections>();  // belong to this server alone
  options.session_options[static_cast<size_t>(self)] = std::move(its);
  constexpr std::array<request::Unmatched, unmatched_names.size()> answers = {
      request::Unmatched::error, request::Unmatched::allow, request::Unmatched::deny};
  for (server::ListenerOptions& listener : options.listeners) {
    if (!listener.service.serves(self)) continue;
    listener.timeouts.idle = options_.value.idle_timeout;
    listener.own_unmatched = answers[static_cast<size_t>(options_.value.unmatched)];
  }
}

void RespSettings::check(const config::Config& config, base::Diagnostics& diagnostics) const {
  if (!shared_.value || config.store.redis) return;
  base::Diagnostic place;
  place.subject = shared_.origin;
  config::complain(
      place,
      "`cell_shared` has CL.THROTTLE keep its counters in Redis as redis-cell does, and "
      "counters are not kept in Redis",
      "name it: `store: { redis: { nodes: [\"HOST:PORT\"] } }` or --redis HOST:PORT; or "
      "take `cell_shared` out",
      diagnostics);
}

constinit const protocol::SettingsFormat settings_format = {
    .subject = protocol::SettingsFormat::Subject::store,
    .flags = {},
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<RespSettings>();
    },
    .unmatched =
        [](const protocol::Settings& settings) {
          constexpr std::array<std::string_view, 3> answers = {
              "SLUICE.* answer -NORULE, as `resp.unmatched` is error",
              "SLUICE.* allow, as `resp.unmatched` is allow",
              "SLUICE.* deny, as `resp.unmatched` is deny"};
          return answers[static_cast<size_t>(
              static_cast<const RespSettings&>(settings).options().unmatched)];
        },
};

}  // namespace sluice::resp
