// One worker's part of the Redis store: its connections, the batches that wait for answers, and the
// groups that wait for units. Made when the worker attaches; belongs to its thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "redis/links.h"
#include "redis/queues.h"
#include "redis/script_call.h"
#include "redis/shared.h"
#include "request/charge.h"
#include "store/store.h"

namespace sluice::redis {

// What a reserve that waits asks Redis in place of a take of its charges (redis_holds.h). For one
// worker; calls after its book has gone are not made.
class HeldAsk {
 public:
  virtual ~HeldAsk() = default;
  // The call, in RESP with the hash of `script`. `ahead`: of each of its charges with a counter;
  // empty: nothing.
  virtual std::string call(std::span<const int64_t> ahead, base::Time now,
                           const Script*& script) = 0;
  // again: `call` says another call. answered: it is held, or there is nothing to wait for.
  enum class Said : uint8_t { again, refused, answered, nonsense };
  // Reads an answer, with the decisions of these charges, which have a counter.
  virtual Said read(std::string_view text, std::span<request::Charge> charges,
                    std::span<limit::Decision> decisions, base::Time now) = 0;
  // Nobody waits any more: what it holds is given back. is_sure: it was answered; else it may be
  // held.
  virtual void give_back(bool is_sure) = 0;
};

class WorkerClient final : LinkOwner {
 public:
  // The arguments outlive the client.
  WorkerClient(Shared& shared, store::CompletionQueue& completions, net::Loop& loop, uint64_t seed);
  ~WorkerClient() override;
  WorkerClient(const WorkerClient&) = delete;
  WorkerClient& operator=(const WorkerClient&) = delete;

  store::Applied apply(const request::Batch& batch, base::Time now, const store::Pin& pin,
                       request::Ticket ticket);
  void abandon(request::Ticket ticket);
  std::optional<base::Time> advance(base::Time now);
  bool cancel(request::Ticket ticket);
  // Of a call about holds, what its caller knows it by. slot: in Redis Cluster, of its keys.
  // goes_along: it has one key, so that it may be executed where its slot is just moving to.
  struct TextStep {
    uint32_t at = 0;
    uint16_t slot = 0;
    bool goes_along = false;
    uint64_t token = 0;
  };
  // A call of a script about holds, in RESP with the script's hash. Its answer is named by the
  // ticket, like that of a batch, which has no other call under way. Not `none`: nothing was sent.
  request::Error ask_text(request::Ticket ticket, const Script& script, std::string call,
                          const TextStep& step, base::Time now);
  // What has come of it.
  struct TextAnswer {
    enum class What : uint8_t { none, later, text, error } what = What::none;
    request::Error error = request::Error::none;
    std::string text{};
    const Script* script = nullptr;  // that was called
    TextStep step{};
    uint32_t times = 0;  // how many calls the ticket had so far, with this one
  };
  TextAnswer text_answer(request::Ticket ticket, base::Time now);
  // Parks a group that may wait and was refused, which asks by `hold`. False: there is no room.
  bool park(request::Group& group, const request::Batch& batch, base::Time now,
            const store::Pin& pin, std::shared_ptr<HeldAsk> hold);
  // Is the parked group being asked about just now?
  bool is_asking(request::Ticket ticket) const;
  // Replaces the group that is parked under its ticket. False: that one has its answer already.
  bool park_again(request::Group& group, const request::Batch& batch, const store::Pin& pin);
  const Links& links() const { return first_; }
  // The links to the second Redis; null: there is none.
  const Links* second_links() const { return second_.get(); }

 private:
  // The answer for one group.
  struct Answer {
    // late: the client's deadline has passed.
    // across: settled over several slots; `at` is the number of the AcrossGroup.
    enum class What : uint8_t { nothing, awaited, text, error, late, across } what = What::nothing;
    request::Error error = request::Error::none;
    Weight weight = Weight::light;  // of the script that was called
    bool by_text = false;           // sent with the script's text
    bool plain = false;             // sent as a plain command
    bool nil = false;
    bool second = false;        // sent to the second Redis
    uint32_t redirects = 0;     // how often it was sent on to another node, without progress
    uint32_t link = 0;          // the link that it was sent on
    uint32_t ask_link = 0;      // the link for one command (ASK), in place of its slot's; 0: none
    uint32_t at = 0, size = 0;  // its text, in Pending::texts
    base::Time asked{};
  };
  // What an answer belongs to (Sender::kind): a batch, a waiting group, the expiry of a key, a
  // probe of a command that Redis may not know, an ASKING, units that were given back, one slot's
  // part of a group over several slots, and the undo of such a part.
  static constexpr uint32_t kind_batch = 1, kind_waiting = 2, kind_life = 3, kind_probe = 4,
                            kind_asking = 5, kind_given = 6, kind_across = 7, kind_undo = 8;

