// A store that passes everything on to another one. What tests put between an engine and its store
// overrides what it wants to see or to change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace sluice::store::tests {

class Forwarding : public Store, public Committer, public Catalog {
 public:
  explicit Forwarding(Store& inner) : inner_(inner) {}

  Committer* committer() override { return inner_.committer() == nullptr ? nullptr : this; }
  Catalog& catalog() override { return *this; }
  void attach(Port& port, net::Loop& loop) override { inner_.attach(port, loop); }
  void detach(Port& port) override { inner_.detach(port); }
  Applied apply(const request::Batch& batch, base::Time now, Port* port, const Pin& pin,
                request::Ticket ticket) override {
    return inner_.apply(batch, now, port, pin, ticket);
  }
  void abandon(Port& port, request::Ticket ticket) override { inner_.abandon(port, ticket); }
  bool commits_first() const override { return inner_.committer()->commits_first(); }
  uint64_t gate(bool strict) const override { return inner_.committer()->gate(strict); }
  uint64_t committed() const override { return inner_.committer()->committed(); }
  uint64_t given_up() const override { return inner_.committer()->given_up(); }
  bool await_commit(Port& port) override { return inner_.committer()->await_commit(port); }
  std::optional<base::Time> advance(Port& port, base::Time now) override {
    return inner_.advance(port, now);
  }
  bool cancel(Port& port, request::Ticket ticket, base::Time now) override {
    return inner_.cancel(port, ticket, now);
  }
  std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                size_t max) override {
    return inner_.catalog().list(space, prefix, max);
  }
  void list_all(ListPass& pass) override { inner_.catalog().list_all(pass); }
  store::Stored list_stored(const request::SpaceIndex& spaces, std::string_view prefix,
                            std::string_view after, size_t max, std::string_view from) override {
    return inner_.catalog().list_stored(spaces, prefix, after, max, from);
  }
  void end_lists() override { inner_.catalog().end_lists(); }
  bool close() override { return inner_.close(); }
  void housekeep(base::Time now) override { inner_.catalog().housekeep(now); }
  size_t purge(base::Time now) override { return inner_.catalog().purge(now); }
  bool mark_named(request::Marks& marks, bool first) override {
    return inner_.catalog().mark_named(marks, first);
  }
  Stats stats() const override { return inner_.catalog().stats(); }
  std::string why_not_ready() const override { return inner_.catalog().why_not_ready(); }
  std::string_view words_of(request::Error error) const override { return inner_.words_of(error); }

 protected:
  Store& inner_;
};

}  // namespace sluice::store::tests
