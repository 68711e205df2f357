// Any bytes of a client must give the same requests and answers in one piece and in pieces. No
// engine is involved: verdicts are made from the requests alone. For tests and the fuzz target; one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/bounds.h"
#include "base/clock.h"
#include "config/config.h"
#include "protocol/http/options.h"
#include "protocol/http/session.h"
#include "protocol/http/wait_count.h"
#include "protocol/http/worker_state.h"
#include "protocol/protocol.h"
#include "server/options.h"
#include "wire/http2_peer_test.h"

namespace sluice::http::split_trial {

struct Kind {
  bool is_http2 = false, has_users = false;
  Unmatched unmatched = Unmatched::error;
  enum class End : uint8_t { answered, stopped, dropped } end = End::answered;

  // The kind that two bytes of a fuzz target's input choose.
  static Kind of(uint8_t a, uint8_t b) {
    return {(a & 0x80) != 0, (a & 0x40) != 0, static_cast<Unmatched>(b % 3),
            static_cast<End>(b / 3 % 3)};
  }
};

// The parts of a run that must not depend on how the input was cut.
struct Transcript {
  std::string requests, answers, fault;     // requests: only for HTTP/1.1
  std::map<uint32_t, std::string> streams;  // answers of HTTP/2
  bool closed = false;
  bool has_goaway = false;  // the client sent a GOAWAY
  // What went wrong in the run itself; empty: nothing.
  std::string wrong;
};

inline std::string text_of(const request::Request& request, const request::Requests& all) {
  std::string to(name_of(request.verb));
  const request::Message& message = *request.message;
  for (const bool flag :
       {request.verb == request::Verb::reset, message.together, request.limits.replaces,
        message.must_fit, message.needs_rule, message.needs_store})
    to += flag ? '1' : '0';
  to += " " + std::to_string(request.cost) + " " + std::to_string(message.wait_at_most.us) + " " +
        std::to_string(static_cast<int>(request.scope));
  for (const request::Entry& entry : all.descriptor(request))
    to += " " + std::string(entry.key) + "=" + std::string(entry.value);
  for (const limit::Limit& limit : all.limits(request))
    to += " " + std::string(name_of(limit.algorithm)) + " " + std::to_string(limit.quota) + " " +
          std::to_string(limit.window.us) + " " + std::to_string(limit.burst);
  return to + "\n";
}

// Makes a verdict from the text of a request, and owns what the verdict points to.
class MadeUp {
 public:
  MadeUp(const request::Request& its, const request::Requests& all)
      : request(its), message_(*its.message), weight_(weight_of(text_of(its, all))) {
    request.message = &message_;
    request.tag = {};
    limits_.assign(all.limits(its).begin(), all.limits(its).end());
    if (limits_.empty())
      limits_.push_back({limit::Algorithm::fixed_window, 9, base::seconds(60), 0});
    if (its.message->needs_rule && weight_ % 7 == 0) rule_missing_ = true;
  }

  request::Verdict verdict(bool late, bool interrupted) {
    request::Verdict told;
    told.generation = 7;
    if (request.verb == request::Verb::noop) return told;
    if (interrupted || (request.verb == request::Verb::wait && weight_ % 3 == 0)) {
      told.matched = told.expired = true;
      return told;
    }
    if (rule_missing_) {
      told.error = request::no_rule_applies;
      return told;
    }
    if (weight_ % 11 == 0) {
      told.error = "the store is away";
      told.cause = request::Error::store;
      return told;
    }
    if (weight_ % 5 == 0 && !request.limits.replaces) return told;  // no rule
    told.matched = true;
    told.allowed = weight_ % 2 == 0;
    decisions_.clear();
    for (size_t i = 0; i < limits_.size(); ++i)
      decisions_.push_back({.allowed = told.allowed,
                            .limit = limits_[i].quota,
                            .remaining = static_cast<int64_t>(weight_ % 1'000'003 + i),
                            .reset_after = {static_cast<int64_t>(weight_ % 9'999'999)},
                            .retry_after = told.allowed       ? base::Duration{}
                                           : weight_ % 4 == 1 ? base::never
                                                              : base::Duration{1'234'567}});
    told.tightest = &decisions_[weight_ % decisions_.size()];
    told.limit = &limits_[weight_ % decisions_.size()];
    told.rule = request.limits.replaces ? std::string_view("inline") : std::string_view(rule_.name);
    charge_.space = &space_;
    charge_.key = "k";
    charge_.limits = limits_;
    charge_.rule = request.limits.replaces ? &inline_rule_ : &rule_;
    charge_.counted = true;
    if (!late && !message_.together) told.charges = {&charge_, 1};
    told.decisions = decisions_.data();
    return told;
  }

  request::Request request;

