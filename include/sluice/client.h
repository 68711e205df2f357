/// @file
/// A client of a sluice server for C++ programs, over every protocol that such a server speaks.
/// C++17 or later; C++20 adds awaitable calls. Link `sluice-client`.
///
///     sluice::client client("resp://127.0.0.1:6380");
///     sluice::client_request request;
///     request.subject.key = "user:17";
///     request.subject.limits = {{100, std::chrono::minutes(1)}};
///     if (client.call(request).is_allowed()) ...
///
/// - **Addresses.** `divvy://`, `limitd://`, `ws://` (droplet's protocol), `resp://` or `redis://`,
///   `http://`, each `SCHEME://[USER:TOKEN@]HOST[:PORT]`; several hosts are separated by commas.
///   USER and TOKEN (resp and http alone) may hold %XX. What each protocol can say is in
///   docs/client.md; what it cannot is refused by client_errc::bad_request, and nothing is sent.
/// - **TLS.** An `s` at the end of the scheme asks for it: `https://`, `rediss://`, `wss://`,
///   `divvys://`, `limitds://`. The server's certificate must be by an authority that the system or
///   client_options::tls trusts, and for HOST; there is no way to skip this. The handshake is part
///   of connecting, so deadlines and tries hold for it.
/// - **Calls.** A call ends exactly once, with a client_result: by a handler, a future, an awaited
///   coroutine, or as the value of call(). It is never sent a second time, since a take that is
///   sent twice may be counted twice. Handlers must not throw.
/// - **Threads.** Every member may be called by any thread at a time, except for constructors and
///   the destructor. The client has no thread unless client_options::own_thread asks for one:
///   calls go on, deadlines pass and handlers run inside poll(). One thread polls at a time.
///   Another one waits for its turn: call() until its own call has ended, poll() until its timeout
///   passes or the first thread has called handlers. A handler may call everything of its client
///   but call(), poll(), close() and the destructor.
/// - **Foreign loops.** descriptor() is readable whenever poll(0) has something to do.
/// - **Names.** Host names are looked up by the system's resolver inside poll(), each time that a
///   connection is opened, and then the files of client_options::tls are read. Give addresses in
///   digits where poll() must not wait for a name server.
/// - **When the server is away.** A take or a wait that fails because the server is away, silent,
///   slow, or breaks its protocol (see is_unavailable) is answered as
///   client_options::on_unavailable says, or by client_options::stand_in. Other calls, and takes
///   where neither is set, end with the error.
/// - **Users.** Where the server does not accept the address's user and token, calls end with
///   client_errc::refused, which on_unavailable does not cover. Over resp the client then tries no
///   more by itself: a call that comes 10 s later or more does.
/// - **Bounds.** client_options::pending_max calls are under way at a time; the next one fails with
///   client_errc::backlog. Of the requests that a connection's socket has not taken, 1 MiB and one
///   request are written ahead; the others wait, and are not sent once their calls have ended. A
///   reply has at most 16 MiB.
/// - **Errors.** Values. Constructors throw std::invalid_argument where an address cannot be read
///   or a file of TLS cannot be used, std::system_error where the system has no descriptor left,
///   and std::runtime_error where shards are asked for and OpenSSL has no MD5. Allocation may throw
///   std::bad_alloc from any function.
/// - **fork().** A child must neither use nor destroy a client of its parent.
#ifndef SLUICE_CLIENT_H
#define SLUICE_CLIENT_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#if defined(__cpp_impl_coroutine)
#include <coroutine>
#endif

/// Of what the libraries export.
#define SLUICE_API __attribute__((visibility("default")))

