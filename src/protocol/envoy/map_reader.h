// Reads the maps of a file of limits as Go's yaml.v2 does: their entries, warnings about them, and
// a bound on the walk, which aliases could make endless. One for each file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/read/yaml_tree_reader.h"
#include "protocol/envoy/words.h"

namespace sluice::envoy {

class MapReader {
 public:
  // `strict`: warnings are errors.
  MapReader(const policy::YamlDocument& document, bool strict, policy::YamlReader& told);

  // The entries in the order in which they are set. A repeated key gives a warning. Empty: the map
  // cannot be read, which was reported.
  std::optional<std::vector<GoMember>> members(YamlNode map);

  // Counts one more value. False: the bound is reached, which was reported.
  bool take(YamlNode value);

  // Reports something that the original ignores silently; once for each node.
  void doubt(std::string_view subject, YamlNode node, std::string message, std::string remedy);
  void error(std::string_view subject, YamlNode node, std::string message, std::string remedy) {
    told_.error(subject, node, std::move(message), std::move(remedy));
  }
  // Sets the subject of further messages: the path of a descriptor.
  void set_context(std::string context) { told_.set_context(std::move(context)); }

 private:
  void end(YamlNode node, std::string message);
  void doubt_twice(std::span<const GoMember> members);

  bool strict_;
  policy::YamlReader& told_;
  size_t left_;
  bool over_ = false;
  std::vector<bool> doubted_;
};

// The node as messages quote it: `5`, `[...]`.
std::string shown(YamlNode node);

}  // namespace sluice::envoy