 private:
  const request::Message message_;
  static uint64_t weight_of(std::string_view text) {
    uint64_t hash = 14'695'981'039'346'656'037u;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
    return hash >> 8;
  }

  const uint64_t weight_;
  bool rule_missing_ = false;
  std::vector<limit::Limit> limits_;
  std::vector<limit::Decision> decisions_;
  request::Space space_;
  request::Charge charge_;
  const request::RuleWords rule_{"a \"rule\"", "tokens"}, inline_rule_{"inline", ""};
};

// The settings that all trials share.
inline const HttpOptions& common_options() {
  static const std::shared_ptr<const request::SessionOptions> options = [] {
    config::Config config;
    base::Diagnostics diagnostics;
    config::read_config(
        "listen: [{ protocol: http, address: a }]\n"
        "http: { get_takes: true, twins: [throttlecrab], ratelimit: all, hosts: [h], auth: { "
        "profiles: { web: { proxy: nginx, headers: [x-k], cookies: [c] }, edge: { proxy: traefik, "
        "deny: 401, ok: 204, normalize_path: true }, fwd: { proxy: custom, from: { ip: forwarded, "
        "uri: x-uri }, on_store_error: allow } } } }\n",
        "sluice.yaml", config, diagnostics);
    return config.options().session_options[static_cast<size_t>(*protocol::find("http"))];
  }();
  return static_cast<const HttpOptions&>(*options);
}

class Trial {
 public:
  Trial(const Kind& kind, HttpWorker& worker) : kind_(kind), options_(common_options()) {
    options_.unmatched = kind.unmatched;
    options_.waits = std::make_shared<WaitCount>();
    static const access::Access nobody;
    static const access::Access users(
        std::make_shared<const access::Users>(std::vector<access::User>{
            {"u", {access::Right::take, access::Right::look}, access::digest_of("p")},
            {"v",
             {access::Right::take, access::Right::put, access::Right::look, access::Right::admin},
             access::digest_of("q")}}));
    session_ =
        std::make_unique<HttpSession>(request::Peer{.server = nullptr,
                                                    .options = &options_,
                                                    .access = kind.has_users ? &users : &nobody,
                                                    .worker = &worker,
                                                    .clock = &clock_,
                                                    .address = "127.0.0.1:41000"});
  }

  Transcript run(std::string_view bytes, const std::vector<size_t>& cuts) {
    size_t cut = 0;
    for (size_t arrived = 0; arrived < bytes.size() && !told_.closed;) {
      const size_t count = cut < cuts.size() ? cuts[cut++] : bytes.size() - arrived;
      in_ += bytes.substr(arrived, count);
      arrived += count;
      receive_all();
    }
    finish();
    return std::move(told_);
  }

 private:
  void require(bool holds, const char* what) {
    if (!holds && told_.wrong.empty()) told_.wrong = what;
  }
  void receive_all() {
    while (!told_.closed) {
      if (session_->state().holds_back) {
        answer_one_late();
        continue;
      }
      // The bytes are in memory of their own, so that a sanitizer finds views that are kept too
      // long.
      const std::string input = in_;
      requests_.clear();
      const request::Received received = session_->receive(input, false, requests_, out_);
      require(received.consumed <= in_.size(), "more is consumed than there is");
      in_.erase(0, received.consumed);
      answer_batch();
      interrupt();
      if (received.closing && !session_->state().holds_back) {
        told_.closed = true;
        session_->end(request::Ending::announced, {}, out_);
      }
      if (received.consumed == 0 && requests_.size() == 0 && !session_->state().holds_back &&
          !session_->state().has_more)
        break;
    }
  }
  // Answers all requests of the batch except waits, which are answered late.
  void answer_batch() {
    for (const request::Request& request : requests_.items()) {
      if (request.verb != request::Verb::noop) told_.requests += text_of(request, requests_);
      MadeUp made(request, requests_);
      if (request.verb == request::Verb::wait) {
        require(session_->state().holds_back || kind_.is_http2, "it does not hold back");
        late_.push_back(std::make_unique<MadeUp>(std::move(made)));
        continue;
      }
      reply(made, false, false);
    }
  }
  void reply(MadeUp& made, bool late, bool interrupted) {
    const bool goes_on =
        session_->reply(made.request, made.verdict(late, interrupted), time_, out_);
    require(goes_on, "it ends at a reply");
  }
  void interrupt() {
    if (!session_->state().has_ended_waits) return;
    for (size_t i = 0; i < late_.size();) {
      if (!session_->has_ended_wait(late_[i]->request)) {
        ++i;
        continue;
      }
      const auto made = std::move(late_[i]);
      late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
      reply(*made, true, true);
    }
    require(!session_->state().has_ended_waits, "it is still interrupted");
  }
  // Answers the first wait.
  void answer_one_late() {
    if (late_.empty()) {
      require(false, "it holds back for nothing");
      told_.closed = true;
      return;
    }
    const auto made = std::move(late_.front());
    late_.erase(late_.begin());
    reply(*made, true, false);
  }
  void finish() {
    if (!told_.closed && kind_.end == Kind::End::answered) {
      while (!late_.empty() && told_.wrong.empty()) {
        answer_one_late();
        receive_all();
      }
      require(!session_->state().waits_for_units, "it waits, and nothing is asked");
    }
    if (!told_.closed && kind_.end == Kind::End::stopped)
      session_->end(request::Ending::stopping, {}, out_);
    told_.fault = session_->fault().code;
    session_.reset();
    require(options_.waits->waiting() == 0, "waits are left");
    told_.answers = out_.view();
    if (!kind_.is_http2) {
      // A client that has sent the body already gets no "100 Continue".
      constexpr std::string_view go_ahead = "HTTP/1.1 100 Continue\r\n\r\n";
      for (size_t at = 0; (at = told_.answers.find(go_ahead, at)) != std::string::npos;)
        told_.answers.erase(at, go_ahead.size());
      return;
    }
    told_.requests.clear();
    read_streams();
  }
  void read_streams() {
    wire::http2_peer::Peer peer;
    peer.read(told_.answers);
    told_.answers = std::to_string(peer.goaways.size());
    for (const auto& [stream, answer] : peer.answers) {
      if (!answer.ended) continue;
      std::string& text = told_.streams[stream];
      for (const auto& [name, value] : answer.headers) text += name + ": " + value + "\n";
      text += answer.body;
    }
  }