namespace sluice {

// ---- Requests ----

/// The operation on counters.
enum class client_verb : unsigned char {
  take,   ///< units now, or none: `HIT`, `TAKE`
  wait,   ///< units once they are there
  peek,   ///< how a take would end, or the state of the counter; takes nothing: `GET`, a query
  put,    ///< units back
  reset,  ///< counters as fresh
  list,   ///< counters whose keys begin with the subject's key: `STATUS`
  ping,   ///< is the server there?
  /// resp and http: client_request::words, whatever they mean there. The answer is
  /// client_result::reply, as the server sent it.
  command,
  /// resp and http: units that were used, counted past the limit too. Never refused: a limit that
  /// lacks units is in debt then (client_result::over), and refuses until it has them again.
  charge,
  /// http, as are the next four: units now, or none, for a while (client_request::ttl), under
  /// client_request::id or the one that the server makes (client_result::id).
  reserve,
  extend,   ///< of a reservation: more units, or none; and another end
  renew,    ///< of a reservation: another end
  commit,   ///< of a reservation: what was used; the rest goes back, what is missing is charged
  release,  ///< of a reservation, or of places: all back
  /// http: places (limits of concurrency), as a reserve takes units: until a release, the end of
  /// their lease (client_request::ttl; 0: the rule's), or the end of the connection
  /// (client_request::release_on_close). Renew at a third of the lease, and stop the work when a
  /// renew ends with client_errc::hold_ended.
  acquire,
};

/// How a limit that comes with a request counts (docs/algorithms.md).
enum class client_algorithm : unsigned char {
  token_bucket,
  fixed_window,
  aligned_window,
  sliding_window,
  sliding_log,
  fixed_bucket,  ///< has no window
  concurrency,   ///< places; its window is their lease
};

/// A limit that comes with a request.
struct client_limit {
  std::int64_t quota = 0;              ///< units for each window, at least 1
  std::chrono::microseconds window{};  ///< longer than 0; 0 of a fixed_bucket
  client_algorithm algorithm = client_algorithm::token_bucket;  ///< how it counts
  std::int64_t burst = 0;  ///< of a token bucket: its size; 0: the quota
  /// In place of `window`, which is 0 then, and of the algorithm: a window of the calendar, as
  /// "month@Europe/Berlin" or "month@Asia/Tokyo,month_day=15,starts_at=06:00" (the members of
  /// policies); empty: none. http and resp. The server judges it.
  std::string calendar{};
  /// Of concurrency, over http and resp: the longest lease that may be asked for, not below
  /// `window`; 0: `window`.
  std::chrono::microseconds max_lease{};
};

/// One key=value pair of a descriptor, on which the server's rules match.
struct client_entry {
  std::string_view key;    ///< "ip"
  std::string_view value;  ///< "10.0.0.7"
};

/// What counters a request is about. Views are read before submit() returns.
struct client_subject {
  std::vector<client_entry> entries{};  ///< what the server's rules match
  std::string_view type{};              ///< limitd: the bucket type
  std::string_view key{};  ///< limitd: the instance; droplet: the bucket; else with `limits`
  std::vector<client_limit> limits{};  ///< droplet: at most one for each of its six periods
};

/// One call's request.
struct client_request {
  client_verb verb = client_verb::take;  ///< the operation
  client_subject subject{};              ///< of which counters
  /// Where it is not empty: a take (or peek) of these, in place of `subject`: all of them or none.
  /// http: also a charge or a reserve of all of them, and a commit of such a reserve.
  std::vector<client_subject> several{};
  bool each = false;  ///< of several: each by itself
  /// Units. None: 1; a put of limitd's protocol without it fills the bucket. 0 and below have the
  /// meaning that the protocol gives them.
  std::optional<std::int64_t> n{};
  /// Of a charge: its name, 16 to 64 of `A-Z a-z 0-9 _ -`; empty: none. A charge that ended with an
  /// error may be sent again with its id: for 10 minutes the server counts it once. Of a reserve
  /// the same, so that it may be sent again: it answers with the reservation that there is. Of
  /// extend, renew, commit and release, which need it: the reservation. A commit and a release may
  /// be sent again; an extend that ended with an error may have taken its units.
  std::string_view id{};
  /// Of reserve, extend and commit, in place of `n`: the units of each of `several`.
  std::vector<std::int64_t> units{};
  /// Of reserve, acquire, extend and renew: how long the reservation is held from now on, up to a
  /// day. A longer one than its rules allow is cut (client_result::ttl). 0: as long as the server
  /// likes, or as before.
  std::chrono::microseconds ttl{};
  /// of a reserve and an acquire: who it is, up to 255 bytes, for people
  std::string_view holder{};
  bool all = false;          ///< of a put: all units, whatever `n`
  bool reset_first = false;  ///< droplet: forget the bucket first
  /// Of an acquire: given back when the connection that it was sent on ends, also by itself, as
  /// when the server closes an idle one.
  bool release_on_close = false;
  /// Of a wait over resp and http: how long the server waits at most. 0: resp for ever, http as
  /// long as the server likes. Of a reserve or an acquire of one subject: the same, in order of
  /// arrival with waits; 0: it does not wait. Not with release_on_close.
  std::chrono::microseconds wait_for{};
  /// Of a command. resp: the command and its arguments. http: method, path with its query and,
  /// where there is one, the body, of JSON. It must be one with a single reply, after which the
  /// connection is as before: no SUBSCRIBE, MONITOR, MULTI, CLIENT REPLY or HELLO. What waits at
  /// the server holds up the later calls of its connection.
  std::vector<std::string_view> words{};
  /// limitd's put: do not answer. The call ends when the request is on its way to the socket.
  bool no_answer = false;
};

// ---- Results ----

/// Why a call has no answer.
enum class client_errc : unsigned char {
  none,          ///< it has one
  bad_request,   ///< the protocol cannot say it, or the call's bounds are wrong; nothing was sent
  unavailable,   ///< not connected, or the server cannot decide now
  disconnected,  ///< the connection was lost after the request was sent: it may have been counted
  timeout,       ///< no reply in time: it may have been counted
  backlog,       ///< client_options::pending_max calls are under way; nothing was sent
  bad_reply,     ///< the server answered what the protocol does not have
  /// The server answered with an error of its own (client_result::text), or does not accept the
  /// address's user and token.
  refused,
  no_rule,    ///< no rule or bucket type of the server applies to the subject
  cancelled,  ///< by cancel(); it may have been counted
  closed,     ///< the client was closed
  /// The server knows no reservation of this id. A commit that names its subject is charged then;
  /// without one: charge it.
  no_such_hold,
  already_settled,  ///< the reservation is committed, with client_result::used
  hold_ended,       ///< the reservation was released, or its end has passed; places are lost
  no_places,        ///< of an acquire: no limit that applies has places that the server can hold
};

/// Is it an error that means "the server is away"? unavailable, disconnected, timeout, backlog and
/// bad_reply are.
constexpr bool is_unavailable(client_errc error) {
  return error == client_errc::unavailable || error == client_errc::disconnected ||
         error == client_errc::timeout || error == client_errc::backlog ||
         error == client_errc::bad_reply;
}

/// "There is no such moment": no wait helps, or a counter never resets.
inline constexpr std::chrono::microseconds client_never = std::chrono::microseconds::max();

/// A counter, or one of several subjects, or a period of droplet's.
struct client_level {
  std::string name{};    ///< limitd's list: the instance; droplet: "ls", "lm", ...; else the rule
  bool allowed = false;  ///< whether it allows the units
  bool decided = true;   ///< false: no rule applies to this subject of several
  bool over = false;     ///< of a charge: as client_result has it, and so are the next two
  std::optional<std::int64_t> charged{};                   ///< units that were counted
  std::optional<std::int64_t> debt{};                      ///< units used beyond the limit
  std::optional<std::int64_t> limit{};                     ///< the most that `remaining` can be
  std::optional<std::int64_t> remaining{};                 ///< units left
  std::optional<std::chrono::microseconds> retry_after{};  ///< until the same could be allowed
  std::optional<std::chrono::microseconds> reset_after{};  ///< until it is as a fresh one
  std::optional<std::int64_t> reset_at{};  ///< limitd: UNIX seconds when it is full again
};

/// What decided.
enum class client_origin : unsigned char {
  server,          ///< the server
  stand_in,        ///< client_options::stand_in answered
  on_unavailable,  ///< client_options::on_unavailable answered
};

/// How a call ended. What the protocol does not tell is empty.
struct client_result {
  client_errc error = client_errc::none;         ///< why there is no answer
  client_origin origin = client_origin::server;  ///< what decided
  /// Of a take, a wait, a peek, a reserve, an acquire and an extend; of a charge and a commit: not
  /// `over`; of a renew and a release: done. Not with an error.
  bool allowed = false;
  bool delayed = false;   ///< of what waited: the units were not there at once
  bool over = false;      ///< of a charge or a commit: a limit is in debt
  bool repeated = false;  ///< http, of a charge or a commit: it was known, this is its answer again
  bool late = false;      ///< of a commit: the reservation had ended, or was not known
  /// of a reserve, an acquire and an extend: the reservation; empty: nothing is held
  std::string id{};
  std::vector<std::int64_t> reserved{};  ///< of the same: what each subject holds
  std::vector<std::int64_t> used{};      ///< of a commit, and with already_settled: of each subject
  std::optional<std::int64_t> returned{};  ///< of a commit or a release: units that went back
  std::optional<std::chrono::microseconds> ttl{};  ///< of a reservation: until its end
  /// of a charge: units that were counted; of a commit: those beyond what was reserved
  std::optional<std::int64_t> charged{};
  std::optional<std::int64_t> debt{};   ///< of a charge or a commit: units used beyond the limit
  std::optional<std::int64_t> limit{};  ///< the most that `remaining` can be
  std::optional<std::int64_t> remaining{};                 ///< units left
  std::optional<std::chrono::microseconds> retry_after{};  ///< until the same could be allowed
  std::optional<std::chrono::microseconds> reset_after{};  ///< until it is as a fresh one
  std::optional<std::chrono::microseconds> waited{};       ///< of what waited: how long it took
  std::optional<std::int64_t> reset_at{};  ///< limitd: UNIX seconds when it is full again
  std::optional<std::int64_t> counters{};  ///< of a reset: how many were not fresh
  std::string rule{};                      ///< that decided, where the protocol tells
  std::string text{};                      ///< with an error: what is wrong, for people
  std::vector<client_level> levels{};      ///< of several, of a list, of droplet's periods
  std::size_t missing_hosts = 0;           ///< of a list over shards: those that did not answer
  /// Of a command. resp: the bytes of the reply, an error or not. http: the body.
  std::string reply{};
  unsigned status = 0;  ///< of a command over http

