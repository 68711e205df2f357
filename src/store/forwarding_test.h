// A store that forwards every call to another one. Tests put it between an engine and its store,
// and override the calls that they observe or change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace sluice::store::tests {

class Forwarding : public Store, public Committer, public Catalog {
 public:
  explicit Forwarding(Store& inner)
      : Store(*this, inner.committer() == nullptr ? nullptr : this), inner_(inner) {}

  void attach(CompletionQueue& completions, net::Loop* loop) override {
    inner_.attach(completions, loop);
  }
  Applied apply(const request::Batch& batch, base::Time now, CompletionQueue* completions,
                const Pin& pin, request::Ticket ticket) override {
    return inner_.apply(batch, now, completions, pin, ticket);
  }
  void abandon(CompletionQueue& completions, request::Ticket ticket) override {
    inner_.abandon(completions, ticket);
  }
  bool commits_first() const override { return inner_.committer()->commits_first(); }
  uint64_t commit_seq(bool needs_commit) const override {
    return inner_.committer()->commit_seq(needs_commit);
  }
  uint64_t durable_seq() const override { return inner_.committer()->durable_seq(); }
  uint64_t failed_seq() const override { return inner_.committer()->failed_seq(); }
  bool await_commit(CompletionQueue& completions) override {
    return inner_.committer()->await_commit(completions);
  }
  std::optional<base::Time> advance(CompletionQueue& completions, base::Time now) override {
    return inner_.advance(completions, now);
  }
  bool cancel(CompletionQueue& completions, request::Ticket ticket, base::Time now) override {
    return inner_.cancel(completions, ticket, now);
  }
  std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                size_t max) override {
    return inner_.catalog().list(space, prefix, max);
  }
  void list_all(ListPass& pass) override { inner_.catalog().list_all(pass); }
  store::ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                            std::string_view after, size_t max, std::string_view from) override {
    return inner_.catalog().scan_page(spaces, prefix, after, max, from);
  }
  void end_lists() override { inner_.catalog().end_lists(); }
  bool close() override { return inner_.close(); }
  void housekeep(base::Time now) override { inner_.catalog().housekeep(now); }
  size_t purge(base::Time now) override { return inner_.catalog().purge(now); }
  bool mark_named(request::Marks& marks, bool first) override {
    return inner_.catalog().mark_named(marks, first);
  }
  Stats stats() const override { return inner_.catalog().stats(); }
  KindFigures kind_figures() const override { return inner_.catalog().kind_figures(); }
  std::string why_not_ready() const override { return inner_.catalog().why_not_ready(); }
  std::string why_degraded() const override { return inner_.catalog().why_degraded(); }
  std::string_view message_for(request::Error error) const override {
    return inner_.message_for(error);
  }

 protected:
  Store& inner_;
};

}  // namespace sluice::store::tests
