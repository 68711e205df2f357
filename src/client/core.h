// The client without input and output: calls, connections as states, deadlines, tries. It is given
// what happens on sockets and what time it is, and says what must be done. One lock of its owner
// guards it.
//
// States of a link, one connection to one host:
//
//   idle        not connected, and nothing is due. A call begins a try; if the server has refused
//               the user, a call that comes refused_pause later.
//   waiting     a try is due at `next_try`
//   connecting  the socket connects
//   opening     connected; the codec's handshake is under way
//   ready       requests are written as they come; those that would exceed the bound of the output
//               wait until the socket has taken half of it
//   dead        given up for ever
//
//   idle -> connecting or waiting -> connecting -> opening -> ready;
//   connecting, opening, ready -> waiting, idle or dead, as the dialect's Reconnect says.
#pragma once

#include <sluice/client.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "client/dialect.h"

namespace sluice::calls {

// Lengths of time as requests have them: a decimal number of seconds, to the microsecond. A pure
// function; any thread.

// The longest text.
inline constexpr size_t seconds_text_bytes_max = 32;

// Writes "1.5", "60", "0.00025" at `to`, and returns its end. `length` is 0 or more.
inline char* write_seconds(std::chrono::microseconds length, char* to) {
  constexpr int64_t second = 1'000'000;
  constexpr int digits_max = 6;
  to = std::to_chars(to, to + 20, length.count() / second).ptr;
  int64_t rest = length.count() % second;
  if (rest == 0) return to;
  *to = '.';
  for (int i = digits_max; i > 0; --i) {
    to[i] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  }
  int digits = digits_max;
  while (to[digits] == '0') --digits;
  return to + 1 + digits;
}

// Encoded requests that wait for their connection: for its handshake, or until its socket takes
// more. A plain value of the core's, in the order of the calls. Keeps at most as much memory as
// waited since it was last empty.

class RequestQueue {
 public:
  struct Request {
    uint32_t call;
    std::string_view bytes;  // until the next change of the queue
  };

  bool empty() const { return next_ == entries_.size(); }
  // Where the next request is encoded. `push` makes what was appended a request of `call`.
  base::Buffer& bytes() { return bytes_; }
  void push(uint32_t call) { entries_.push_back({call, bytes_.size()}); }

  // The oldest. The queue is not empty.
  uint32_t front_call() const { return entries_[next_].call; }
  Request front() const {
    return {entries_[next_].call, bytes_.view().substr(begin_, entries_[next_].end - begin_)};
  }
  void pop() {
    begin_ = entries_[next_].end;
    ++next_;
    if (empty())
      clear();
    else if (next_ >= compact_from && next_ >= entries_.size() / 2)
      compact();
  }
  void clear() {
    entries_ = {};
    bytes_ = {};
    next_ = begin_ = 0;
  }

 private:
  static constexpr size_t compact_from = 1024;
  struct Entry {
    uint32_t call;
    size_t end;  // in `bytes_`
  };

  void compact() {
    base::Buffer rest;
    rest.append(bytes_.view().substr(begin_));
    bytes_ = std::move(rest);
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(next_));
    for (Entry& entry : entries_) entry.end -= begin_;
    next_ = begin_ = 0;
  }

  base::Buffer bytes_;
  std::vector<Entry> entries_;
  size_t next_ = 0, begin_ = 0;  // of the oldest: in `entries_`, in `bytes_`
};

// The calls under way: their handlers, what replies they expect, and the times by which they end. A
// plain value of the core's, used under its lock. Once it has grown it allocates nothing for a call
// but what the handler needs.

inline constexpr uint32_t no_index = UINT32_MAX;
inline constexpr base::Time no_time{INT64_MAX};

struct Call {
  // A call that has ended keeps its place until its reply comes, where replies come in order.
  enum class State : uint8_t { free, queued, sent, ended };
  client_handler handler;
  Expected expected;
  State state = State::free;
  bool no_answer = false;
  uint32_t generation = 0, link = no_index;
  uint32_t next = no_index, previous = no_index;  // of its link
  base::Time begun{};
  std::unique_ptr<OwnedRequest> request;  // for a stand-in

  bool is_under_way() const { return state == State::queued || state == State::sent; }
};

class CallTable {
 public:
  Call& operator[](uint32_t index) { return calls_[index]; }
  const Call& operator[](uint32_t index) const { return calls_[index]; }
  size_t used() const { return used_; }

  uint32_t add() {
    uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<uint32_t>(calls_.size());
      calls_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    ++used_;
    ++calls_[index].generation;
    return index;
  }
  void remove(uint32_t index) {
    Call& call = calls_[index];
    call.state = Call::State::free;
    call.handler = nullptr;
    call.request.reset();
    free_.push_back(index);
    --used_;
  }