  // Is there a copy of the command in Link::sent_on?
  static bool has_copy(const Link& link, const Sender& sender) {
    return sender.kind == kind_undo ||
           ((sender.kind == kind_life || sender.kind == kind_given) && link.topology.has_slots());
  }
  // How an undo was sent (Sender::serial): with the script's text, behind ASKING, once more by its
  // hash behind another undo with the text. Sender::slot has its units, Sender::index its
  // redirects.
  static constexpr uint32_t undo_by_text = 1, undo_asked = 2, undo_behind = 4;

  // Where a group is sent. `unknown`: no primary is known for its counters. `two_redis`,
  // `two_slots`: its counters are apart, so they cannot be settled in one step.
  struct Route {
    enum class What : uint8_t { to, unknown, two_redis, two_slots } what = What::unknown;
    Links* links = nullptr;
    Link* link = nullptr;
  };
  // The time by which a group's client needs the answer (request::Group::answer_by).
  struct AnswerBy {
    int64_t due_us;
    uint32_t slot, serial, index;
    // For a heap with the earliest time on top.
    friend bool operator<(const AnswerBy& a, const AnswerBy& b) { return a.due_us > b.due_us; }
  };

  // An answer that names another node, for a command that was sent on so often that a pause comes
  // before it is sent on again. Its request still awaits it.
  struct Paused {
    Link* link;
    Sender sender;
    std::string text;
    std::string command;  // as in take_answer
  };

  // A batch that waits for answers.
  struct Pending {
    bool open = false;
    uint32_t generation = 0, serial = 0;
    size_t done = 0;     // groups that were answered to the caller
    size_t awaited = 0;  // answers that are still missing
    // a command was sent that may write: looks in later groups must come after it
    bool wrote = false;
    std::vector<Answer> answers;
    std::string texts;
    const Script* script = nullptr;  // of a call whose answer its caller reads
    std::string call;                // that call
    TextStep step{};
    uint32_t calls = 0;
  };

  // A waiting group's charges, with all that they point to.
  struct WantedGroup {
    store::Pin pin;
    std::vector<std::string> keys;
    // The limits of the charges, in order. Copied, as limits that came with a request end with its
    // batch, as do `costs` and `overdrafts`.
    std::vector<limit::Limit> limits;
    std::vector<int64_t> costs;  // for each of these limits
    std::vector<limit::Overdrafts> overdrafts;
    std::vector<request::Charge> charges;
    std::vector<limit::Decision> decisions;
    request::OnError on_error = request::OnError::error;
  };
  struct Waiting {
    request::Ticket ticket;
    Queues::Place place;  // in `queue`; its number is its arrival
    WantedGroup wanted;
    std::shared_ptr<HeldAsk> hold;  // of a reserve
    // the same request matched by newer rules, which came while Redis was asked
    std::unique_ptr<WantedGroup> next;
    size_t at = 0;               // the charge whose counter it queues for
    std::string queue;           // the counter; empty: it stands aside
    int64_t due_us = INT64_MAX;  // its time in due_, if any
    uint32_t serial = 0;
    Weight weight = Weight::light;
    bool asked = false, by_text = false;
    uint32_t redirects = 0, link = 0, ask_link = 0;  // as in Answer
    base::Time asked_at{};
    bool called = false;     // while Redis was asked it came to the front, or units came back
    bool cancelled = false;  // its answer is dropped
  };

