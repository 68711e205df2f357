// The reader for all sections of a sluice.yaml: maps with known keys, single values, and the place
// of each. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "config/address.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::config {

class FileReader {
 public:
  using YamlNode = policy::YamlNode;
  using Take = std::function<void(const std::string& key, const YamlNode& value)>;
  struct Known {
    std::string_view key;
    Take take;
  };

  // `file`, the name as the user gave it, the document and `diagnostics` outlive this object.
  FileReader(const std::string& file, const policy::YamlDocument& document,
             base::Diagnostics& diagnostics)
      : file_(file), yaml_(file, document, diagnostics), diagnostics_(diagnostics) {}

  // Calls the function of each known key of the map, once. `what`: the map's name for messages.
  // Keys of `gone` are refused with their remedy.
  void map(const YamlNode& node, const std::string& what, const std::vector<Known>& known,
           std::span<const policy::YamlReader::GoneKey> gone = {});
  // Is the node a list with at least one entry? If not, that is reported with the example.
  bool sequence(const std::string& key, const YamlNode& node, std::string example);

  // The text of a scalar; empty: the node is not a scalar, which is reported.
  std::optional<std::string> text(const std::string& key, const YamlNode& node);
  std::optional<uint64_t> number(const std::string& key, const YamlNode& node, uint64_t least,
                                 uint64_t most);
  // Empty: the value is neither `true` nor `false`, which is reported with `remedy`.
  std::optional<bool> truth(const std::string& key, const YamlNode& node, std::string remedy);
  std::optional<Address> address(const std::string& key, const YamlNode& node,
                                 uint16_t port_default);

  // The place of a node, for Setting::origin and for diagnostics.
  std::string origin(const YamlNode& node) const;
  base::Diagnostic place(std::string_view subject, const YamlNode& node) const {
    return yaml_.place(subject, node);
  }
  // The path, made relative to the file's folder.
  std::string beside_file(const std::string& path) const;

  policy::YamlReader& yaml() { return yaml_; }
  base::Diagnostics& diagnostics() { return diagnostics_; }

 private:
  const std::string& file_;
  policy::YamlReader yaml_;
  base::Diagnostics& diagnostics_;
};

}  // namespace sluice::config