  client_call_id id_of(uint32_t index) const {
    return uint64_t{calls_[index].generation} << 32 | (index + 1);
  }
  // no_index: no call of that name is under way.
  uint32_t find(client_call_id id) const {
    const uint64_t place = id & UINT32_MAX;
    if (place == 0 || place > calls_.size()) return no_index;
    const auto index = static_cast<uint32_t>(place - 1);
    const Call& call = calls_[index];
    return call.is_under_way() && call.generation == id >> 32 ? index : no_index;
  }
  // Calls `visit(index)` for all that are under way; it may end them.
  template <class Visit>
  void each_under_way(Visit visit) {
    for (uint32_t i = 0; i < calls_.size(); ++i)
      if (calls_[i].is_under_way()) visit(i);
  }

 private:
  std::vector<Call> calls_;
  std::vector<uint32_t> free_;
  size_t used_ = 0;
};

// Deadlines. Most calls have one of a few lengths, each of which has a queue; those of further
// lengths (a caller's remaining time) are in a heap, so that a new length costs its logarithm.
class Deadlines {
 public:
  // A time past the last one that can be represented never comes.
  void add(base::Duration timeout, base::Time now, client_call_id id) {
    if (timeout.us > INT64_MAX - std::max<int64_t>(now.us, 0)) return;
    const Entry entry{{now.us + timeout.us}, id};
    if (Queue* const queue = queue_of(timeout)) {
      queue->entries.push_back(entry);
      return;
    }
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  // Calls `visit(id)` for each that has passed. `calls`: tells which still matter.
  template <class Visit>
  void pass(base::Time now, const CallTable& calls, Visit visit) {
    for (Queue& queue : queues_) {
      while (!queue.entries.empty()) {
        const auto [time, id] = queue.entries.front();
        const bool matters = calls.find(id) != no_index;
        if (matters && time > now) break;
        queue.entries.pop_front();
        if (matters) visit(id);
      }
      if (queue.entries.size() > 2 * calls.used() + compact_above) compact(queue.entries, calls);
    }
    while (!heap_.empty()) {
      const auto [time, id] = heap_.front();
      const bool matters = calls.find(id) != no_index;
      if (matters && time > now) break;
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
      if (matters) visit(id);
    }
    if (heap_.size() > 2 * calls.used() + compact_above) {
      compact(heap_, calls);
      std::make_heap(heap_.begin(), heap_.end(), later);
    }
  }
  base::Time next() const {
    base::Time first = heap_.empty() ? no_time : heap_.front().first;
    for (const Queue& queue : queues_)
      if (!queue.entries.empty() && queue.entries.front().first < first)
        first = queue.entries.front().first;
    return first;
  }

 private:
  static constexpr size_t compact_above = 4096, queues_max = 8;
  using Entry = std::pair<base::Time, client_call_id>;
  struct Queue {
    base::Duration timeout;
    std::deque<Entry> entries;
  };

  static bool later(const Entry& a, const Entry& b) { return b.first < a.first; }

  // Null: all queues are of other lengths.
  Queue* queue_of(base::Duration timeout) {
    Queue* empty = nullptr;
    for (Queue& queue : queues_) {
      if (queue.timeout == timeout) return &queue;
      if (queue.entries.empty()) empty = &queue;
    }
    if (queues_.size() < queues_max) return &queues_.emplace_back(Queue{timeout, {}});
    if (empty != nullptr) empty->timeout = timeout;
    return empty;
  }
  template <class Entries>
  static void compact(Entries& entries, const CallTable& calls) {
    Entries kept;
    for (const Entry& entry : entries)
      if (calls.find(entry.second) != no_index) kept.push_back(entry);
    entries.swap(kept);
  }

  std::vector<Queue> queues_;
  std::vector<Entry> heap_;
};

// The bytes that came and were not consumed.
class Inbox {
 public:
  // What it keeps while nothing is in it.
  static constexpr size_t kept_bytes = 256 << 10;

  char* room(size_t bytes);
  void add(size_t bytes) { end_ += bytes; }
  void consume(size_t bytes) { begin_ += bytes; }
  void clear() { begin_ = end_ = 0; }
  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }

 private:
  std::vector<char> bytes_;
  size_t begin_ = 0, end_ = 0;
};

struct Link {
  enum class Phase : uint8_t { idle, waiting, connecting, opening, ready, dead };
  uint32_t host = 0;
  bool is_for_waits = false;  // each carries one wait at a time
  Phase phase = Phase::idle;
  std::unique_ptr<Codec> codec;
  base::Buffer out;
  size_t written = 0;      // of `out`
  size_t codec_bytes = 0;  // of `out`, at most: the codec's answers to the server, as pongs
  bool has_write_action = false;
  bool was_understood = false;  // the codec has read a part of what came
  Inbox in;
  uint32_t first = no_index, last = no_index;  // its calls, oldest first
  size_t calls = 0;
  // Requests of calls that wait for `ready`, or for the socket to take what is in `out`. They are
  // behind all calls that were sent.
  RequestQueue queue;
  // Tries.
  unsigned tries = 0;
  base::Duration wait{}, wait_before{};
  base::Time next_try{}, ended{INT64_MIN / 2}, phase_since{}, last_read{}, last_written{};
  std::string refusal;  // why the server has refused the user in the last try; empty: it has not

  size_t unwritten() const { return out.size() - written; }
  // Whether its oldest call was sent.
  bool has_sent() const {
    return first != no_index && (queue.empty() || first != queue.front_call());
  }
};

