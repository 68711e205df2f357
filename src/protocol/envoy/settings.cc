#include "protocol/envoy/settings.h"

#include <algorithm>
#include <array>

#include "base/bounds.h"
#include "base/units.h"
#include "config/settings.h"
#include "config/table.h"
#include "policy/rule_set.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/rules.h"
#include "protocol/protocol.h"
#include "server/options.h"
#include "wire/http_session.h"

namespace sluice::envoy {
namespace {

using config::setting;

constexpr std::array<std::string_view, 4> style_names = {"none", "legacy", "ietf", "both"};

// gRPC's names of statuses, by their numbers.
constexpr std::array<std::string_view, 17> status_names = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// A status that tells an error.
struct ErrorCode {
  static bool read(const config::Written& written, wire::GrpcStatus& to) {
    const auto name = std::ranges::find(status_names, written.text);
    if (name == status_names.end() || name == status_names.begin())
      return written.wrong_text("is not a status of gRPC that tells an error",
                                "write its name, as in `UNAVAILABLE`");
    to = static_cast<wire::GrpcStatus>(name - status_names.begin());
    return true;
  }
  static std::string text(wire::GrpcStatus status) {
    return std::string(status_names[static_cast<size_t>(status)]);
  }
  static std::string values() { return "a name, as `UNAVAILABLE`"; }
};

struct HeaderName : config::Text {
  static bool read(const config::Written& written, std::string& to) {
    to = written.text;
    return wire::is_http_field_name(to) ||
           written.wrong_text("is not the name of a header",
                              "use letters, digits and `-`, such as RateLimit-Limit");
  }
};

// A part of a limit, in millionths.
struct Fraction {
  static bool read(const config::Written& written, int64_t& to) {
    const auto part = request::HoldTerms::fraction_of(written.text);
    if (!part)
      return written.wrong_text(
          "is not a part of a limit",
          "write a number above 0 and at most 1, with up to 6 digits, as in `0.5`");
    to = *part;
    return true;
  }
  static std::string text(int64_t part) {
    if (part == request::HoldTerms::whole) return "1";
    std::string digits = std::to_string(request::HoldTerms::whole + part).substr(1);
    return "0." + digits.substr(0, digits.find_last_not_of('0') + 1);
  }
  static std::string values() { return "above 0, at most 1"; }
};

config::Table holds_table(HoldOptions& holds) {
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = config::Shown::changed};
  };
  return {setting("enabled", holds.enabled, config::Truth{},
                  changed("Reserve and Commit of [Kuadrant's service](envoy.md#kuadrant) are "
                          "answered")),
          setting("max_fraction", holds.terms.fraction, Fraction{},
                  changed("the most that one Reserve may hold of a limit; more is cut to it")),
          setting("max_ttl", holds.terms.ttl_max,
                  config::Length{base::milliseconds(1), {base::bounds::hold_us_max}, {}, "60s"},
                  changed("the longest that a Reserve may hold, and how long it holds unless it "
                          "says so"))};
}

// An age; base::never, which cannot be written: no bound.
struct Age {
  static bool read(const config::Written& written, base::Duration& to) {
    const auto length = base::parse_duration(written.text);
    if (!length || length->us == 0)
      return written.wrong_text("is not a length of time",
                                "write one as in `24h`, or take it out: then there is no bound");
    to = *length;
    return true;
  }
  static std::string text(base::Duration age) {
    return age == base::never ? "" : config::in_one_unit(age);
  }
  static std::string values() { return "a length of time, as `24h`"; }
};

}  // namespace

std::unique_ptr<protocol::Settings> EnvoySettings::clone() const {
  return std::make_unique<EnvoySettings>(*this);
}

