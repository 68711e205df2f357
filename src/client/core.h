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

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "client/call_table.h"
#include "client/dialect.h"
#include "client/owned_request.h"
#include "client/request_queue.h"

namespace sluice::calls {

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

// More than twenty members: the connection, its calls, and its tries, which end together.
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
