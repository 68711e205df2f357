// The maps of one file of limits, as Go's yaml.v2 reads them: their entries, what is doubtful about
// them, and a bound on the walk, which aliases could make endless. One per file.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/read/yaml_tree_reader.h"
#include "protocol/envoy/go_yaml.h"

namespace sluice::envoy {

class MapReader {
 public:
  // `strict`: what is doubtful is an error.
  MapReader(const policy::YamlDocument& document, bool strict, policy::YamlReader& told);

  // The entries in the order in which they are set. Keys that the map has twice are doubtful.
  // Nothing: they cannot be had, which has been reported.
  std::optional<std::vector<GoMember>> members(YamlNode map);

  // One more value is read. False: the bound is reached, which has been reported.
  bool take(YamlNode value);

  // What the original passes over in silence; told once for each node.
  void doubt(std::string_view subject, YamlNode node, std::string message, std::string remedy);
  void error(std::string_view subject, YamlNode node, std::string message, std::string remedy) {
    told_.error(subject, node, std::move(message), std::move(remedy));
  }
  // What further messages are about: the path of a descriptor.
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

// `5` or `[...]` as a message quotes it.
std::string shown(YamlNode node);

}  // namespace sluice::envoy
