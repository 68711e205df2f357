// A folder of time zones' data for tests, which goes with its object.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::tests {

// A TZif of version 2 or later: changes to the offset of a place in `offsets`, by instants.
struct WrittenZone {
  std::vector<std::pair<int64_t, int>> changes = {};
  std::vector<int64_t> offsets = {0};
  std::string footer = {};
  char version = '2';
  int leaps = 0;

  std::string text() const {
    // The first block is for readers of version 1, and is passed over.
    std::string all = header(0, 1);
    all.append(6 + 1 + static_cast<size_t>(leaps) * 8, '\0');
    all += header(changes.size(), offsets.size());
    for (const auto& [at, place] : changes) append(all, at, 8);
    for (const auto& [at, place] : changes) append(all, place, 1);
    for (const int64_t offset : offsets) {
      append(all, offset, 4);
      append(all, 0, 2);
    }
    all.append(1 + static_cast<size_t>(leaps) * 12, '\0');
    return all + "\n" + footer + "\n";
  }

 private:
  static void append(std::string& to, int64_t number, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) to += static_cast<char>(number >> (8 * i));
  }
  std::string header(size_t times, size_t types) const {
    std::string all = "TZif";
    all += version;
    all.append(15, '\0');
    append(all, 0, 4);
    append(all, 0, 4);
    append(all, leaps, 4);
    append(all, static_cast<int64_t>(times), 4);
    append(all, static_cast<int64_t>(types), 4);
    append(all, 1, 4);
    return all;
  }
};

class ZoneFolder {
 public:
  ZoneFolder() {
    std::string pattern = ::testing::TempDir() + "sluice_zones_XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~ZoneFolder() { std::filesystem::remove_all(path_); }
  ZoneFolder(const ZoneFolder&) = delete;
  ZoneFolder& operator=(const ZoneFolder&) = delete;

  const std::string& path() const { return path_; }
  void put(const std::string& name, std::string_view text) const {
    const std::filesystem::path at = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at, std::ios::binary) << text;
  }

 private:
  std::string path_;
};

}  // namespace sluice::tests
