#include "config/file_reader.h"

#include <filesystem>
#include <utility>

#include "base/units.h"
#include "config/settings.h"

namespace sluice::config {

void FileReader::map(const YamlNode& node, const std::string& what, const std::vector<Known>& known,
                     std::span<const policy::YamlReader::GoneKey> gone) {
  std::vector<std::string_view> words;
  for (const auto& k : known) words.push_back(k.key);
  for (const auto& [key, value] : yaml_.entries(what, node, words, gone))
    for (const auto& k : known)
      if (k.key == key.text()) k.take(std::string(k.key), value);
}

bool FileReader::sequence(const std::string& key, const YamlNode& node, std::string example) {
  if (node.is_list() && node.size() > 0) return true;
  complain(place(key, node), "must be a list with at least one entry", std::move(example),
           diagnostics_);
  return false;
}

std::optional<std::string> FileReader::text(const std::string& key, const YamlNode& node) {
  if (!yaml_.has_text(key, node)) return std::nullopt;
  return std::string(node.text());
}

std::optional<uint64_t> FileReader::number(const std::string& key, const YamlNode& node,
                                           uint64_t least, uint64_t most) {
  const auto t = text(key, node);
  if (!t) return std::nullopt;
  const auto n = base::parse_count(*t);
  if (n && *n >= least && *n <= most) return n;
  complain(place(key, node), "`" + *t + "` is not an allowed number",
           "write " + std::to_string(least) + " to " + std::to_string(most), diagnostics_);
  return std::nullopt;
}

std::optional<bool> FileReader::truth(const std::string& key, const YamlNode& node,
                                      std::string remedy) {
  const auto t = text(key, node);
  if (!t) return std::nullopt;
  if (*t != "true" && *t != "false")
    complain(place(key, node), "`" + *t + "` is neither true nor false", std::move(remedy),
             diagnostics_);
  return *t == "true";
}

std::optional<Address> FileReader::address(const std::string& key, const YamlNode& node,
                                           uint16_t port_default) {
  const auto value = text(key, node);
  if (!value) return std::nullopt;
  return address_of(*value, port_default, place(key, node), diagnostics_);
}

std::string FileReader::origin(const YamlNode& node) const {
  return file_ + ":" + std::to_string(node.line());
}

std::string FileReader::beside_file(const std::string& path) const {
  return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
}

}  // namespace sluice::config
