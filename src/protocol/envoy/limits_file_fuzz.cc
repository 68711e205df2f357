// Reads any texts as Envoy's files of limits, each after a line `---- NAME`, with each setting for
// merging and strictness. They must be refused with one line for each reason, or give valid limits.
// Requests made from the rules must find the same limits as in the naive model, and /rlconfig must
// have a line for each limit.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/limits_model.h"

namespace sluice::envoy {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<LimitsText> split(std::string_view all) {
  constexpr std::string_view mark = "---- ";
  std::vector<LimitsText> files;
  std::string_view name = "limits.yaml";
  size_t begin = 0;
  for (size_t at = 0; at < all.size();) {
    const size_t line_end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, line_end - at);
    if (line.starts_with(mark)) {
      if (at > 0) files.push_back({name, all.substr(begin, at - begin)});
      name = line.substr(mark.size());
      begin = std::min(line_end + 1, all.size());
    }
    at = line_end + 1;
  }
  files.push_back({name, all.substr(begin)});
  return files;
}

void check(const LimitSet& set, const Limit& limit) {
  const limit::Limit numbers = numbers_of(limit);
  require(numbers.quota >= 0 && numbers.quota <= UINT32_MAX);
  require(numbers.window.us >= 0 && numbers.window.us <= base::bounds::window_us_max);
  require((numbers.window.us == 0) == (numbers.algorithm == limit::Algorithm::unlimited));
  require((numbers.burst > 0) == (numbers.algorithm == limit::Algorithm::token_bucket));
  require(limit.extended || limit.unlimited || numbers.window == length_of(limit.unit));
  require(set.nodes()[limit.node].parent != absent && limit.line > 0);
  require(!limit.metadata || !limit.metadata->empty());
}

// A request whose entries are the composite keys from the domain to the node, each divided at an
// underscore or with another node's value.
void ask(const LimitSet& set, const LimitsModel& model, uint32_t node, size_t turn) {
  std::vector<request::Entry> entries;
  uint32_t domain = node;
  for (uint32_t at = node; at != absent; at = set.nodes()[at].parent) {
    domain = at;
    if (set.nodes()[at].parent == absent) break;
    const std::string_view composite = set.nodes()[at].composite;
    const size_t cut = composite.find('_', turn % (composite.size() + 1));
    if (cut == std::string_view::npos)
      entries.push_back({composite, set.nodes()[turn % set.nodes().size()].key()});
    else
      entries.push_back({composite.substr(0, cut), composite.substr(cut + 1)});
  }
  std::reverse(entries.begin(), entries.end());
  policy::MatchSteps steps;
  const Walk walk = set.find(domain, entries, steps);
  const auto found = model.find(domain, entries);
  require(walk.limit == found.limit && walk.size == found.steps.size());
  for (size_t i = 0; i < walk.size; ++i)
    require(walk.all[i].node == found.steps[i].first && walk.all[i].by == found.steps[i].second);
  base::Arena arena;
  require(set.key(domain, entries, walk, arena) == model.key(domain, entries, found));
  if (walk.limit == absent) return;
  std::string text;
  set.append_metric_path(domain, entries, walk, text);
  require(text.find_first_of(":|") == std::string::npos);
}

void read_one(std::string_view all) {
  const std::vector<LimitsText> files = split(all);
  for (const bool strict : {false, true}) {
    for (const bool merge : {false, true}) {
      base::Diagnostics diagnostics;
      const auto set = read_limits(files, {.merge_domains = merge, .strict = strict}, diagnostics);
      require(set.has_value() != base::has_errors(diagnostics));
      for (const base::Diagnostic& d : diagnostics) {
        require(to_string(d).find('\n') == std::string::npos);
        require(d.severity == base::Diagnostic::Severity::warning || !d.message.empty());
      }
      if (!set) continue;
      for (const Limit& limit : set->limits()) check(*set, limit);
      const std::string lines = set->rlconfig();
      require(set->limits().empty() == lines.empty());
      // The model takes long for many or long patterns, as it tries all ways to match them.
      const size_t most = 60;
      const bool small = set->nodes().size() <= most &&
                         std::all_of(set->nodes().begin(), set->nodes().end(), [](const Node& n) {
                           return n.composite.size() <= 32 &&
                                  std::count(n.composite.begin(), n.composite.end(), '*') <= 2;
                         });
      if (!small) continue;
      const LimitsModel model(*set);
      for (uint32_t node = 0; node < set->nodes().size(); ++node)
        for (size_t turn = 0; turn < 3; ++turn) ask(*set, model, node, turn);
    }
  }
}

}  // namespace
}  // namespace sluice::envoy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::envoy::read_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