  /// Whether a decision allows it.
  bool is_allowed() const { return error == client_errc::none && allowed; }
};

/// Called once for each call, with how it ended. Must not throw.
using client_handler = std::function<void(client_result&&)>;

/// Names a call that is under way. 0 names none.
using client_call_id = std::uint64_t;

// ---- Options ----

/// What decides where the server does not. Implementations are called by the polling thread (or by
/// call()'s), one call at a time, and must not call the client.
class SLUICE_API client_stand_in {
 public:
  virtual ~client_stand_in();
  /// The result of a take or a wait that failed with `error`. A stand-in must grant its share of
  /// the limit alone: of N clients with one stand-in each, a quota of Q is kept where each grants
  /// at most Q / N of it.
  virtual client_result decide(const client_request& request, client_errc error) = 0;
};

/// What happened to a call, when it has ended.
struct client_call_report {
  client_verb verb;                ///< the operation
  client_errc error;               ///< before on_unavailable and the stand-in
  client_origin origin;            ///< what decided
  bool allowed;                    ///< client_result::allowed
  std::chrono::microseconds took;  ///< from submit() to its end
};

/// What happened to a connection.
struct client_connection_report {
  /// What there is to report.
  enum class event : unsigned char {
    connected,       ///< requests can be sent
    attempt_failed,  ///< to connect
    disconnected,    ///< it was lost
    gave_up,         ///< no further attempt by itself; droplet: the client is dead
  };
  event what;        ///< what happened
  std::string host;  ///< "127.0.0.1:8321"
  std::string text;  ///< why; empty of `connected`
};

/// The result of takes and waits where the server is away.
enum class client_policy : unsigned char {
  error,  ///< the error
  allow,  ///< allowed, without a server
  deny,   ///< denied, without a server
};

/// Files of TLS, in PEM. They are read by the constructor, and again for each connection, so
/// renewed ones are used from the next connection on. An attempt to connect with files that cannot
/// be used fails.
struct client_tls_files {
  std::string ca{};           ///< authorities that are trusted beside the system's; empty: none
  std::string certificate{};  ///< shown to a server that asks for one; both or none
  std::string key{};          ///< of the certificate, without a passphrase
};

/// How a client is made.
struct client_options {
  /// A call's time from submit() to its end. None: 1 s of divvy, 500 ms of limitd (a wait: none),
  /// 5 s else (a wait of resp and http: `wait_for` beside that; for ever if `wait_for` is 0 and the
  /// protocol is resp).
  std::optional<std::chrono::microseconds> timeout{};
  std::size_t connections = 1;  ///< to each host, 1 to 64
  std::size_t pending_max = 0;  ///< calls under way; 0: 100 of divvy, else 1,000,000
  std::size_t waits_max = 64;  ///< resp and http: waits at a time, each has a connection of its own
  /// limitd: hosts are shards. A key belongs to one of them, by limitd-client's ring. Else several
  /// hosts are in order of preference: requests go to the first that is connected.
  bool shard = false;
  client_policy on_unavailable = client_policy::error;  ///< where the server is away
  std::shared_ptr<client_stand_in> stand_in{};          ///< takes precedence over on_unavailable
  /// A connection that answers in order is given up when its oldest request has timed out and
  /// nothing has arrived for so long; any connection, when the oldest request that waits for its
  /// socket has timed out and the socket has taken nothing for so long. 0: never.
  std::chrono::microseconds stalled_after = std::chrono::seconds(10);
  /// The client polls on a thread of its own, on which handlers run.
  bool own_thread = false;
  /// Called by the polling thread, without a lock of the client's.
  std::function<void(const client_call_report&)> on_call{};
  /// The same, of connections.
  std::function<void(const client_connection_report&)> on_connection{};
  client_tls_files tls{};  ///< of an address with TLS; std::invalid_argument with others
};

/// What holds for one call alone.
struct client_call_options {
  std::optional<std::chrono::microseconds> timeout{};  ///< in place of client_options::timeout
};

// ---- Callers ----

/// The interface of a client and, in tests, of a mock_client (sluice/client_mock.h).
class SLUICE_API client_interface {
 public:
  virtual ~client_interface();

