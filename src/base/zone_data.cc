#include "base/zone_data.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include "base/bounds.h"
#include "base/diagnostic.h"

namespace sluice::base {

namespace {

constexpr std::string_view system_folder = "/usr/share/zoneinfo";
constexpr std::string_view list_file = "tzdata.zi";  // the source, which begins with the version
constexpr std::string_view zone_head = "TZif";
constexpr size_t zone_bytes_max = 1 << 20;
constexpr size_t list_bytes_max = 4 << 20;

BuiltInZones built_in;

// Empty: it cannot be read, or is larger than `most`.
std::string contents(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  std::string text;
  char part[16'384];
  while (file.read(part, sizeof part) || file.gcount() > 0) {
    text.append(part, static_cast<size_t>(file.gcount()));
    if (text.size() > most) return {};
  }
  return text;
}

// Other files lie beside those of zones, as `leapseconds` does.
bool begins_as_zone(const std::filesystem::path& path) {
  char head[zone_head.size()] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  return std::string_view(head, sizeof head) == zone_head;
}

std::string_view next_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string version_of(std::string_view list) {
  constexpr std::string_view before = "# version ";
  const std::string_view line = next_line(list);
  return line.starts_with(before) && line.size() > before.size() && line.size() < 64
             ? std::string(line.substr(before.size()))
             : "unknown";
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return lower;
}

}  // namespace

bool sound_zone_name(std::string_view name) {
  if (name.empty() || name.size() > zone_name_max || name.front() == '/' || name.back() == '/' ||
      name.starts_with("posix/") || name.starts_with("right/"))
    return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && !(c >= '0' && c <= '9') && c != '_' && c != '+' && c != '-' &&
        !(c == '/' && name[i - 1] != '/'))
      return false;
  }
  return true;
}

void ZoneData::set_built_in(const BuiltInZones& zones) {
  built_in = zones;
}

bool ZoneData::use_folder(const std::string& folder) {
  folder_ = folder;
  kind_ = Kind::folder;
  version_ = version_of(contents(folder + "/" + std::string(list_file), list_bytes_max));
  return !read("UTC").empty() || !read("Etc/UTC").empty();
}

ZoneData ZoneData::find(const std::string& folder) {
  ZoneData data;
  if (!folder.empty()) {
    if (data.use_folder(folder)) return data;
    return {};
  }
  const char* const named = std::getenv("TZDIR");
  if (named != nullptr && *named != '\0' && data.use_folder(named)) return data;
  if (data.use_folder(std::string(system_folder))) return data;
  data = {};
  if (built_in.count == 0) return data;
  data.kind_ = Kind::built_in;
  data.version_ = built_in.version;
  return data;
}

std::string ZoneData::read(std::string_view name) const {
  if (!sound_zone_name(name) || kind_ == Kind::none) return {};
  if (kind_ == Kind::folder) {
    std::string bytes = contents(folder_ + "/" + std::string(name), zone_bytes_max);
    if (!bytes.starts_with(zone_head)) bytes.clear();
    return bytes;
  }
  const std::span zones(built_in.zones, built_in.count);
  const auto at = std::lower_bound(
      zones.begin(), zones.end(), name,
      [](const BuiltInZones::Zone& zone, std::string_view wanted) { return zone.name < wanted; });
  if (at == zones.end() || at->name != name) return {};
  return std::string(built_in.data.substr(at->first, at->bytes));
}

std::vector<std::string> ZoneData::names() const {
  std::vector<std::string> names;
  if (kind_ == Kind::built_in)
    for (const BuiltInZones::Zone& zone : std::span(built_in.zones, built_in.count))
      names.emplace_back(zone.name);
  if (kind_ != Kind::folder) return names;
  namespace fs = std::filesystem;
  const fs::path root = fs::path(folder_) / "";
  std::error_code failed;
  for (fs::recursive_directory_iterator at(root, failed), end;
       at != end && names.size() < bounds::zones_max; at.increment(failed)) {
    const std::string name = at->path().native().substr(root.native().size());
    if (at->is_directory(failed)) {
      if (!sound_zone_name(name + "/x")) at.disable_recursion_pending();
    } else if (sound_zone_name(name) && begins_as_zone(at->path())) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> ZoneData::names_near(std::string_view name) const {
  constexpr size_t most = 3;
  if (name.empty() || name.size() > zone_name_max) return {};
  const std::vector<std::string> all = names();
  const std::string lower = in_lower_case(name);
  const auto last_part = [](std::string_view of) { return of.substr(of.rfind('/') + 1); };
  std::vector<std::string> near;
  const auto add = [&](std::string_view one) {
    if (near.size() < most && std::find(near.begin(), near.end(), one) == near.end())
      near.emplace_back(one);
  };
  // Another case, then a city without its continent or with another one, then a typing mistake.
  std::vector<std::string> lowers, cities;
  for (const std::string& one : all) {
    lowers.push_back(in_lower_case(one));
    cities.emplace_back(last_part(lowers.back()));
    if (lowers.back() == lower) add(one);
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (cities[i] == last_part(lower)) add(all[i]);
  const auto add_nearest = [&](std::string_view wanted, const std::vector<std::string>& among) {
    std::vector<std::string_view> words(among.begin(), among.end());
    const std::string_view nearest = nearest_word(wanted, words);
    if (nearest.empty()) return;
    for (size_t i = 0; i < all.size(); ++i)
      if (among[i] == nearest) add(all[i]);
  };
  add_nearest(lower, lowers);
  add_nearest(last_part(lower), cities);
  return near;
}

std::string ZoneData::text() const {
  if (kind_ == Kind::none) return "none";
  return version_ + ", " +
         (kind_ == Kind::built_in    ? std::string("built in")
          : folder_ == system_folder ? std::string("system")
                                     : folder_);
}

}  // namespace sluice::base
