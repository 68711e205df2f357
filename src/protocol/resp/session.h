// The session of the Redis protocol: the commands that clients send when they connect, commands
// about the connection, and the commands that throttle. One for each connection, owned by it and
// used by its thread. A command that needs no store becomes a request with the verb `noop`, so that
// replies keep the order of the commands.
//
// Views in `requests` point into `in`, into texts that `requests` holds, or to literals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "protocol/resp/options.h"
#include "protocol/resp/sluice_command.h"
#include "protocol/resp/throttle.h"
#include "request/charge_ids.h"
#include "request/hold.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/resp.h"

namespace sluice::resp {

// The commands between MULTI and EXEC, stored until they are executed or discarded. Owned by a
// session, used by its thread.
class Transaction {
 public:
  // The bounds of a transaction: of its commands, and of the memory that they take. Beyond either
  // the command is refused, and EXEC aborts.
  static constexpr size_t commands_max = 16'384;
  static constexpr size_t bytes_max = size_t{1} << 20;

  // False: it does not fit.
  bool add(std::span<const std::string_view> words);
  // Called if a command has an error: EXEC will abort.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

  size_t size() const { return size_; }
  // Of memory.
  size_t bytes() const { return stored_.capacity(); }

  // Were all of its commands executed?
  bool is_done() const { return done_ == size_; }
  // The words of the next command. The list is valid until the next call, the words as long as this
  // object.
  std::span<const std::string_view> next();
  // Removes the command that `next` has told, which was executed.
  void pop();

 private:
  void put(uint32_t number);
  uint32_t take(size_t& at) const;

  std::vector<char> stored_;  // of each command: how many words; of each word: its size, its bytes
  size_t size_ = 0;
  bool failed_ = false;
  size_t done_ = 0, at_ = 0;  // commands that were executed, and the place behind them
  size_t next_at_ = 0;        // the place behind the command in next_
  std::vector<std::string_view> next_;
};

struct CommandEntry;

class RespSession final : public request::Session {
 public:
  explicit RespSession(const request::Peer& peer = {});
  ~RespSession() override;

  // Commands after a breach of the protocol, or after QUIT, are ignored, also in all later calls.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  // Always returns true.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  // The unfinished request is the transaction that is open. Its commands are whole requests, and do
  // not lengthen its time. For one that is executed the client owes nothing.
  request::SessionState state() const override;
  request::Fault fault() const override;
  // Appends the error of a breach or a refusal; nothing for a web page, or after QUIT.
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;

 private:
  // A request's note: the meaning of its tag, or the form of the reply.
  enum Note : uint32_t {
    ready,        // the tag is the reply
    bulk,         // the tag is the text of the reply
    time_of_day,  //
    own_line,     // the line of CLIENT INFO
    cell,         // five integers, the reply of the three commands that throttle
    crab,
    redis,
    increx,        // two integers
    charged_once,  // SLUICE.CHARGE with an id: see charges_
    five,          // from here on: replies of SLUICE.* (sluice_command.cc)
    five_and_name,
    left_and_limit,
    six,
    six_and_name,
    explanation,
    waited,
    // The last of several requests with one reply; the others have `gathered`.
    joint_five,
    each_five,
    counters,  // the number of counters that exist, or existed
    ttl,
    pttl,
    // Replies of commands about holds (hold_commands.cc): by what was asked; of MRESERVE; of RENEW.
    hold_reply,
    holds_reply,
    renewal,
    with_units = 1u << 29,  // of these: WITHUNITS
    gathered = 1u << 30,
    silent = 1u << 31,  // no reply is sent
  };
  // The note without the bits that are added to it.
  static uint32_t kind_of(uint32_t note) { return note & ~(with_units | gathered | silent); }
  // What commands set for the connection, or CLIENT INFO tells of it.
  struct Facts {
    std::string name, library, library_version;
    uint32_t database = 0;
    int version = 2;                    // of the protocol
    std::optional<base::Time> since{};  // the time of its first reply
  };
  // The state of a charge with an id, from its command to its reply.
  struct ChargeOnce {
    std::string user, id;
    uint64_t content = 0;
    request::ChargeIds::Claim claim{};  // none: the id was used before, and the request only looks
    bool with_name = false, silent = false;
  };
  using Words = std::span<const std::string_view>;

  static constexpr std::string_view no_rule = "NORULE no rule applies";

  // Append an answer to the command being read.
  void answer(std::string_view bytes);
  void answer_error(std::string_view text);
  // The error for a command that cannot be understood, which is reported to operators as well.
  void answer_malformed(std::string_view text);
  void report(std::string_view code, std::string_view example) const;
  void answer_bulk(std::string_view text);
  // The error for a request that could not be decided, beginning with the error's code.
  static std::string error_of(const request::Verdict& verdict);
  static std::string_view database_text(uint32_t database);
  wire::RespVersion version() const { return static_cast<wire::RespVersion>(facts_.version); }