  /// Begins a call. `handler` is called once, by poll(), never by submit() itself.
  virtual client_call_id submit(const client_request& request, client_handler handler,
                                const client_call_options& options) = 0;
  /// The same with the client's own options.
  client_call_id submit(const client_request& request, client_handler handler) {
    return submit(request, std::move(handler), client_call_options{});
  }
  /// Ends a call with client_errc::cancelled. False: it has ended, or it is a list or a ping over
  /// shards, which end by their deadlines. A wait of resp and http then takes nothing; any other
  /// request may have been counted.
  virtual bool cancel(client_call_id call) = 0;
  /// Does what there is to do, and waits up to `timeout` until there is something; less than 0:
  /// without end. Returns how many handlers it called: 0 also when another thread has called some
  /// meanwhile. A thread that waits for a future while others poll needs a timeout, as another one
  /// may fulfil it before poll() begins. Of a client with a thread of its own it does nothing.
  virtual std::size_t poll(std::chrono::milliseconds timeout) = 0;

  /// The result as a future. Somebody must poll.
  std::future<client_result> ask(const client_request& request,
                                 const client_call_options& options = {});
  /// Asks, and polls until the call has ended. Blocks the calling thread.
  client_result call(const client_request& request, const client_call_options& options = {});

#if defined(__cpp_impl_coroutine)
  class awaitable;
  /// `client_result result = co_await client.async(request)`. The coroutine resumes inside poll().
  /// `request` must live until it does.
  awaitable async(const client_request& request, const client_call_options& options = {});
#endif

