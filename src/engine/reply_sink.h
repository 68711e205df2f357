// Receives the replies of one session that come later than its batch. A connection is one; it calls
// Engine::forget before it goes. Called on the worker's thread alone.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "engine/batch.h"
#include "request/peer.h"
#include "request/session.h"
#include "request/unmatched.h"

namespace sluice::engine {

class ReplySink : public BatchOwner {
 public:
  // Takes a late reply, and sends it at the next `flush_late` at the latest.
  virtual void reply_late(const request::Request& request, const request::Verdict& verdict,
                          base::Time now) = 0;
  // Sends the late replies. needs_commit: one of them must not be sent if its decision cannot be
  // committed.
  virtual void flush_late(bool needs_commit) = 0;
  // Is there output that it has not sent yet? While there is, none of its lists is begun or read;
  // once all is sent it calls Engine::continue_lists.
  virtual bool has_unsent() const { return false; }
  // Is it about to go? Then no list is made for it.
  virtual bool is_leaving() const { return false; }
  // All of its lists have their replies.
  virtual void on_lists_done() {}

  // The answer to takes and waits that no rule matches.
  request::Unmatched unmatched() const { return unmatched_; }
  // Where such takes and waits are reported; null: nowhere.
  const request::ListenerView* listener() const { return listener_; }

 protected:
  void set_unmatched(request::Unmatched unmatched) { unmatched_ = unmatched; }
  void set_listener(const request::ListenerView* listener) { listener_ = listener; }

 private:
  friend class PendingReplies;
  friend class LateReplies;
  friend class Engine;
  std::vector<Batch*> suspended_;  // its batches that wait for the store, or for room for a list
  std::set<uint32_t> pending_;     // slots of its PendingReplies
  request::Unmatched unmatched_ = request::Unmatched::as_protocol;
  const request::ListenerView* listener_ = nullptr;
  bool has_replies_ = false;   // it is among those with late replies to send
  bool needs_commit_ = false;  // one of these replies has needs_commit set
};

}  // namespace sluice::engine
