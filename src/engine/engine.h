// Requests to replies: rules, charges, decisions, verdicts. One per worker, used by its thread
// alone; what it needs for a batch is kept and reused, so that a settled server allocates nothing
// here.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "engine/denials.h"
#include "engine/parking.h"
#include "engine/tally.h"
#include "engine/top_keys.h"
#include "live/live_policy.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"
#include "request/session.h"
#include "store/store.h"

namespace sluice::engine {

class Inquiry;
class Lister;

// What became of a batch.
enum class Served : uint8_t {
  all,    // every request has its reply, or will have it by Recipient::reply_late
  ended,  // the session ends with what was appended; what is behind was neither charged nor
          // answered
  later,  // the next decision comes later: Recipient::go_on says when to `resume`
};

class Engine {
 public:
  // What else it works with; all of it outlives the engine, and its worker's loop does too.
  struct Surroundings {
    store::Store& store;
    base::Clock& clock;
    const live::Live& live;
    Lister* lister = nullptr;                      // null: lists are empty
    Tally* tally = nullptr;                        // null: nothing is counted
    const policy::Overrides* overrides = nullptr;  // null: there are none
    TopKeys* top_keys = nullptr;                   // null: nobody asks for them
    Denials* denials = nullptr;                    // null: none is logged
    std::function<void()> wake{};                  // from any thread: call `advance`
    // From any thread: call that on the worker's own.
    std::function<void(std::function<void()>)> run{};
  };
  Engine(Surroundings&& surroundings, std::shared_ptr<spdlog::logger> log);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Decides the requests in order and appends their replies, but those that come late, to
  // `recipient` (null: nothing waits, so its store decides at once). After `later` the requests are
  // the engine's, what their views point to has to stay, and the recipient has no other batch
  // served before `resume` says that this one is done.
  Served serve(protocol::Protocol protocol, request::Session& session, request::Requests& requests,
               base::Buffer& out, Recipient* recipient = nullptr);
  // Goes on with the recipient's batch.
  Served resume(Recipient& recipient, base::Buffer& out);

  // Gives late replies that are due. Returns when to be called again, if not woken before.
  std::optional<base::Time> advance();
  base::Time now() { return clock_.now(); }
  store::Port& port() { return port_; }

  // store::Store::gate and committed.
  uint64_t gate() const { return store_.gate(strict_); }
  uint64_t committed() const { return store_.committed(); }
  uint64_t given_up() const { return store_.given_up(); }
  // Does the last batch hold a reply that must not leave if it cannot be committed?
  bool strict() const { return strict_; }
  // Has `advance` called when more is committed. False: it has not to wait any more.
  bool await_commit() { return store_.await_commit(port_); }

  // The recipient is gone: nothing is taken for it any more.
  void forget(Recipient& recipient);

  // Has that recipient lists without a reply?
  bool has_lists(Recipient& recipient) const {
    return !lists_.empty() && lists_.contains(&recipient);
  }
  // The recipient has sent its output.
  void continue_lists(Recipient& recipient);
  // The recipient is about to go: its lists end, the rest of what it asked does not.
  void drop_lists(Recipient& recipient);

  // Lets go of a policy that is no longer live; each batch begins so. True: there was a new one.
  bool take_policy();
  // Asks the live policy about what waits under an older one, or was matched before overrides
  // changed; all keep their places. While that goes on it begins anew when it is done. What is of a
  // suspended batch is left to that: once the store keeps it, it is matched again if need be.
  void match_again();

  // Has the store answer an inquiry, now or later.
  void inquire(std::shared_ptr<Inquiry> inquiry);

  // What it keeps for replies that come later. All 0: nothing is left of any request.
  struct Held {
    size_t parked = 0;   // requests that wait for units, and lists
    size_t batches = 0;  // that wait for the store
    size_t later = 0;    // tickets of requests that are to be matched again
    friend bool operator==(const Held&, const Held&) = default;
  };
  Held held() const;
  // Does the store keep the request's group, as far as is known here?
  bool waits(request::Ticket ticket);

 private:
  void match(protocol::Protocol protocol, const request::Requests& requests, size_t first,
             base::Time now, Recipient* recipient);
  void match_all(protocol::Protocol protocol, const request::Requests& requests, size_t first,
                 base::Time now, Recipient* recipient);
  Served go_on(Progress& progress, request::Requests& requests, base::Buffer& out);
  Served suspend(const Progress& progress, request::Requests& requests);
  request::Ticket new_ticket();
  void free_ticket(request::Ticket ticket);
  void recycle(std::unique_ptr<Suspended> suspended);
  void note_strict(const policy::Plan::Part& part);
  bool settle(uint32_t groups, base::Time now, request::Ticket ticket);
  bool settle(uint32_t groups, base::Time now, request::Ticket ticket, bool& later);