std::vector<config::Entry> EnvoySettings::table() {
  const auto always = [](std::string_view help) { return config::About{.help = help}; };
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = config::Shown::changed};
  };
  const auto truth = [&](std::string_view key, bool& to, std::string_view help) {
    return setting(key, to, config::Truth{"write `true`, or take it out"}, changed(help));
  };
  ResponseOptions& response = options.response;
  return {
      setting("charge", options.all_or_nothing,
              config::Choice<bool>{{{"each", false}, {"all_or_nothing", true}},
                                   "a way of charging",
                                   "write `each`, as the original, or `all_or_nothing`"},
              always("each descriptor by itself, even if it is refused; or [all or "
                     "nothing](envoy.md#all-or-nothing)")),
      setting("all_or_nothing", options.all_or_nothing_domains,
              config::ListOf{config::Text{}, "all_or_nothing: [DOMAIN]"},
              changed("domains that are charged all or nothing although `charge` is `each`")),
      truth("stop_when_over", options.sparing,
            "if one of the request's limits is over, only those that are over are charged, in one "
            "step"),
      truth("shadow_mode", response.shadow,
            "the overall code of an answer is OK, whatever the statuses of its descriptors are; "
            "[for one limit](envoy.md#one-limit-in-shadow) it is a key of its descriptor"),
      truth("quota_mode", response.quota, "every limit is treated as one with `quota_mode`"),
      truth("dynamic_metadata", response.dynamic_metadata,
            "the answer contains domain, descriptors, and the metadata of limits that are not "
            "over"),
      setting("headers", response.headers,
              config::choice<HeaderStyle>(style_names, "a style of headers",
                                          "write none, legacy, ietf or both"),
              always("header fields in the answer. `legacy`: the three below. `ietf`: "
                     "`RateLimit-Policy`, `RateLimit`, and `Retry-After` when over")),
      setting("limit_header", response.limit_header, HeaderName{},
              changed("name of the header with the limit")),
      setting("remaining_header", response.remaining_header, HeaderName{},
              changed("name of the header with what is left")),
      setting("reset_header", response.reset_header, HeaderName{},
              changed("name of the header with the time of the reset")),
      setting("error_code", options.error_code, ErrorCode{},
              always("gRPC's status when the store cannot decide; too late is always "
                     "`UNAVAILABLE`")),
      truth("healthy_with_domains", options.healthy_with_domains,
            "healthy only if at least one domain is loaded"),
      truth("healthy_with_store", options.healthy_with_store,
            "healthy only while the store can decide"),
      truth("reflection", options.reflection, "gRPC's server reflection is answered (`grpcurl`)"),
      section("holds", options.holds, holds_table),
      setting("connection_age", options.connection_age, Age{},
              changed("at this age, plus or minus a tenth, a connection accepts no more calls: "
                      "Envoy opens a new one; without it there is no bound")),
      setting("connection_grace", options.connection_grace, Age{},
              changed("how long calls under way may then take; without it there is no bound")),
      setting("debug_port", options.debug_port, config::Number{1, UINT16_MAX},
              {.help = "the port of a listener that serves only `/rlconfig`, the limits as lines",
               .shown = config::Shown::changed,
               .required = true}),
      metrics_entry(metrics)};
}

void EnvoySettings::add_to(server::Options& to, protocol::Protocol self) const {
  auto its = std::make_shared<EnvoyOptions>(options);
  its->store_was_reached = std::make_shared<std::atomic<bool>>(false);  // this server's own
  metrics.add_to(to, self, *its);
  to.session_options[static_cast<size_t>(self)] = std::move(its);
}

// A server sends to one statsd, and with the names of one protocol.
void EnvoySettings::check(const config::Config& config, base::Diagnostics& diagnostics) const {
  if (!metrics.statsd) return;
  server::Options others;
  for (size_t i = 0; i < config.own.size(); ++i)
    if (config.own[i] && &*config.own[i] != this)
      config.own[i]->add_to(others, static_cast<protocol::Protocol>(i));
  if (!others.statsd) return;
  base::Diagnostic place;
  place.subject = origin;
  config::complain(place, "another protocol tells statsd as well",
                   "take one of them out, or write `metrics: { prometheus: {} }`", diagnostics);
}

void EnvoySettings::advise(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  const LimitRules* const its = LimitRules::of(rules);
  if (its == nullptr) return;
  const LimitSet& set = its->set();
  const policy::Rule* of_days = nullptr;  // the first by a unit that is not the calendar's
  size_t more_of_days = 0;
  for (uint32_t number = 0; number < set.limits().size(); ++number) {
    const Limit& limit = set.limits()[number];
    if (limit.extended || limit.unlimited ||
        (limit.unit != Unit::month && limit.unit != Unit::year))
      continue;
    if (of_days == nullptr)
      of_days = &rules.rules(&dialect)[number];
    else
      ++more_of_days;
  }
  if (of_days != nullptr)
    diagnostics.push_back(
        {.severity = base::Diagnostic::Severity::warning,
         .file = of_days->file,
         .line = of_days->line,
         .column = 0,
         .subject = "limit " + of_days->name,
         .message =
             "`unit: month` has 30 days and `unit: year` 365, counted from 1970, as with the "
             "original" +
             (more_of_days > 0 ? "; so have " + base::counted(more_of_days, "other limit")
                               : std::string()),
         .remedy = "write `window: month` in its place for months of the calendar"});
}

void EnvoySettings::review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  const LimitRules* const its = LimitRules::of(rules);
  if (its == nullptr) return;
  const LimitSet& set = its->set();
  for (uint32_t number = 0; number < set.limits().size(); ++number) {
    const policy::Rule& rule = rules.rules(&dialect)[number];
    const Limit& limit = set.limits()[number];
    const std::string& domain = set.nodes()[set.domain_of(number)].composite;
    if (!limit.extended || !limit.counts || !options.settles_all_or_nothing(domain)) continue;
    diagnostics.push_back(
        {.severity = base::Diagnostic::Severity::warning,
         .file = rule.file,
         .line = rule.line,
         .column = 0,
         .subject = "limit " + rule.name,
         .message =
             "`over: count` has no effect, as the domain is charged all or nothing: a report "
             "that does not fit is refused, and not counted",
         .remedy = "move the limits that are reported to into a domain of their own, with `charge: "
                   "each`"});
  }
}

constinit const protocol::SettingsFormat settings_format = {
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<EnvoySettings>();
    },
};

}  // namespace sluice::envoy
