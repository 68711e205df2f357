// A directory of its own for one test, removed with all its contents at the end; helpers to read a
// store's counters and to make writes fail. For one thread.
#pragma once

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result_test.h"
#include "request/space.h"
#include "store/log/journal.h"

namespace sluice::disk {

class Folder {
 public:
  // `in_memory`: where syncs take no time, if there is such a place.
  explicit Folder(bool in_memory = false) {
    const std::filesystem::path shared = "/dev/shm";
    std::error_code error;
    const bool has = in_memory && std::filesystem::is_directory(shared, error) &&
                     ::access(shared.c_str(), W_OK) == 0;
    std::string pattern =
        ((has ? shared : std::filesystem::temp_directory_path()) / "sluice_disk_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// What a test expects to find of a counter.
struct Kept {
  std::vector<limit::State> cells;
  uint32_t limits_id = 0;
  int64_t forget_us = INT64_MAX;
  friend bool operator==(const Kept&, const Kept&) = default;
};
using KeptByKey = std::map<std::pair<const request::Space*, std::string>, Kept>;

inline Kept kept_of(const Record& record) {
  return {{record.cells.begin(), record.cells.end()}, record.limits_id, record.forget_us};
}

// Collects counters; a record without cells removes its counter.
inline Visit collect(KeptByKey& all) {
  return [&all](const Record& record) {
    const std::pair key(record.space, std::string(record.key));
    if (record.cells.empty())
      all.erase(key);
    else
      all[key] = kept_of(record);
  };
}

// Reads all counters of a journal that was just opened: the snapshot's, then the log's.
inline base::Done read_all(Journal& journal, KeptByKey& all) {
  uint64_t position = 0;
  do {
    if (!journal.scan(position, collect(all))) return base::Problem{"scan failed"};
  } while (position != 0);
  return journal.replay(collect(all));
}

// A table that is a map, whose counters are committed whenever they are visited.
inline Journal::Table table_of(const KeptByKey& all) {
  return {.counters = [n = all.size()] { return uint64_t{n}; },
          .walk =
              [all](const std::function<bool(const Record&)>& visit) {
                for (const auto& [key, its] : all)
                  if (!visit({key.first, its.limits_id, key.second, its.cells, its.forget_us}))
                    return false;
                return true;
              }};
}

// From now on files cannot grow beyond `bytes`: writes to them fail, as on a full disk. For the
// whole process, which ignores SIGXFSZ.
inline void limit_files(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// Waits until so many snapshots are written; 20 s at most.
inline bool wait_for_snapshots(const Journal& journal, uint64_t snapshots) {
  for (int i = 0; i < 20'000 && journal.stats().snapshots < snapshots; ++i) ::usleep(1000);
  return journal.stats().snapshots >= snapshots;
}

// Turns one bit of the byte at `at`.
inline void turn_bit(const std::string& path, uint64_t at) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const int byte = f.get();
  f.seekp(static_cast<std::streamoff>(at));
  f.put(static_cast<char>(byte ^ 4));
}

}  // namespace sluice::disk
