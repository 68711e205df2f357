#include "keep/kept_holds.h"

#include <utility>

#include "store/changes.h"
#include "store/log/format.h"

namespace sluice::detail {

kept_holds::kept_holds(store::EmbeddedStore& table, disk::Journal& journal)
    : Store(table, nullptr), table_(table), journal_(journal) {}

base::Result<bool> kept_holds::has_any() {
  bool any = false;
  const base::Done read = journal_.read_notes([&](std::string_view name, std::string_view) {
    any |= !name.empty() && name.front() == store::hold_note;
  });
  if (!read) return read.problem();
  return any;
}

void kept_holds::append_list(std::string& out, const request::Space& space,
                             std::span<const limit::Limit> limits) const {
  disk::append_list(out, space, limits);
}

bool kept_holds::parse_list(std::string_view text, request::Space& space,
                            std::vector<limit::Limit>& limits) const {
  return disk::parse_list(text, space, limits);
}

request::Error kept_holds::keep(request::HoldNote& note) {
  table_.changes().add_note(store::Changes::note_of(note));
  return request::Error::none;
}

}  // namespace sluice::detail
