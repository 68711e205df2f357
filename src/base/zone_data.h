// Where the data of time zones come from: a folder of TZif files, as Debian's tzdata installs
// them, or a copy inside the program. One source for all zones of a process at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::base {

// A copy of zone data inside a program.
struct BuiltInZones {
  struct Zone {
    std::string_view name;
    uint32_t first, bytes;  // in `data`; several names may have the same
  };
  std::string_view version, data;
  const Zone* zones = nullptr;  // by name, ascending
  size_t count = 0;
};

// A place of zone data. A value.
class ZoneData {
 public:
  // The first that has data: `folder` if it is not empty, else $TZDIR, else /usr/share/zoneinfo,
  // else the copy built into the program, else none. Blocks. A `folder` without data is none, so
  // that what an operator sets is not replaced in silence.
  static ZoneData find(const std::string& folder);
  // The copy that find() falls back to, for the life of the process. Called once, before threads
  // are.
  static void set_built_in(const BuiltInZones& zones);

  // The TZif bytes of a zone, read now, which may not be valid. Empty: the data lack the zone, or
  // its file is of another format or too large.
  std::string read(std::string_view name) const;
  // Names like it, nearest first, at most three.
  std::vector<std::string> names_near(std::string_view name) const;
  // The names of all its zones, zones_max at most, sorted; of a folder those of its TZif files,
  // without links to folders. Blocks.
  std::vector<std::string> names() const;

  // "2025b, system", "2025b, built in", "2025b, /srv/zones"; "none".
  std::string text() const;
  // "2025b"; "unknown" where the data do not say.
  const std::string& version() const { return version_; }
  bool has_data() const { return kind_ != Kind::none; }

 private:
  enum class Kind : uint8_t { none, folder, built_in };
  bool use_folder(const std::string& folder);

  Kind kind_ = Kind::none;
  std::string folder_, version_;
};

// May it name a zone? 1 to zone_name_max letters, digits, `_`, `+`, `-` and `/`, no part of it
// empty; not of the folders `posix` and `right`, which have the same names again.
bool sound_zone_name(std::string_view name);
inline constexpr size_t zone_name_max = 64;

}  // namespace sluice::base
