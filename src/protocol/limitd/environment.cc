#include "protocol/limitd/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/bounds.h"
#include "base/utf8.h"
#include "config/javascript_words.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/text.h"

namespace sluice::limitd {

namespace {

using policy::in_ticks;

constexpr std::array<std::string_view, 11> type_words = {
    "NAME",    "SIZE",         "PER_SECOND", "PER_MINUTE", "PER_HOUR", "PER_DAY",
    "PURPOSE", "PER_INTERVAL", "INTERVAL",   "UNLIMITED",  "MATCH"};
// NODE_ENV is not in the list, because other programs set it, and a warning would be noise.
constexpr std::array<std::string_view, 8> without_effect = {"BUCKETS",
                                                            "CONFIGURATOR",
                                                            "LOG_TO_KINESIS",
                                                            "LOG_TO_KINESIS_LEVEL",
                                                            "AWS_KINESIS_REGION",
                                                            "ERROR_REPORTER_URL",
                                                            "LATENCY_BUCKETS",
                                                            "COLLECT_RESOURCE_USAGE"};

// Settings that limitd does not start with if they are empty.
constexpr std::array<std::string_view, 2> never_empty = {"PORT", "DB"};
// The keys of a type that limitd reads by Number(), to which an empty text is 0.
constexpr std::array<std::string_view, 4> zero_if_empty = {"SIZE", "PER_SECOND", "PER_MINUTE",
                                                           "PER_HOUR"};

bool holds(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

LimitdEnvironment::LimitdEnvironment(std::span<const NamedText> variables,
                                     base::Diagnostics& diagnostics)
    : diagnostics_(diagnostics) {
  constexpr std::string_view prefix = "BUCKET_";
  for (const NamedText& variable : variables) {
    if (!variable.name.starts_with(prefix)) {
      if (!variable.text.empty() || holds(never_empty, variable.name))
        settings_.push_back(variable);
      continue;
    }
    const std::string_view rest = variable.name.substr(prefix.size());
    const size_t end = rest.find('_');
    if (end == 0 || end == std::string_view::npos) {
      if (!variable.text.empty())
        warning(variable.name, "is not of the form BUCKET_<n>_SIZE and has no effect", "");
      continue;
    }
    if (variable.text.empty() && !holds(zero_if_empty, rest.substr(end + 1))) continue;
    types_[rest.substr(0, end)].push_back({variable.name, rest.substr(end + 1), variable.text});
  }
}

void LimitdEnvironment::tell(base::Diagnostic::Severity severity, std::string_view variable,
                             std::string message, std::string remedy) {
  base::Diagnostic d;
  d.severity = severity;
  d.file = "environment";
  d.subject = variable;
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  diagnostics_.push_back(std::move(d));
}
void LimitdEnvironment::error(std::string_view variable, std::string message, std::string remedy) {
  tell(base::Diagnostic::Severity::error, variable, std::move(message), std::move(remedy));
}
void LimitdEnvironment::warning(std::string_view variable, std::string message,
                                std::string remedy) {
  tell(base::Diagnostic::Severity::warning, variable, std::move(message), std::move(remedy));
}

void LimitdEnvironment::settings(LimitdConfig& config, const LimitdConfig& flags) {
  for (const auto& [name, text] : settings_) {
    const std::string origin(name);
    if (name == "PORT" && !flags.port) {
      if (const auto port = config::node_port(text))
        config.port = {*port, origin, 0};
      else
        error(name, in_ticks(text) + " is not a port", "write 1 to 65535");
    } else if (name == "HOSTNAME" && !flags.hostname) {
      config.hostname = {std::string(text), origin, 0};
    } else if (name == "DB" && !flags.db && text.empty()) {
      error(name, "is empty, and limitd does not start with that", "name a folder, or unset it");
    } else if (name == "DB" && !flags.db) {
      config.db = {{std::string(text), false}, origin, 0};
    } else if (name == "LOG_FILE" && !flags.log_file) {
      config.log_file = {std::string(text), origin, 0};
    } else if (name == "LOG_LEVEL" && !flags.log_level) {
      if (holds(log_levels, text))
        config.log_level = {std::string(text), origin, 0};
      else
        error(name, in_ticks(text) + " is not a level of the log",
              policy::known_words(text, log_levels));
    } else if (holds(without_effect, name)) {
      warning(name, "has no effect here",
              name == "CONFIGURATOR" || name == "BUCKETS" ? "say it in the file" : "");
    }
  }
}

std::vector<LimitdType> LimitdEnvironment::types() {
  std::vector<LimitdType> all;
  for (const auto& [n, variables] : types_) type(variables, all);
  return all;
}

bool LimitdEnvironment::number(const Variable& variable, int64_t least, int64_t most,
                               int64_t& out) {
  const std::string_view text = variable.text;
  const auto [at, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  bool whole = at == text.data() + text.size() && failed == std::errc();
  if (!whole) {  // as limitd: ` 10 `, `1e3`, `0x10`, and an empty text is 0
    constexpr double exact_max = 9'007'199'254'740'992;
    const double number = config::javascript_number(text).value_or(0.5);
    whole = std::abs(number) <= exact_max && std::trunc(number) == number;
    if (whole) out = static_cast<int64_t>(number);
    if (whole && text.empty() && least <= 0)
      warning(variable.name, "is empty, which is 0, as in limitd", "write the number, or unset it");
  }
  if (whole && out >= least && out <= most) return true;
  error(variable.name,
        in_ticks(text) + (!whole        ? " is not a whole number"
                          : out < least ? " is less than " + std::to_string(least)
                                        : " is more than is counted to"),
        "write " + std::to_string(least) + " to " + std::to_string(most));
  return false;
}

void LimitdEnvironment::type(const std::vector<Variable>& variables, std::vector<LimitdType>& out) {
  LimitdType type;
  type.file = "environment";
  const Variable *rate = nullptr, *interval = nullptr, *per_interval = nullptr, *name = nullptr;
  int64_t interval_ms = 0;
  bool sound = true;
  for (const Variable& variable : variables) {
    const std::string_view key = variable.key;
    int64_t units = 0;
    if (!holds(type_words, key)) {
      sound = false;
      error(variable.name, "speaks of " + in_ticks(key) + ", which a bucket type does not have",
            policy::known_words(key, type_words));
    } else if (key == "NAME") {
      name = &variable;
      type.name = variable.text;
      if (!base::utf8::is_valid(variable.text)) {
        sound = false;
        error(variable.name, "is not UTF-8", "write the name in UTF-8");
      }
    } else if (key == "SIZE") {
      if (number(variable, 0, base::bounds::quota_max, units))
        type.numbers.size = units;
      else
        sound = false;
    } else if (key == "INTERVAL") {
      interval = &variable;
      sound = number(variable, 1, base::bounds::window_us_max / 1000, interval_ms) && sound;
    } else if (key.starts_with("PER_")) {
      if (rate != nullptr) {
        sound = false;
        error(variable.name, "is a second rate beside " + std::string(rate->name),
              "set only one of them");
        continue;
      }
      rate = &variable;
      if (key == "PER_INTERVAL") per_interval = &variable;
      const int64_t seconds = key == "PER_SECOND"   ? 1
                              : key == "PER_MINUTE" ? 60
                              : key == "PER_HOUR"   ? 3600
                              : key == "PER_DAY"    ? 86'400
                                                    : 0;
      if (number(variable, 1, base::bounds::quota_max, units))
        type.numbers.rate = {units, base::seconds(seconds)};
      else
        sound = false;
    } else if (key == "UNLIMITED") {
      constexpr std::array<std::string_view, 3> yes = {"true", "1", "yes"},
                                                no = {"false", "0", "no"};
      if (holds(yes, variable.text) || holds(no, variable.text)) {
        type.numbers.unlimited = holds(yes, variable.text);
      } else {
        sound = false;
        error(variable.name, in_ticks(variable.text) + " is neither true nor false",
              "write `true` or `false`");
      }
    } else if (key == "PURPOSE") {
      type.purpose = variable.text;
    } else {
      warning(variable.name, "has no effect on a type", "");
    }
  }
  const std::string_view any = variables.front().name;
  const std::string stem(any.substr(0, any.size() - variables.front().key.size()));
  if (name == nullptr) {
    error(any, "belongs to a bucket type without a name", "set " + stem + "NAME");
    return;
  }
  if ((interval == nullptr) != (per_interval == nullptr)) {
    const bool lacks_interval = interval == nullptr;
    error(lacks_interval ? per_interval->name : interval->name,
          "has no " + stem + (lacks_interval ? "INTERVAL" : "PER_INTERVAL") + " beside it",
          "set it too");
    return;
  }
  if (per_interval != nullptr && type.numbers.rate)
    type.numbers.rate->window = base::milliseconds(interval_ms);
  if (sound && !type.numbers.size && !type.numbers.rate)
    error(
        name->name, "bucket " + policy::shortened(type.name, 64) + " has neither a size nor a rate",
        "set " + stem + "SIZE, or one of " + stem + "PER_SECOND, _PER_MINUTE, _PER_HOUR, _PER_DAY");
  const auto [known, fresh] = named_.try_emplace(type.name, name->name);
  if (!fresh)
    error(name->name,
          "bucket " + policy::shortened(type.name, 64) + " is already that of " +
              std::string(known->second),
          "give each a name of its own");
  out.push_back(std::move(type));
}

}  // namespace sluice::limitd
