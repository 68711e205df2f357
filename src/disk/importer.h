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

#include "base/result.h"
#include "base/time.h"
#include "disk/journal.h"
#include "limit/limit.h"
#include "request/space.h"

namespace sluice::disk {

class Importer {
 public:
  enum class Added : uint8_t {
    yes,
    there  // the store has that counter already, and keeps it
  };

  // Opens the store in `dir`, or makes it. `now`: what is past its time by then is not there.
  // `spaces` outlives it.
  static base::Result<std::unique_ptr<Importer>> open(const std::string& dir, base::Time now,
                                                      request::Spaces& spaces);
  ~Importer();

  // A counter of limits with one cell. It is committed with many others, by `finish` at the latest.
  // What this pass has added may be listed, or be replaced.
  base::Result<Added> add(const request::Space& space, uint32_t limits_id, std::string_view key,
                          const limit::State& state);
  // Commits the rest. What was committed before stays, also after a failure.
  base::Done finish();

 private:
  explicit Importer(std::unique_ptr<Journal> journal, std::string dir);
  base::Done read_unfolded();

  const std::unique_ptr<Journal> journal_;
  const std::string dir_;
  std::set<std::pair<uint32_t, std::string>> unfolded_;  // that were there: spaces' ids and keys
};

}  // namespace sluice::disk