  static constexpr base::Time time_{1'795'334'123'000'042};
  const Kind kind_;
  HttpOptions options_;
  base::Clock clock_{{[] { return time_.us; }, [] { return time_.us; }}};
  std::unique_ptr<HttpSession> session_;
  request::Requests requests_;
  base::Buffer out_;
  std::string in_;
  std::vector<std::unique_ptr<MadeUp>> late_;
  Transcript told_;
};

// Whether the client's frames contain a GOAWAY.
inline bool has_goaway(std::string_view bytes) {
  constexpr size_t preface_bytes = 24, header_bytes = 9, type_at = 3;
  constexpr char goaway = 7;
  for (size_t at = preface_bytes; at + header_bytes <= bytes.size();) {
    if (bytes[at + type_at] == goaway) return true;
    at += header_bytes + wire::http2_peer::read_number(bytes.substr(at, type_at));
  }
  return false;
}

inline Transcript run(std::string_view bytes, const std::vector<size_t>& cuts, const Kind& kind) {
  static HttpWorker worker;
  Transcript told = Trial(kind, worker).run(bytes, cuts);
  told.has_goaway = kind.is_http2 && has_goaway(bytes);
  return told;
}

// The difference of two runs that end with a forward-auth request, whose body is not awaited. A
// broken body is only found if it arrives together with the request. So the last answers may
// differ.
inline std::string difference_but_for_the_last(const Transcript& broken, const Transcript& other) {
  const auto front = [](const std::string& answers) {
    return answers.substr(0, answers.rfind("HTTP/1.1 "));
  };
  if (!broken.closed || !other.closed) return "closed";
  if (!other.requests.starts_with(broken.requests)) return broken.requests + " / " + other.requests;
  if (front(broken.answers) != front(other.answers)) return broken.answers + " / " + other.answers;
  return {};
}

// The difference of two runs of the same bytes that is not allowed; empty: none.
inline std::string difference(const Transcript& whole, const Transcript& cut) {
  if (!whole.wrong.empty() || !cut.wrong.empty()) return whole.wrong + " / " + cut.wrong;
  // Two things depend on when answers are sent. Frames after the end of a request are a fault only
  // while its stream has no answer. Frames after a GOAWAY are ignored once all streams have
  // answers.
  const bool by_time =
      whole.has_goaway || whole.fault == "stream_closed" || cut.fault == "stream_closed";
  if (!by_time && whole.fault == "http" && cut.fault.empty())
    return difference_but_for_the_last(whole, cut);
  if (!by_time && (whole.closed != cut.closed || whole.fault != cut.fault))
    return "closed: " + whole.fault + " / " + cut.fault;
  if (whole.requests != cut.requests) return whole.requests + " / " + cut.requests;
  if (!by_time && whole.answers != cut.answers) return whole.answers + " / " + cut.answers;
  // A stream that was reset may have an answer or not.
  for (const auto& [stream, answer] : whole.streams)
    if (const auto other = cut.streams.find(stream); other != cut.streams.end())
      if (answer != other->second) return answer + " / " + other->second;
  return {};
}

}  // namespace sluice::http::split_trial
