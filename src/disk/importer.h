// Brings counters that another server has stored into a store that no server has open: what is
// there already stays. One object for one pass, used by one thread; the directory is its own until
// it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "disk/journal.h"
#include "limit/limit.h"
#include "request/space.h"

namespace sluice::disk {

class Importer {
 public:
  enum class Added : uint8_t {
    yes,
    there,  // the store has that counter already, and keeps it
    failed  // `problem`
  };

  // Opens the store in `dir`, or makes it. `now`: what is past its time by then is not there. Null:
  // `problem`. `spaces` outlives it.
  static std::unique_ptr<Importer> open(const std::string& dir, base::Time now,
                                        request::Spaces& spaces, std::string& problem);
  ~Importer();

  // A counter of limits with one cell. It is committed with many others, by `finish` at the latest.
  // What this pass has added may be told as there, or be replaced.
  Added add(const request::Space& space, uint32_t limits_id, std::string_view key,
            const limit::State& state, std::string& problem);
  // Commits the rest. False: `problem`; what was committed before stays.
  bool finish(std::string& problem);

 private:
  explicit Importer(std::unique_ptr<Journal> journal, std::string dir);
  bool read_unfolded(std::string& problem);

  const std::unique_ptr<Journal> journal_;
  const std::string dir_;
  std::set<std::pair<uint32_t, std::string>> unfolded_;  // that were there: spaces' ids and keys
};

}  // namespace sluice::disk
