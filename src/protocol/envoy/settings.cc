#include "protocol/envoy/settings.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/units.h"
#include "config/file_reader.h"
#include "config/settings.h"
#include "policy/rule_set.h"
#include "protocol/envoy/dialect.h"
#include "protocol/envoy/rules.h"
#include "protocol/protocol.h"
#include "server/options.h"
#include "wire/http_session.h"

namespace sluice::envoy {
namespace {

using policy::YamlNode;

constexpr std::array<std::string_view, 4> style_names = {"none", "legacy", "ietf", "both"};

// gRPC's names of statuses, by their numbers.
constexpr std::array<std::string_view, 17> status_names = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

class Reader {
 public:
  Reader(config::FileReader& reader, EnvoyOptions& to, MetricsSettings& metrics)
      : reader_(reader), to_(to), metrics_(metrics) {}

  void read(const YamlNode& section) {
    reader_.map(section, "envoy",
                {{"charge", [&](const auto& key, const auto& node) { charge(key, node); }},
                 {"all_or_nothing", [&](const auto& key, const auto& node) { domains(key, node); }},
                 truth("stop_when_over", to_.sparing),
                 truth("shadow_mode", to_.response.shadow),
                 truth("quota_mode", to_.response.quota),
                 truth("dynamic_metadata", to_.response.dynamic_metadata),
                 {"headers", [&](const auto& key, const auto& node) { headers(key, node); }},
                 header_name("limit_header", to_.response.limit_header),
                 header_name("remaining_header", to_.response.remaining_header),
                 header_name("reset_header", to_.response.reset_header),
                 {"error_code", [&](const auto& key, const auto& node) { error_code(key, node); }},
                 truth("healthy_with_domains", to_.healthy_with_domains),
                 truth("healthy_with_store", to_.healthy_with_store),
                 truth("reflection", to_.reflection),
                 length("connection_age", to_.connection_age),
                 length("connection_grace", to_.connection_grace),
                 {"debug_port",
                  [&](const auto& key, const auto& node) {
                    if (const auto port = reader_.number(key, node, 1, UINT16_MAX))
                      to_.debug_port = static_cast<uint16_t>(*port);
                  }},
                 {"metrics",
                  [&](const auto&, const auto& node) { metrics_ = read_metrics(reader_, node); }}});
  }

 private:
  using Key = config::FileReader::Known;

  Key truth(std::string_view name, bool& to) {
    return {
        name, [this, &to](const std::string& key, const YamlNode& node) {
          to = reader_.truth(key, node, "write `" + key + ": true`, or take it out").value_or(to);
        }};
  }
  Key header_name(std::string_view name, std::string& to) {
    return {name, [this, &to](const std::string& key, const YamlNode& node) {
              auto text = reader_.text(key, node);
              if (!text) return;
              if (wire::is_http_field_name(*text))
                to = *std::move(text);
              else
                complain(key, node, "`" + *text + "` is not the name of a header",
                         "use letters, digits and `-`, such as RateLimit-Limit");
            }};
  }
  Key length(std::string_view name, base::Duration& to) {
    return {name, [this, &to](const std::string& key, const YamlNode& node) {
              const auto text = reader_.text(key, node);
              if (!text) return;
              if (const auto length = base::parse_duration(*text); length && length->us > 0)
                to = *length;
              else
                complain(key, node, "`" + *text + "` is not a length of time",
                         "write one as in `24h`, or take it out for ever");
            }};
  }
  void charge(const std::string& key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    if (*text == "each" || *text == "all_or_nothing")
      to_.all_or_nothing = *text == "all_or_nothing";
    else
      complain(key, node, "`" + *text + "` is not a way of charging",
               "write `each`, as the original, or `all_or_nothing`");
  }
  void domains(const std::string& key, const YamlNode& node) {
    if (!reader_.sequence(key, node, "all_or_nothing: [DOMAIN]")) return;
    for (YamlNode item = node.first_child(); item; item = item.next())
      if (auto domain = reader_.text(key, item))
        to_.all_or_nothing_domains.push_back(*std::move(domain));
  }
  void headers(const std::string& key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    const auto style = std::ranges::find(style_names, *text);
    if (style == style_names.end())
      complain(key, node, "`" + *text + "` is not a style of headers",
               "write none, legacy, ietf or both");
    else
      to_.response.headers = static_cast<HeaderStyle>(style - style_names.begin());
  }
  void error_code(const std::string& key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    const auto name = std::ranges::find(status_names, *text);
    if (name == status_names.end() || name == status_names.begin())
      complain(key, node, "`" + *text + "` is not a status of gRPC that tells an error",
               "write its name, as in `UNAVAILABLE`");
    else
      to_.error_code = static_cast<wire::GrpcStatus>(name - status_names.begin());
  }
  void complain(const std::string& key, const YamlNode& node, std::string what,
                std::string remedy) {
    config::complain(reader_.place(key, node), std::move(what), std::move(remedy),
                     reader_.diagnostics());
  }

