#include "protocol/envoy/metrics_settings.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/units.h"
#include "config/settings.h"

namespace sluice::envoy {
namespace {

using config::setting;

// A day: the longest period that statsd's counts may cover.
constexpr base::Duration flush_interval_max = base::seconds(86'400);

std::string ratio_text(float ratio) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, ratio).ptr};
}

// Replaces the characters that would end a tag of statsd, or a part of a name, by `_`.
std::string clean_tag(std::string_view text) {
  std::string clean(text);
  clean_path(clean);
  for (char& c : clean)
    if (c == '.' || c == ':' || c == '|' || c == '=' || c == ' ') c = '_';
  return clean;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

struct Tags {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  static bool read(const config::Written& written, Pairs& to) {
    auto tags = read_tags(written.text);
    if (!tags) return written.wrong_text("are not tags", "write them as in \"env:test,zone:b\"");
    to = *std::move(tags);
    return true;
  }
  static std::string text(const Pairs& tags) {
    std::string text;
    for (const auto& [key, value] : tags) text += (text.empty() ? "" : ",") + key + ":" + value;
    return text.empty() ? text : config::in_quotes(text);
  }
  static std::string values() { return "`key:value,...`"; }
};

struct Ratio {
  static bool read(const config::Written& written, float& to) {
    const auto ratio = read_ratio(written.text);
    if (!ratio) return written.wrong_text("is not a ratio", "write one as in `0.8`");
    to = *ratio;
    return true;
  }
  static std::string text(float ratio) { return ratio_text(ratio); }
  static std::string values() { return "a number from 0"; }
};

// `milliseconds` and `tags` stand in the maps of the page and of statsd.
config::Table metrics_table(MetricsSettings& its) {
  const auto about = [](std::string_view help) {
    return config::About{.help = help, .shown = config::Shown::changed};
  };
  config::Entry page{.key = "prometheus",
                     .about = {.help = "the original's metrics as a page for Prometheus"},
                     .is_single = false,
                     .all_shown = true};
  const auto page_table = [about](MetricsSettings::Page& at, LimitMetrics::Options& counting) {
    config::Table table{
        setting("address", at.address, config::HostPort{prometheus_port},
                {.help = "where Prometheus finds the original's page"}),
        setting("path", at.path, config::Text{}, {.help = "the path of that page"}),
        setting("milliseconds", counting.milliseconds,
                config::Truth{"write `milliseconds: true`, or take it out for seconds"},
                about("response times are in milliseconds, as the original can have them"))};
    return table;
  };
  page.read = [&its, page_table](const config::Written& written) {
    read_table(written, page_table(its.prometheus.emplace(MetricsSettings::Page{}), its.counting));
    return true;
  };
  page.parts = [&its, page_table] {
    return its.prometheus ? page_table(*its.prometheus, its.counting) : config::Table();
  };
  page.visit_usual = [page_table](const auto& visit) {
    MetricsSettings usual;
    visit(page_table(usual.prometheus.emplace(MetricsSettings::Page{}), usual.counting));
  };
  config::Entry statsd{.key = "statsd",
                       .about = {.help = "or sent to a statsd"},
                       .is_single = false,
                       .all_shown = true};
  const auto statsd_table = [about](MetricsSettings::Statsd& to, LimitMetrics::Options& counting) {
    return config::Table{
        setting("address", to.address, config::HostPort{config::statsd_port},
                {.help = "the statsd that is told the original's metrics, over TCP"}),
        setting("flush_interval", to.flush_interval,
                config::Length{{1'000}, flush_interval_max, {}, "10s"},
                {.help = "how often it is told"}),
        setting("tags", counting.tags, Tags{}, about("tags in the names of the metrics"))};
  };
  statsd.read = [&its, statsd_table](const config::Written& written) {
    read_table(written, statsd_table(its.statsd.emplace(MetricsSettings::Statsd{}), its.counting));
    return true;
  };
  statsd.parts = [&its, statsd_table] {
    return its.statsd ? statsd_table(*its.statsd, its.counting) : config::Table();
  };
  statsd.visit_usual = [statsd_table](const auto& visit) {
    MetricsSettings usual;
    visit(statsd_table(usual.statsd.emplace(MetricsSettings::Statsd{}), usual.counting));
  };
  return {std::move(page), std::move(statsd),
          setting("near_limit_ratio", its.counting.near_ratio, Ratio{},
                  about("the part of a limit from which on requests are counted as near it")),
          config::gone_setting("paths_max",
                               "take it out: the first 10,000 paths of requests are counted")};
}

bool check_metrics(const config::Written& written, const config::GivenKeys&, MetricsSettings& its) {
  return !its.prometheus || !its.statsd ||
         written.wrong("there are a page for Prometheus and a statsd",
                       "take one of them out: each counter is sent in one way");
}

}  // namespace

config::Entry metrics_entry(MetricsSettings& metrics) {
  return section("metrics", metrics, metrics_table, {}, nullptr, check_metrics);
}

std::optional<std::vector<std::pair<std::string, std::string>>> read_tags(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> tags;
  while (!text.empty()) {
    const std::string_view tag = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), tag.size() + 1));
    const size_t colon = tag.find(':');
    if (colon == std::string_view::npos || trimmed(tag.substr(0, colon)).empty())
      return std::nullopt;
    tags.emplace_back(clean_tag(trimmed(tag.substr(0, colon))),
                      clean_tag(trimmed(tag.substr(colon + 1))));
  }
  std::ranges::sort(tags);
  return tags;
}

std::optional<float> read_ratio(std::string_view text) {
  float ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(ratio) ||
      ratio < 0)
    return std::nullopt;
  return ratio;
}

void MetricsSettings::add_to(server::Options& to, protocol::Protocol self,
                             EnvoyOptions& sessions) const {
  if (prometheus)
    to.listeners.push_back({server::Service::page(self, prometheus->path), prometheus->address.host,
                            prometheus->address.port});
  if (statsd)
    to.statsd = {.host = statsd->address.host,
                 .port = statsd->address.port,
                 .prefix = {},
                 .tcp = true,
                 .protocol = self,
                 .period = std::chrono::milliseconds(statsd->flush_interval.us / 1'000)};
  if (prometheus || statsd) sessions.metrics = std::make_shared<LimitMetrics>(counting);
}

}  // namespace sluice::envoy