class Core {
 public:
  struct Action {
    enum class Kind : uint8_t { connect, close, write };
    Kind kind;
    uint32_t link;
  };
  struct Completed {
    client_handler handler;
    client_result result;
    client_call_report report;
    std::unique_ptr<OwnedRequest> request;  // the stand-in decides it
  };

  // A try that takes longer has failed.
  static constexpr base::Duration attempt_max = base::seconds(10);
  // No try for so long after the server has refused the user.
  static constexpr base::Duration refused_pause = base::seconds(10);
  // The longest reply.
  static constexpr size_t reply_bytes_max = size_t{16} << 20;

  // `seed`: of what is drawn; 0: the system's entropy.
  Core(const Dialect& dialect, std::vector<Target> hosts, const client_options& options,
       base::Time now, uint64_t seed = 0);

  client_call_id submit(const client_request& request, client_handler&& handler,
                        const client_call_options& options, base::Time now);
  bool cancel(client_call_id id, base::Time now);
  // All calls end with `closed`, those that come later too.
  void close(base::Time now);

  // Deadlines that have passed and tries that are due.
  void tick(base::Time now);
  // When `tick` has something to do; no_time: never.
  base::Time next_time() const;

  // What a socket of a link did. None may be reported for a link without a socket.
  void on_connected(uint32_t link, base::Time now);
  // The try failed, or the connection ended: `text` says why.
  void on_failed(uint32_t link, const std::string& text, base::Time now);
  char* read_room(uint32_t link, size_t bytes) { return links_[link]->in.room(bytes); }
  void on_read(uint32_t link, size_t bytes, base::Time now);
  // What a write action is about, and whenever the socket has become writable.
  std::string_view output(uint32_t link);
  void on_written(uint32_t link, size_t bytes, base::Time now);
  // What is in memory of it, with what was written and not yet dropped.
  size_t output_bytes(uint32_t link) const { return links_[link]->out.size(); }

  const Target& target(uint32_t link) const { return hosts_[links_[link]->host]; }
  Link::Phase phase(uint32_t link) const { return links_[link]->phase; }
  size_t link_count() const { return links_.size(); }
  size_t ready_links() const;
  size_t pending() const { return calls_.used(); }

  // What must be done, in order, and what ended, for the owner to take.
  std::vector<Action>& actions() { return actions_; }
  std::vector<Completed>& completed() { return completed_; }
  std::vector<client_connection_report>& reports() { return reports_; }

 private:
  class LinkReplies;

  client_call_id submit_to_all(const client_request& request, client_handler&& handler,
                               const client_call_options& options, base::Time now);
  client_call_id submit_to(size_t host_first, size_t host_end, const client_request& request,
                           client_handler&& handler, const client_call_options& options,
                           base::Time now);
  bool may_send(const Link& link) const;
  base::Done encode(const client_request& request, uint32_t link, uint32_t index);
  client_call_id end_at_once(const client_request& request, client_handler&& handler,
                             client_errc error, std::string text, base::Time now);
  std::optional<base::Duration> timeout_of(const client_request& request,
                                           const client_call_options& options) const;
  uint32_t add_link(uint32_t host, bool is_for_waits);
  bool is_refused(const Link& link) const;
  const std::string* refusal_of(size_t host_first, size_t host_end) const;
  uint32_t pick(size_t host_first, size_t host_end);
  uint32_t pick_for_wait(size_t host_first, size_t host_end);
  void start(base::Time now);
  void demand(uint32_t link, base::Time now);
  void demand_refused(size_t host_first, size_t host_end, base::Time now);
  void begin_try(uint32_t link, base::Time now);
  void open(uint32_t link);
  void send_queued(uint32_t link);
  void end_link(uint32_t link, client_errc error, const std::string& text, base::Time now);
  void plan_next_try(uint32_t link, base::Time now);
  base::Duration drawn_from(base::Duration wait);
  void append_call(uint32_t link, uint32_t index);
  void remove_call(uint32_t index);
  void end_call(uint32_t index, client_result&& result, bool keeps_place);
  void end_calls(uint32_t link, client_errc error, const std::string& text);
  void give_up_call(uint32_t index, client_errc error, const char* text, base::Time now);
  void want_write(uint32_t link);
  base::Time stall_time(const Link& link) const;
  void check_stall(uint32_t link, base::Time now);
  void report(client_connection_report::event what, uint32_t link, std::string text);
  uint32_t entropy();

  const Dialect& dialect_;
  const std::vector<Target> hosts_;
  const client_options& options_;
  const size_t pending_max_;
  const std::unique_ptr<Sharder> sharder_;
  std::vector<std::unique_ptr<Link>> links_;
  CallTable calls_;
  Deadlines deadlines_;
  std::vector<Action> actions_;
  std::vector<Completed> completed_;
  std::vector<client_connection_report> reports_;
  std::vector<std::string_view> words_;  // of encode
  std::string text_;
  uint64_t random_;
  base::Time now_{};
  bool started_ = false, closed_ = false;
};

}  // namespace sluice::calls