  config::FileReader& reader_;
  EnvoyOptions& to_;
  MetricsSettings& metrics_;
};

// The settings that differ from the defaults.
std::string text_of(const EnvoyOptions& its, const MetricsSettings& metrics) {
  std::string text;
  const auto add = [&](std::string_view key, std::string value) {
    text += (text.empty() ? "" : ", ") + std::string(key) + ": " + std::move(value);
  };
  const EnvoyOptions usual;
  add("charge", its.all_or_nothing ? "all_or_nothing" : "each");
  if (!its.all_or_nothing_domains.empty()) {
    std::string list;
    for (const std::string& domain : its.all_or_nothing_domains)
      list += (list.empty() ? "" : ", ") + config::in_quotes(domain);
    add("all_or_nothing", "[" + list + "]");
  }
  if (its.sparing) add("stop_when_over", "true");
  const ResponseOptions& response = its.response;
  if (response.shadow) add("shadow_mode", "true");
  if (response.quota) add("quota_mode", "true");
  if (response.dynamic_metadata) add("dynamic_metadata", "true");
  add("headers", std::string(style_names[static_cast<size_t>(response.headers)]));
  const auto header = [&](std::string_view key, const std::string& name,
                          const std::string& usual_name) {
    if (name != usual_name) add(key, config::in_quotes(name));
  };
  header("limit_header", response.limit_header, usual.response.limit_header);
  header("remaining_header", response.remaining_header, usual.response.remaining_header);
  header("reset_header", response.reset_header, usual.response.reset_header);
  add("error_code", std::string(status_names[static_cast<size_t>(its.error_code)]));
  if (its.healthy_with_domains) add("healthy_with_domains", "true");
  if (its.healthy_with_store) add("healthy_with_store", "true");
  if (its.reflection) add("reflection", "true");
  if (its.connection_age != base::never)
    add("connection_age", config::in_one_unit(its.connection_age));
  if (its.connection_grace != base::never)
    add("connection_grace", config::in_one_unit(its.connection_grace));
  if (its.debug_port != 0) add("debug_port", std::to_string(its.debug_port));
  if (const std::string text_of_metrics = metrics.text(); !text_of_metrics.empty())
    add("metrics", "{ " + text_of_metrics + " }");
  return text;
}

}  // namespace

std::unique_ptr<protocol::Settings> EnvoySettings::clone() const {
  return std::make_unique<EnvoySettings>(*this);
}

void EnvoySettings::read(config::FileReader& reader, const YamlNode& section) {
  origin_ = reader.origin(section);
  Reader(reader, options, metrics).read(section);
}

std::vector<std::pair<std::string, std::string>> EnvoySettings::lines() const {
  return {{"envoy: { " + text_of(options, metrics) + " }", origin_}};
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
  place.subject = origin_;
  config::complain(place, "another protocol tells statsd as well",
                   "take one of them out, or write `metrics: { prometheus: {} }`", diagnostics);
}

void EnvoySettings::review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  for (const policy::Rule& rule : rules.rules(&dialect)) {
    const auto& found = static_cast<const FoundRule&>(*rule.data);
    if (found.limit == absent) continue;
    const LimitSet& set = found.rules->set();
    const Limit& limit = set.limits()[found.limit];
    const std::string& domain = set.nodes()[set.domain_of(found.limit)].composite;
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
    .subject = protocol::SettingsFormat::Subject::store,
    .flags = {},
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<EnvoySettings>();
    },
};

}  // namespace sluice::envoy
