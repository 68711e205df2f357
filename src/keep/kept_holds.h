// The table of a limiter as its reservations see it: what they are is kept in a journal, each in
// the commit of its counters' changes. Any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/hold.h"
#include "store/completion_queue.h"
#include "store/embedded_store.h"
#include "store/log/journal.h"
#include "store/notes.h"
#include "store/store.h"

namespace sluice::detail {

class kept_holds final : public store::Store, public store::Notes {
 public:
  // Both outlive it. Everything is in memory.
  kept_holds(store::EmbeddedStore& table, disk::Journal& journal);

  // Does the journal have a reservation?
  base::Result<bool> has_any();

  store::Notes* notes() override { return this; }
  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    return table_.apply(batch, now, completions, pin, ticket);
  }
  std::optional<base::Time> advance(store::CompletionQueue& completions, base::Time now) override {
    return table_.advance(completions, now);
  }
  bool cancel(store::CompletionQueue& completions, request::Ticket ticket,
              base::Time now) override {
    return table_.cancel(completions, ticket, now);
  }

  base::Done read(const store::VisitNote& visit) override { return journal_.read_notes(visit); }
  void hold_again(const request::Space& space, std::string_view key, size_t parts,
                  const limit::Given& given) override {
    table_.hold_again(space, key, parts, given);
  }
  void append_list(std::string& out, const request::Space& space,
                   std::span<const limit::Limit> limits) const override;
  bool parse_list(std::string_view text, request::Space& space,
                  std::vector<limit::Limit>& limits) const override;
  request::Error keep(request::HoldNote& note) override;

 private:
  store::EmbeddedStore& table_;
  disk::Journal& journal_;
};

}  // namespace sluice::detail