  // A group whose counters are in several slots. Its parts, one for each slot, are settled one
  // after the other in the order of the slots.
  struct AcrossGroup {
    struct SlotPart {
      uint16_t slot = 0;
      uint32_t first = 0, count = 0;  // in `charges`
      bool allowed = false;
      std::string receipt;  // of what was taken
    };
    uint32_t id = 0;
    bool waits = false;  // a Waiting asks, which is in asked_ under `id`
    Sender batch{};      // else: the answer that it becomes
    Queues::Place place;
    Links* links = nullptr;
    std::unique_ptr<WantedGroup> wanted;
    std::vector<request::Charge> charges;  // those with a counter, in the order of the slots
    std::vector<SlotPart> parts;
    size_t at = 0;  // of the parts: the one that is asked for
    bool hold = false, refused = false, is_shadow = false;
    std::optional<request::ChargeId> charge_id;
    std::string id_name;
    request::Known known = request::Known::yes;  // of the parts so far
    Weight weight = Weight::light;
    bool by_text = false;
    uint32_t redirects = 0, link = 0, ask_link = 0;
    base::Time asked{}, due{};
  };

  Pending& pending_of(request::Ticket ticket, size_t groups, bool& fresh);
  request::Error send_text(Pending& pending, uint32_t slot, bool by_text);
  void ask(const request::Batch& batch, size_t i, Pending& pending, uint32_t slot, base::Time now,
           const store::Pin& pin);
  store::Applied hand_out(const request::Batch& batch, Pending& pending, uint32_t slot,
                          base::Time now, const store::Pin& pin, request::Ticket ticket);
  bool read_group(const request::Batch& batch, size_t i, Pending& pending, Answer& answer);
  void fail(const request::Batch& batch, size_t i, request::Error error, base::Time now,
            const store::Pin& pin);
  bool settle_without(const request::Batch& batch, request::Group& group, base::Time now,
                      bool& hold);
  static request::Error trouble(const Link& link);
  static request::Error why_not_sent(const Link* link);
  void on_answer(Link& link, const Sender& sender, Reply reply, std::string_view text) override;
  bool on_late(Link& link, const Sender& sender) override;
  void on_lost(Link& link, const Sender& sender) override;
  void on_change(Link& link) override;
  void on_news(Link& link, bool good, const std::string& text) override {
    shared_.tell(link.topology, good, text);
  }
  void take_answer(Link& link, const Sender& sender, Reply reply, std::string_view text,
                   const std::string& command);
  Answer* awaited(const Sender& sender);
  void settled(const Sender& sender);
  void give_up_late(base::Time now);
  // Counters that are known to refuse, and Redis's own refusals.
  bool refuse_remembered(const request::Batch& batch, const request::Group& group, base::Time now);
  void remember(const request::Batch& batch, const request::Group& group, base::Time asked);
  request::Error refusal_of(const Links& links, std::string_view text,
                            std::span<const request::Charge> charges, base::Time asked);
  bool read_plain_group(const request::Batch& batch, request::Group& group, Answer& answer,
                        std::string_view text);
  std::span<const request::Charge> counted_of(std::span<const request::Charge> charges);
  std::span<const int64_t> ahead_of(std::span<const request::Charge> charges, Queues::Place place);

  // Chooses a group's connection, and sends commands on.
  Route route_of(std::span<const request::Charge> charges, base::Time now, bool looks = false);
  static const request::ChargeId* id_for(const request::ChargeId* id,
                                         std::span<const request::Charge> charges,
                                         const Topology& topology);
  void say_apart(Route::What what);
  Links& links_of(const Link& link);
  Links& links_of(const Answer& answer) { return answer.second ? *second_ : first_; }
  bool is_redirected(Links& links, std::string_view text, uint32_t link, uint32_t& redirects,
                     uint32_t& ask_link);
  void leave_node(Links& links, uint32_t link);
  void send(Link& link, const ScriptCall& what, Weight& weight, bool by_text, bool asking,
            const Sender& sender, base::Time due);
  void send_plain(Link& link, const ScriptCall& what, bool asking, const Sender& sender,
                  base::Time due);
  void say_asking(Link& link, bool asking, base::Time due);
  void send_life(Link& link, const ScriptCall& what, bool renews, bool asking, base::Time due);
  void on_life(Link& link, const Sender& sender, Reply reply, std::string_view text,
               const std::string& command);
  void on_life_lost(Link& link, const Sender& sender);
  bool send_on(Link& link, const Sender& sender, std::string_view text, const std::string& command);
  uint32_t redirects_of(const Sender& sender);
  bool pause(Link& link, const Sender& sender, std::string_view text, const std::string& command);
  void end_pauses(base::Time now);

