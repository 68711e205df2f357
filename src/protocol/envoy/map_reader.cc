#include "protocol/envoy/map_reader.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "policy/text.h"

namespace sluice::envoy {

MapReader::MapReader(const policy::YamlDocument& document, bool strict, policy::YamlReader& told)
    : strict_(strict),
      told_(told),
      left_(16 * document.size() + 1'000'000),
      doubted_(document.size()) {}

bool MapReader::take(YamlNode value) {
  if (over_) return false;
  if (left_ > 0) {
    --left_;
    return true;
  }
  end(value, "expands to far more than the file contains, by aliases");
  return false;
}

void MapReader::end(YamlNode node, std::string message) {
  error("", node, std::move(message), "repeat less by alias");
  over_ = true;
}

std::optional<std::vector<GoMember>> MapReader::members(YamlNode map) {
  if (over_) return std::nullopt;
  std::vector<GoMember> all;
  if (const auto problem = append_members(map, left_, all)) {
    if (problem->too_many)
      end(problem->node, std::string(problem->why));
    else
      error("<<", problem->node, std::string(problem->why),
            "name maps only, as in `<<: *defaults` or `<<: [*a, *b]`");
    return std::nullopt;
  }
  left_ -= all.size();
  doubt_twice(all);
  return all;
}

void MapReader::doubt_twice(std::span<const GoMember> members) {
  std::unordered_map<std::string_view, const GoMember*> by_text;
  for (const GoMember& member : members) {
    if (!member.key.is_scalar()) continue;
    const auto [at, first] = by_text.emplace(member.key.text(), &member);
    if (first) continue;
    const GoMember& before = *std::exchange(at->second, &member);
    // No warning for an entry that replaces a merged one: that is the purpose of merging.
    if (before.merged_by) continue;
    const std::string line = std::to_string(before.key.line());
    if (member.merged_by)
      doubt("<<", member.merged_by,
            "replaces " + policy::in_ticks(member.key.text()) + " of line " + line +
                ", as it stands behind it",
            "put it in front of the entries that count instead of merged ones");
    else
      doubt(member.key.text(), member.key,
            "occurs twice, first on line " + line + "; the last one counts", "keep one of them");
  }
}

void MapReader::doubt(std::string_view subject, YamlNode node, std::string message,
                      std::string remedy) {
  if (node.id() < doubted_.size()) {
    if (doubted_[node.id()]) return;
    doubted_[node.id()] = true;
  }
  if (strict_)
    told_.error(subject, node, std::move(message), std::move(remedy));
  else
    told_.warning(subject, node, std::move(message), std::move(remedy));
}

std::string shown(YamlNode node) {
  if (node.is_list()) return "a list";
  if (node.is_map()) return "a map";
  if (node.is_null()) return "nothing";
  return policy::in_ticks(node.text());
}

}  // namespace sluice::envoy
