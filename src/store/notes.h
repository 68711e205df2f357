// What a store that outlives the process keeps beside its counters for holds: texts by name
// (request::HoldNote), each in the commit of the change that it belongs to, and what was given back
// to counters that have holds.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/hold.h"

namespace sluice::store {

using VisitNote = std::function<void(std::string_view name, std::string_view text)>;

class Notes {
 public:
  virtual ~Notes() = default;
  // Calls `visit` with each text of the last start, in the order of their names. Once, before any
  // request.
  virtual base::Done read(const VisitNote& visit) = 0;
  // A hold that was read has so many parts of that counter, to which so much was given back. In the
  // same phase.
  virtual void hold_again(const request::Space& space, std::string_view key, size_t parts,
                          const limit::Given& given) = 0;
  // What a space and a list of limits are in texts, and back. False: it is damaged.
  virtual void append_list(std::string& out, const request::Space& space,
                           std::span<const limit::Limit> limits) const = 0;
  virtual bool parse_list(std::string_view text, request::Space& space,
                          std::vector<limit::Limit>& limits) const = 0;
  // Keeps a text that belongs to no change of counters. Error::none: it will be committed. Any
  // thread.
  virtual request::Error keep(request::HoldNote& note) = 0;
};

// The names of texts begin with what they are; those of other texts with a character that can be
// read. What was given back to a counter that has holds goes by its stored name.
inline constexpr char hold_note = '\1', given_note = '\2';
constexpr bool is_note(std::string_view name) {
  return !name.empty() && (name.front() == hold_note || name.front() == given_note);
}
std::string text_of(const limit::Given& given);
bool parse_given(std::string_view text, limit::Given& given);

}  // namespace sluice::store
