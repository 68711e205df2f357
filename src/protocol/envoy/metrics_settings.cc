#include "protocol/envoy/metrics_settings.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/units.h"
#include "config/settings.h"

namespace sluice::envoy {
namespace {

using policy::YamlNode;
using Key = std::string;

// A day: the longest period that statsd's counts may cover.
constexpr base::Duration flush_interval_max = base::seconds(86'400);

class MetricsReader {
 public:
  explicit MetricsReader(config::FileReader& reader) : reader_(reader) {}

  MetricsSettings read(const YamlNode& section) {
    reader_.map(section, "metrics",
                {{"prometheus", [&](const Key&, const YamlNode& node) { prometheus(node); }},
                 {"statsd", [&](const Key&, const YamlNode& node) { statsd(node); }},
                 {"paths_max",
                  [&](const Key& key, const YamlNode& node) {
                    complain(key, node,
                             "is not a setting: the first 10,000 paths of requests are counted",
                             "take it out");
                  }},
                 {"near_limit_ratio", [&](const Key& key, const YamlNode& node) {
                    take(key, node, read_ratio, its_.counting.near_ratio, "is not a ratio",
                         "write one as in `0.8`");
                  }}});
    if (its_.prometheus && its_.statsd)
      complain("metrics", section, "there are a page for Prometheus and a statsd",
               "take one of them out: each counter is sent in one way");
    return std::move(its_);
  }

 private:
  void prometheus(const YamlNode& node) {
    its_.prometheus = MetricsSettings::Page{};
    MetricsSettings::Page& page = *its_.prometheus;
    reader_.map(
        node, "prometheus",
        {{"address",
          [&](const Key& key, const YamlNode& value) {
            if (auto address = reader_.address(key, value, prometheus_port))
              page.address = *std::move(address);
          }},
         {"path",
          [&](const Key& key, const YamlNode& value) {
            if (auto path = reader_.text(key, value)) page.path = *std::move(path);
          }},
         {"milliseconds", [&](const Key& key, const YamlNode& value) {
            its_.counting.milliseconds =
                reader_.truth(key, value, "write `milliseconds: true`, or take it out for seconds")
                    .value_or(false);
          }}});
  }
  void statsd(const YamlNode& node) {
    its_.statsd = MetricsSettings::Statsd{};
    MetricsSettings::Statsd& statsd = *its_.statsd;
    reader_.map(node, "statsd",
                {{"address",
                  [&](const Key& key, const YamlNode& value) {
                    if (auto address = reader_.address(key, value, config::statsd_port))
                      statsd.address = *std::move(address);
                  }},
                 {"flush_interval",
                  [&](const Key& key, const YamlNode& value) {
                    take(key, value, read_interval, statsd.flush_interval,
                         "is not a length of time from 1ms to 24h", "write one as in `10s`");
                  }},
                 {"tags", [&](const Key& key, const YamlNode& value) {
                    take(key, value, read_tags, its_.counting.tags, "are not tags",
                         "write them as in \"env:test,zone:b\"");
                  }}});
  }

  static std::optional<base::Duration> read_interval(std::string_view text) {
    const auto length = base::parse_duration(text);
    if (!length || length->us < 1'000 || *length > flush_interval_max) return std::nullopt;
    return length;
  }
  template <class Read, class Value>
  void take(const Key& key, const YamlNode& node, Read read_value, Value& to, const char* wrong,
            const char* remedy) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    if (auto value = read_value(*text))
      to = *std::move(value);
    else
      complain(key, node, "`" + *text + "` " + wrong, remedy);
  }
  void complain(const Key& key, const YamlNode& node, std::string what, std::string remedy) {
    config::complain(reader_.place(key, node), std::move(what), std::move(remedy),
                     reader_.diagnostics());
  }

  config::FileReader& reader_;
  MetricsSettings its_;
};

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

}  // namespace

MetricsSettings read_metrics(config::FileReader& reader, const YamlNode& node) {
  return MetricsReader(reader).read(node);
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

std::string MetricsSettings::text() const {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    text += (text.empty() ? "" : ", ") + std::string(key) + ": " + value;
  };
  const auto address_text = [](const config::Address& address) {
    return config::in_quotes(config::format_address(address.host, address.port));
  };
  if (prometheus)
    add("prometheus", "{ address: " + address_text(prometheus->address) +
                          ", path: " + config::in_quotes(prometheus->path) +
                          (counting.milliseconds ? ", milliseconds: true }" : " }"));
  if (statsd) {
    std::string tags;
    for (const auto& [key, value] : counting.tags)
      tags += (tags.empty() ? "" : ",") + key + ":" + value;
    add("statsd", "{ address: " + address_text(statsd->address) +
                      ", flush_interval: " + config::in_one_unit(statsd->flush_interval) +
                      (tags.empty() ? "" : ", tags: " + config::in_quotes(tags)) + " }");
  }
  const LimitMetrics::Options usual;
  if (counting.near_ratio != usual.near_ratio)
    add("near_limit_ratio", ratio_text(counting.near_ratio));
  return text;
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