  // engine_late.cc: replies and decisions that come later.
  request::Ticket park(protocol::Protocol protocol, const request::Request& request,
                       std::span<const request::Entry> descriptor, Recipient* recipient);
  bool is_outdated(const Parked& parked, base::Time now) const;
  bool is_parked(const policy::Plan::Part& part, request::Ticket ticket, base::Time now);
  base::Time end_of(const policy::Plan::Part& part, base::Time now) const;
  void match_some_again(std::vector<request::Ticket> tickets, size_t done, bool all);
  void take_named();
  void match_ended_again(base::Time now);
  void note_overrides();
  const policy::Overrides* overrides() const;
  void match_again(request::Ticket ticket, base::Time now);
  void match_later(request::Ticket ticket, base::Time at);

  // engine_lists.cc
  struct List;
  struct ListQueue;
  Served start_list(const Progress& progress, const request::Requests& requests,
                    const request::Request& request, base::Buffer& out);
  ListQueue* lists_of(Recipient& recipient);
  void search(ListQueue& queue);
  void on_found(List& list, std::shared_ptr<const std::vector<std::string>> keys, bool failed);
  void continue_lists(ListQueue& queue);
  void read_lists_later();
  void read_some_lists();
  void plan_list(List& list);
  void read_list(List& list);
  void finish_list(List& list, const request::Verdict& verdict, base::Time now);
  void release(List& list);
  void search_crowded();
  void resume_held();
  void forget_lists(Recipient& recipient);

  friend class Inquiry;
  void pursue(Inquiry& inquiry);
  void reply_late(request::Ticket ticket, const request::Verdict& verdict, base::Time now);
  void send_late();
  // Debug lines: of a request by its rules, and of a late reply.
  void tell(protocol::Protocol protocol, request::Verb verb,
            std::span<const request::Entry> descriptor, std::string_view id,
            const policy::Plan::Part& part, std::chrono::steady_clock::time_point began) const;
  void tell_denied(const Progress& progress, request::Verb verb, const policy::Plan::Part& part,
                   const request::Verdict& verdict, uint64_t every) const;
  void tell_late(const Parked& parked, const request::Verdict& verdict, base::Time now) const;

  store::Store& store_;
  base::Clock& clock_;
  const live::Live& live_;
  Lister* const lister_;
  Tally* const tally_;
  const policy::Overrides* const overrides_;
  std::optional<policy::Overrides::Reader> overrides_reader_;
  uint64_t overrides_seen_ = 0;  // their changes, when what is planned was matched, or before
  bool matching_again_ = false, match_once_more_ = false;
  TopKeys* const top_keys_;
  Denials* const denials_;
  const std::function<void(std::function<void()>)> run_;
  const std::function<void()> wake_;
  // Never the last to hold it: the reloader is, so that no worker spends its time on freeing rules.
  std::shared_ptr<const live::LivePolicy> policy_;
  const policy::RuleSet* rules_;  // of policy_
  const std::shared_ptr<spdlog::logger> log_;
  const bool commits_;   // store::Store::commits_first
  bool strict_ = false;  // of the batch that was served last
  policy::Plan plan_;
  const std::shared_ptr<const live::LivePolicy>* pin_ = &policy_;  // of whose rules plan_ is
  uint32_t settled_ = 0;                  // groups of plan_ that the store has answered
  std::vector<request::Ticket> tickets_;  // of the batch, by request; unused where none may wait
  store::Port port_;
  Parking parking_;
  std::vector<store::Settled> late_;
  std::vector<request::Ticket> later_;  // to be matched again at later_at_, each once
  base::Time later_at_{};
  base::Time advanced_{INT64_MIN};      // when `advance` was called, or one was parked, last
  bool watching_ = false;               // `advance` is to come back, as somebody waits
  std::vector<Recipient*> recipients_;  // with late replies that are not sent
  // Batches that wait for the store, by their tickets' slots; null: free, or of the batch that is
  // being served.
  struct Waiting {
    Recipient* recipient = nullptr;
    uint32_t generation = 0;
  };
  std::vector<Waiting> waiting_;
  std::vector<uint32_t> free_slots_;
  // By which the store knows the batch that is being served, if it has to be told of it.
  request::Ticket ticket_ = request::no_ticket;
  std::vector<std::unique_ptr<Suspended>> spare_;  // to be used again
  std::vector<request::Ticket> ready_, ended_;
  std::vector<std::shared_ptr<Inquiry>> inquiries_;  // whose counters the store is asked about
  // Lists without a reply, by who asked for them.
  std::unordered_map<Recipient*, std::shared_ptr<ListQueue>> lists_;
  std::deque<Recipient*> readable_lists_;  // whose next list can be read, in turn; each once
  std::deque<Recipient*> crowded_lists_;   // whose next list waits until others are read
  std::deque<Recipient*> held_lists_;      // whose batch waits for base::bounds::list_bytes_max
  size_t list_bytes_ = 0, found_bytes_ = 0, lists_read_ = 0;
  bool reading_lists_ = false;  // read_some_lists is going to be called
};

}  // namespace sluice::engine
