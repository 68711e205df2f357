// What a store that outlives the process keeps beside its counters for holds: texts by name
// (request::HoldNote), each in the commit of the change that it belongs to, and what was given back
// to counters that have holds.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "request/charge.h"
#include "request/hold.h"

namespace sluice::store {

using VisitNote = std::function<void(std::string_view name, std::string_view text)>;

class Notes {
 public:
  virtual ~Notes() = default;
  // Calls `visit` with each text of the last start, in any order. Once, before any request.
  virtual base::Done read(const VisitNote& visit) = 0;
  // A hold that was read has so many parts of that counter. In the same phase.
  virtual void hold_again(const request::Space& space, std::string_view key, size_t parts) = 0;
  // From here on `each` calls its argument with all texts that there are; on any thread, as long
  // as the store lives. Once, after `read`.
  virtual void set_source(std::function<void(const VisitNote&)> each) = 0;
  // Keeps a text that belongs to no change of counters; Error::none: it will be committed. Any
  // thread.
  virtual request::Error keep(request::HoldNote& note) = 0;
};

}  // namespace sluice::store
