#include "protocol/resp/settings.h"

#include "base/bounds.h"
#include "base/units.h"
#include "config/config.h"
#include "config/settings.h"
#include "config/table.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::resp {
namespace {

// The families of commands, a bit for each.
struct Dialects {
  static constexpr bool is_list = true;

  static bool read(const config::Written& written, std::array<bool, family_names.size()>& to) {
    bool sound = true;
    const auto items = items_of(written, "dialects: [cell, sluice]", sound);
    if (items.empty()) return false;
    to = {};
    for (const config::Written& item : items) {
      CommandFamily family{};
      if (config::choice<CommandFamily>(family_names).read(item, family))
        to[static_cast<size_t>(family)] = true;
    }
    return sound;
  }
  static std::string text(const std::array<bool, family_names.size()>& answers) {
    std::vector<std::string> names;
    for (size_t i = 0; i < family_names.size(); ++i)
      if (answers[i]) names.emplace_back(family_names[i]);
    return config::list_text(names);
  }
  static std::string values() { return "a list: `cell`, `throttle`, `gcra`, `sluice`"; }
};

config::Choice<request::OnError> answers_on_error() {
  config::Choice<request::OnError> all;
  for (size_t i = 0; i < store_error_names.size(); ++i)
    all.all.emplace_back(store_error_names[i], store_error_answers[i]);
  return all;
}

}  // namespace

std::unique_ptr<protocol::Settings> RespSettings::clone() const {
  return std::make_unique<RespSettings>(*this);
}

std::vector<config::Entry> RespSettings::table() {
  using config::setting;
  const auto always = [](std::string_view help) { return config::About{.help = help}; };
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = config::Shown::changed};
  };
  config::Entry shared =
      setting("cell_shared", options.cell_shared,
              config::Truth{"write `cell_shared: true` to count together with redis-cell in one "
                            "Redis"},
              changed("counters of CL.THROTTLE are in Redis as redis-cell has them"));
  shared.read = [this, read = shared.read](const config::Written& written) {
    if (read(written)) shared_origin_ = options.cell_shared ? written.origin : "";
    return true;
  };
  return {
      setting("dialects", options.answers, Dialects{}, always("the commands that are answered")),
      setting("inline_limits", options.inline_limits,
              config::Truth{"write `inline_limits: false` to refuse KEY subjects"},
              always("`SLUICE.*` commands may bring limits along")),
      setting("unmatched", options.unmatched, config::choice<Unmatched>(unmatched_names),
              always("`SLUICE.TAKE`, `CHARGE`, `PEEK` and `WAIT` where no rule applies")),
      setting("on_store_error", options.on_store_error, answers_on_error(),
              changed("the throttling commands and `KEY` subjects where the store cannot decide")),
      setting("throttle_true_reset", options.throttle_true_reset,
              config::Truth{"write `throttle_true_reset: true` to have THROTTLE tell when the "
                            "bucket is full"},
              changed("`reset_after` of `THROTTLE` is the time until the bucket is full")),
      std::move(shared),
      setting("idle_timeout", options.idle_timeout,
              config::Length{{base::bounds::timeout_us_min},
                             {base::bounds::timeout_us_max},
                             base::Duration{},
                             "5m"},
              changed("a connection that waits for nothing and sends nothing for so long is "
                      "closed; 0: none is")),
      setting("max_waiting", options.waiting_max, config::Number{0, 1'000'000},
              always("clients that wait for units at a time")),
      setting("max_words", options.bounds.words, config::Number{16, 65'536},
              always("words of a command")),
      setting("max_word", options.bounds.word_bytes, config::Number{64, 1'000'000},
              always("bytes of a word"))};
}

void RespSettings::add_to(server::Options& to, protocol::Protocol self) const {
  auto its = std::make_shared<RespOptions>(options);
  its->connections = std::make_shared<Connections>();  // belong to this server alone
  to.session_options[static_cast<size_t>(self)] = std::move(its);
  constexpr std::array<request::Unmatched, unmatched_names.size()> answers = {
      request::Unmatched::error, request::Unmatched::allow, request::Unmatched::deny};
  for (server::ListenerOptions& listener : to.listeners) {
    if (!listener.service.serves(self)) continue;
    listener.timeouts.idle = options.idle_timeout;
    listener.own_unmatched = answers[static_cast<size_t>(options.unmatched)];
  }
}

void RespSettings::check(const config::Config& config, base::Diagnostics& diagnostics) const {
  if (shared_origin_.empty() || config.store.redis) return;
  base::Diagnostic place;
  place.subject = shared_origin_;
  config::complain(
      place,
      "`cell_shared` has CL.THROTTLE keep its counters in Redis as redis-cell does, and "
      "counters are not kept in Redis",
      "name it: `store: { redis: { nodes: [\"HOST:PORT\"] } }` or --redis HOST:PORT; or "
      "take `cell_shared` out",
      diagnostics);
}

constinit const protocol::SettingsFormat settings_format = {
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
              static_cast<const RespSettings&>(settings).options.unmatched)];
        },
};

}  // namespace sluice::resp