  // Groups over several slots.
  bool settles_across(const Route& route, std::span<const request::Charge> charges) const;
  AcrossGroup& add_across(const request::Group& group, const request::Batch& batch,
                          const Route& route, base::Time now, const store::Pin& pin);
  request::Error begin_across(AcrossGroup& across);
  request::Error ask_part(AcrossGroup& across);
  void on_across_answer(Link& link, AcrossGroup& across, Reply reply, std::string_view text);
  bool part_is_decided(AcrossGroup& across, std::string_view text, request::Error& error);
  void part_is_lost(AcrossGroup& across, request::Error error);
  bool is_wanted(const AcrossGroup& across);
  void go_on_across(AcrossGroup& across, request::Error error);
  void finish_across(AcrossGroup& across, request::Error error, bool lost = false);
  void drop_across(uint32_t id);
  void undo(AcrossGroup& across, bool refused);
  void undo_part(AcrossGroup& across, const AcrossGroup::SlotPart& part, std::string_view receipt);
  void on_undo(Link& link, const Sender& sender, Reply reply, std::string_view text,
               const std::string& call);
  void on_undo_lost(Link& link, const Sender& sender);
  bool send_undo_again(Link& link, const Sender& sender, std::string_view text,
                       const std::string& call);
  void take_over(const AcrossGroup& across, const request::Batch& batch, request::Group& group);

  // Decides by this server's own table and its share of the limits.
  void decide_here(const request::Batch& batch, request::Group& group, base::Time now,
                   const store::Pin& pin);

  // Groups that wait for units.
  void park(request::Group& group, const request::Batch& batch, base::Time now,
            const store::Pin& pin);
  static std::unique_ptr<WantedGroup> wanted_of(const request::Group& group,
                                                const request::Batch& batch, const store::Pin& pin);
  Queues::Place place_of(const Waiting& waiting) const;
  void enqueue(Waiting& waiting, base::Time now);
  void enqueue_anew(Waiting& waiting);
  int64_t look_again() const;
  void schedule(Waiting& waiting, int64_t due_us);
  void see(base::Time now);
  void look_at(Waiting& waiting, base::Time now);
  bool granted_here(Waiting& waiting, base::Time now);
  void ask_waiting(Waiting& waiting, base::Time now);
  Route route_of(const Waiting& waiting);
  bool may_ask(const Waiting& waiting);
  bool all_take(Links& links, std::span<const request::Charge> charges);
  void ask_waiting_across(Waiting& waiting, const Route& route, const request::Group& group,
                          bool hold, base::Time now);
  void on_waiting_answer(Link& link, const Sender& sender, Reply reply, std::string_view text);
  void on_waiting_across(const AcrossGroup& across, request::Error error, bool lost, bool allowed);
  void on_waiting_decided(Waiting& waiting, ScriptReply said, bool allowed);
  void on_waiting_refused(Waiting& waiting, request::Error error);
  void on_waiting_lost(Waiting& waiting, request::Error error);
  static void take_next(Waiting& waiting);
  void answer(Waiting& waiting, request::Error error, base::Time now);
  void erase(Waiting& waiting);
  void give_back(Waiting& waiting);
  void brought(std::span<const request::Charge> charges);
  static uint64_t key(request::Ticket t) { return uint64_t{t.generation} << 32 | t.slot; }

  Shared& shared_;
  store::CompletionQueue& completions_;
  uint32_t link_ids_ = 0;
  Links first_;
  std::unique_ptr<Links> second_;
  LimitTexts texts_;
  std::vector<Pending> pending_;  // by slot of the ticket
  uint32_t serial_ = 0;
  base::Time now_{};
  std::vector<request::Charge> counted_;
  std::vector<int64_t> ahead_;
  std::string key_;
  std::minstd_rand random_;
  std::vector<AnswerBy> answers_by_;                                // a heap
  int64_t timer_us_ = INT64_MAX;                                    // the next call of `advance`
  std::unordered_map<uint64_t, std::unique_ptr<Waiting>> waiting_;  // by ticket
  std::unordered_map<uint64_t, Waiting*> by_arrival_;
  std::unordered_map<uint32_t, Waiting*> asked_;  // by serial
  // When waiting groups must be looked at, with their arrivals. Groups that are not the first of
  // their queue may be missing.
  std::set<std::pair<int64_t, uint64_t>> due_;
  std::vector<uint64_t> called_;
  std::unordered_map<uint32_t, std::unique_ptr<AcrossGroup>> across_;  // by their numbers
  std::multimap<int64_t, Paused> paused_;                              // by the pause's end
  std::string command_;
};

}  // namespace sluice::redis