 protected:
  client_interface() = default;
  client_interface(const client_interface&) = default;             ///< of what derives from it
  client_interface& operator=(const client_interface&) = default;  ///< of what derives from it
  /// Polls until the future is ready.
  virtual void await(std::future<client_result>& future);
};

/// A client of one server, or of several that are one to it. See the top of this file.
class SLUICE_API client final : public client_interface {
 public:
  /// Connects with the first call. `address`: see the top of this file, as for what is thrown.
  explicit client(std::string_view address, client_options options = {});
  /// Ends all calls with client_errc::closed; their handlers run here.
  ~client() override;
  client(const client&) = delete;
  client& operator=(const client&) = delete;

  using client_interface::submit;
  client_call_id submit(const client_request& request, client_handler handler,
                        const client_call_options& options) override;
  bool cancel(client_call_id call) override;
  std::size_t poll(std::chrono::milliseconds timeout) override;
  /// Readable when poll(0) has something to do. Belongs to the client.
  int descriptor() const;
  /// As the destructor. Later calls end with client_errc::closed. From no handler.
  void close();

  std::size_t pending() const;      ///< calls under way, those included that only hold a place
  bool is_connected() const;        ///< is a connection to a host ready?
  std::size_t connections() const;  ///< that are ready

 private:
  void await(std::future<client_result>& future) override;
  struct impl;
  std::unique_ptr<impl> impl_;
};

#if defined(__cpp_impl_coroutine)
class client_interface::awaitable {
 public:
  awaitable(client_interface& caller, const client_request& request,
            const client_call_options& options)
      : caller_(caller), request_(request), options_(options) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) {
    // Another thread may resume the coroutine before submit() has returned: nothing follows it.
    caller_.submit(
        request_,
        [this, handle](client_result&& result) {
          result_ = std::move(result);
          handle.resume();
        },
        options_);
  }
  client_result await_resume() { return std::move(result_); }

 private:
  client_interface& caller_;
  const client_request& request_;
  const client_call_options options_;
  client_result result_;
};

inline client_interface::awaitable client_interface::async(const client_request& request,
                                                           const client_call_options& options) {
  return {*this, request, options};
}
#endif

}  // namespace sluice

#endif
