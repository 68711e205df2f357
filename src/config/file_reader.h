// What all sections of a sluice.yaml are read with: maps with known keys, single values, and where
// each of them stands. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

  // `file`, as the user named it, the document and `diagnostics` outlive this.
  FileReader(const std::string& file, const policy::YamlDocument& document,
             base::Diagnostics& diagnostics)
      : file_(file), yaml_(file, document, diagnostics), diagnostics_(diagnostics) {}

  // Hands each known key of a map to its taker, once. `what` is what the map is called.
  void map(const YamlNode& node, const std::string& what, const std::vector<Known>& known);
  // Is it a list with an entry? Else that is reported, with an example.
  bool sequence(const std::string& key, const YamlNode& node, std::string example);

  // A single value; nothing: it is not one, which is reported.
  std::optional<std::string> text(const std::string& key, const YamlNode& node);
  std::optional<uint64_t> number(const std::string& key, const YamlNode& node, uint64_t least,
                                 uint64_t most);
  // `remedy` is reported if it is neither `true` nor `false`.
  std::optional<bool> truth(const std::string& key, const YamlNode& node, std::string remedy);
  std::optional<Address> address(const std::string& key, const YamlNode& node,
                                 uint16_t port_default);

  // Where a node stands, for Setting::origin and for diagnostics.
  std::string origin(const YamlNode& node) const;
  base::Diagnostic place(std::string_view subject, const YamlNode& node) const {
    return yaml_.place(subject, node);
  }
  // A path that counts from the file's folder.
  std::string beside_file(const std::string& path) const;

  policy::YamlReader& yaml() { return yaml_; }
  base::Diagnostics& diagnostics() { return diagnostics_; }

 private:
  const std::string& file_;
  policy::YamlReader yaml_;
  base::Diagnostics& diagnostics_;
};

}  // namespace sluice::config
