// The Redis protocol: what clients send when they connect and about the connection, and the
// commands that throttle. One per connection, owned by it, used by its thread. A command that needs
// no store becomes a request of the verb `noop`, so that replies leave in the order of commands.
//
// Views in `requests` point into `in`, into texts that `requests` holds, or to literals.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/arena.h"
#include "protocol/resp/throttle.h"
#include "request/session.h"
#include "wire/resp.h"

namespace sluice::resp {

struct SessionOptions {
  std::string_view version;  // of sluice; lives as long as the session
  wire::RespBounds bounds{};
};

class RespSession final : public request::Session {
 public:
  explicit RespSession(const SessionOptions& options = {});

  // Commands behind a breach of the protocol or QUIT are not read; once closing, for ever.
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  // Always true.
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  std::string_view fault() const override { return fault_; }

  // The error of a breach; nothing to a web page, or after QUIT.
  void farewell(base::Buffer& out) override;
  void refuse(std::string_view why, base::Buffer& out) override;

 private:
  using Words = std::span<const std::string_view>;

  // Answers to the command that is being read.
  void answer(std::string_view bytes);
  void answer_error(std::string_view text);
  void answer_bulk(std::string_view text);
  template <class Write>
  void answer_with(Write write);

  void ask(Words words);
  void hello(Words words);
  void auth(Words words);
  void select(std::string_view word);
  void client(Words words);
  void client_reply(std::string_view word);
  void set_name(std::string_view name);
  void command(Words words);
  void config(Words words);
  void cluster(Words words);
  void reset();
  void unknown(Words words);
  void unknown_subcommand(std::string_view word, std::string_view command);
  void wrong_count(std::string_view command);
  void commit(uint32_t note, std::string_view tag);
  void throttle(limit::Algorithm algorithm, Words words);

  SessionOptions options_;
  wire::RespCommandReader reader_;
  base::Arena texts_;                      // of inline commands; since the last `receive`
  request::Requests* requests_ = nullptr;  // while they are received
  int64_t id_;
  std::string name_;
  uint32_t database_ = 0;
  wire::RespVersion version_ = wire::RespVersion::resp2;
  bool off_ = false;     // CLIENT REPLY OFF
  bool skip_ = false;    // CLIENT REPLY SKIP: of the next command
  bool silent_ = false;  // the command that is being read has no reply
  bool closing_ = false;
  std::string_view fault_{};
  Throttle throttle_;  // the command that is being read
};

}  // namespace sluice::resp