  template <class Write>
  void answer_with(Write write) {
    if (silent_) return;
    base::Buffer bytes;
    wire::RespWriter writer(bytes, version());
    write(writer);
    written_ += bytes.view().size();
    answer(requests_->hold(bytes.view()));
  }

  void ask(Words words);
  bool is_answered(const CommandEntry& entry) const;
  void run(const CommandEntry& entry, Words words);
  void run_guarded(const CommandEntry& entry, Words words);
  void transact(const CommandEntry& entry, Words words);
  void queue(Words words);
  void execute();
  void execute_some();
  bool is_batch_full() const;
  void hello(Words words);
  void auth(Words words);
  bool log_in(std::string_view user, std::string_view token);
  void append_greeting(wire::RespWriter& out) const;
  bool is_permitted(const CommandEntry& entry);
  void refuse_right(std::string_view command);
  void select(std::string_view word);
  void client(Words words);
  void client_reply(std::string_view word);
  void set_name(std::string_view name);
  void set_library(std::string_view which, std::string_view value);
  std::string line_of_client(base::Time now) const;
  void info(Words sections);
  void command(Words words);
  void config(Words words);
  void reset();
  std::string_view server_version() const;
  void unknown(Words words);
  void unknown_subcommand(Words words, std::string_view command);
  void wrong_count(std::string_view command);
  void commit(uint32_t note, std::string_view tag);
  void throttle(limit::Algorithm algorithm, Words words);
  void take_window(Words words);
  void sluice(Words words);
  const request::Message* message(request::Message its = {});
  void commit_subject(const SluiceSubject& subject, request::Request request, int64_t n);
  void commit_subject(const SluiceSubject& subject, const request::Request& request) {
    commit_subject(subject, request, sluice_.n);
  }
  void add_content(const SluiceSubject& subject, int64_t n, request::ChargeContent& content) const;
  void take_several();
  void wait();
  bool begin_wait();
  void charge();
  void charge_once();
  void hold();
  request::HoldCall hold_call() const;
  bool has_two_lists() const;
  void look_at_keys(const CommandEntry& entry, Words keys);

  void reply_once(const request::Verdict& verdict, base::Time now, wire::RespWriter& out);
  void reply_gathered(const request::Request& request, const request::Verdict& verdict,
                      wire::RespWriter& out);
  void write_gathered(uint32_t kind, wire::RespWriter& out);
  void end_gathered();
  void reply_hold(const request::Request& request, const request::Verdict& verdict,
                  wire::RespWriter& out);
  void write_hold(const request::HoldCall& call, uint32_t note, wire::RespWriter& out) const;
  void write_held(const request::HoldCall& call, uint32_t note, wire::RespWriter& out) const;
  std::string error_of_hold(const request::HoldCall& call) const;
  void reply_unmatched(const request::Request& request, wire::RespWriter& out) const;
  void reply_sluice(const request::Request& request, const request::Verdict& verdict,
                    base::Time now, wire::RespWriter& out);

  const request::Peer peer_;
  const RespOptions& options_;
  Connections& connections_;
  access::Identity identity_;
  wire::RespCommandReader reader_;
  base::Arena texts_;                      // of inline commands, until the next `receive`
  std::unique_ptr<Transaction> open_;      // from MULTI to EXEC
  uint64_t transactions_ = 0;              // that were opened
  std::unique_ptr<Transaction> executed_;  // from EXEC until its replies are written
  request::Requests* requests_ = nullptr;  // during `receive`
  const int64_t id_;
  Facts facts_;
  std::deque<ChargeOnce> charges_;  // those without a reply, in order
  bool off_ = false;                // CLIENT REPLY OFF
  bool skip_ = false;               // CLIENT REPLY SKIP, for the next command
  bool silent_ = false;             // the command being read gets no reply
  bool closing_ = false;
  bool waiting_ = false;    // the last command waits for units, and has no reply yet
  bool executing_ = false;  // EXEC is being executed
  // The next commands must wait until the replies to the received ones are written.
  bool ends_batch_ = false;
  size_t written_ = 0;  // bytes of answers since the last `receive`
  std::string_view fault_{};
  Throttle throttle_;  // of the command being read, as is the next member
  SluiceCommand sluice_;
  // The reply being gathered.
  struct Gathered {
    base::Buffer parts;
    std::string error;     // the first error
    bool refused = false;  // it is that of the whole command: request::not_permitted
    size_t part_count = 0, counters = 0, matched = 0;
    base::Duration life{};  // until the last of the counters is fresh
    bool allowed = true;
    bool unmatched = false;                  // of a hold: no rule applies to one of its subjects
    std::optional<limit::Decision> shown{};  // of a hold: of the limit to tell of
  };
  Gathered gathered_;
};

}  // namespace sluice::resp
