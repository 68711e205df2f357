#include "client/core.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

#include "client/looks_like.h"

namespace sluice::calls {
namespace {

client_result failure(client_errc error, std::string text) {
  client_result result;
  result.error = error;
  result.text = std::move(text);
  return result;
}

bool is_decision(client_verb verb) {
  return verb == client_verb::take || verb == client_verb::wait;
}

// May the server answer it when units are there?
bool may_wait(const client_request& request) {
  const bool makes_hold =
      request.verb == client_verb::reserve || request.verb == client_verb::acquire;
  return request.verb == client_verb::wait || (makes_hold && request.wait_for.count() > 0);
}

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

}  // namespace

char* Inbox::room(size_t bytes) {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (bytes_.size() > kept_bytes && bytes <= kept_bytes) {
      bytes_.resize(kept_bytes);
      bytes_.shrink_to_fit();
    }
  }
  if (bytes_.size() - end_ < bytes && begin_ > 0) {
    std::copy(bytes_.begin() + static_cast<ptrdiff_t>(begin_),
              bytes_.begin() + static_cast<ptrdiff_t>(end_), bytes_.begin());
    end_ -= begin_;
    begin_ = 0;
  }
  if (bytes_.size() - end_ < bytes) bytes_.resize(std::max(end_ + bytes, 2 * bytes_.size()));
  return bytes_.data() + end_;
}

Core::Core(const Dialect& dialect, std::vector<Target> hosts, const client_options& options,
           base::Time now, uint64_t seed)
    : dialect_(dialect),
      hosts_(std::move(hosts)),
      options_(options),
      pending_max_(options.pending_max > 0 ? options.pending_max : dialect.pending_max),
      sharder_(options.shard ? dialect.make_sharder(hosts_) : nullptr),
      random_(seed != 0 ? seed : random_seed()),
      now_(now) {
  for (uint32_t host = 0; host < hosts_.size(); ++host)
    for (size_t i = 0; i < options.connections; ++i) add_link(host, false);
  if (dialect.connects_at_once) start(now);
}

// xorshift64*: masks that a peer cannot foresee are not what keeps anything safe here.
uint32_t Core::entropy() {
  random_ ^= random_ >> 12;
  random_ ^= random_ << 25;
  random_ ^= random_ >> 27;
  return static_cast<uint32_t>((random_ * 0x2545F4914F6CDD1DULL) >> 32);
}

// ---- Calls ----

client_call_id Core::submit(const client_request& request, client_handler&& handler,
                            const client_call_options& options, base::Time now) {
  now_ = now;
  if (closed_)
    return end_at_once(request, std::move(handler), client_errc::closed, "the client is closed",
                       now);
  start(now);
  if (sharder_ == nullptr)
    return submit_to(0, hosts_.size(), request, std::move(handler), options, now);
  if (request.verb == client_verb::list || request.verb == client_verb::ping)
    return submit_to_all(request, std::move(handler), options, now);
  const size_t host = sharder_->shard_of(request.subject.type, request.subject.key);
  return submit_to(host, host + 1, request, std::move(handler), options, now);
}

// A list is what each shard tells of its own keys.
client_call_id Core::submit_to_all(const client_request& request, client_handler&& handler,
                                   const client_call_options& options, base::Time now) {
  struct Gathered {
    client_handler handler;
    client_result result;
    size_t left;
    size_t answered = 0;
    std::string type;
  };
  auto all = std::make_shared<Gathered>(
      Gathered{std::move(handler), {}, hosts_.size(), 0, std::string(request.subject.type)});
  for (size_t host = 0; host < hosts_.size(); ++host) {
    const auto gather = [this, all, host](client_result&& one) {
      if (one.error == client_errc::none) {
        ++all->answered;
        for (client_level& level : one.levels)
          if (sharder_->shard_of(all->type, level.name) == host)
            all->result.levels.push_back(std::move(level));
      } else {
        ++all->result.missing_hosts;
        all->result.text = std::move(one.text);
        all->result.error = one.error;
      }
      if (--all->left > 0) return;
      if (all->answered > 0) {
        all->result.error = client_errc::none;
        all->result.text.clear();
      }
      all->handler(std::move(all->result));
    };
    submit_to(host, host + 1, request, gather, options, now);
  }
  return 0;
}

client_call_id Core::submit_to(size_t host_first, size_t host_end, const client_request& request,
                               client_handler&& handler, const client_call_options& options,
                               base::Time now) {
  // Its answer would be taken for the next call's.
  if (request.no_answer && !dialect_.has_silent)
    return end_at_once(request, std::move(handler), client_errc::bad_request,
                       "no_answer: the protocol answers every request", now);
  if (calls_.used() >= pending_max_)
    return end_at_once(request, std::move(handler), client_errc::backlog,
                       "too many calls are under way (" + std::to_string(calls_.used()) + ")", now);
  demand_refused(host_first, host_end, now);
  const bool for_wait = dialect_.wait_blocks && may_wait(request);
  const uint32_t link = for_wait ? pick_for_wait(host_first, host_end) : pick(host_first, host_end);
  if (const std::string* refusal = refusal_of(host_first, host_end);
      link == no_index && refusal != nullptr)
    return end_at_once(request, std::move(handler), client_errc::refused, *refusal, now);
  if (link == no_index)
    return end_at_once(request, std::move(handler),
                       for_wait ? client_errc::backlog : client_errc::unavailable,
                       for_wait ? "too many waits are under way" : "no server is connected", now);
  const uint32_t index = calls_.add();
  const bool is_sent = may_send(*links_[link]);
  if (base::Done encoded = encode(request, link, index); !encoded) {
    calls_.remove(index);
    return end_at_once(request, std::move(handler), client_errc::bad_request,
                       std::move(encoded).problem().text, now);
  }
  Call& call = calls_[index];
  call.handler = std::move(handler);
  call.expected = {request.verb, request.each, static_cast<uint32_t>(request.several.size())};
  call.no_answer = request.no_answer;
  call.begun = now;
  call.state = is_sent ? Call::State::sent : Call::State::queued;
  if (options_.stand_in != nullptr && is_decision(request.verb))
    call.request = std::make_unique<OwnedRequest>(request);
  append_call(link, index);
  const client_call_id id = calls_.id_of(index);
  if (call.state == Call::State::queued) {
    links_[link]->queue.push(index);
    demand(link, now);
  } else {
    want_write(link);
    if (call.no_answer) {
      end_call(index, {}, false);
      return id;
    }
  }
  if (const auto timeout = timeout_of(request, options)) deadlines_.add(*timeout, now, id);
  return id;
}

bool Core::may_send(const Link& link) const {
  return link.phase == Link::Phase::ready && link.queue.empty() &&
         link.unwritten() < dialect_.output_bytes_max;
}

base::Done Core::encode(const client_request& request, uint32_t link, uint32_t index) {
  Link& one = *links_[link];
  base::Buffer& to = may_send(one) ? one.out : one.queue.bytes();
  EncodeContext context{hosts_[one.host], calls_.id_of(index), entropy(), words_, text_};
  return dialect_.encode(request, context, to);
}

client_call_id Core::end_at_once(const client_request& request, client_handler&& handler,
                                 client_errc error, std::string text, base::Time now) {
  const uint32_t index = calls_.add();
  Call& call = calls_[index];
  call.handler = std::move(handler);
  call.expected.verb = request.verb;
  call.state = Call::State::queued;
  call.begun = now;
  call.link = no_index;
  if (options_.stand_in != nullptr && is_unavailable(error) && is_decision(request.verb))
    call.request = std::make_unique<OwnedRequest>(request);
  end_call(index, failure(error, std::move(text)), false);
  return 0;
}

std::optional<base::Duration> Core::timeout_of(const client_request& request,
                                               const client_call_options& options) const {
  const auto given = options.timeout ? options.timeout : options_.timeout;
  const bool is_wait = may_wait(request);
  // A wait may take its own time besides. What cannot be represented never ends a call.
  const auto with_wait = [&request](int64_t us) -> std::optional<base::Duration> {
    const int64_t wait = std::max<int64_t>(0, request.wait_for.count());
    if (us > INT64_MAX - wait) return std::nullopt;
    return base::Duration{us + wait};
  };
  if (given) {
    const int64_t us = std::max<int64_t>(0, given->count());
    if (is_wait && !options.timeout) return with_wait(us);
    return us == client_never.count() ? std::nullopt : std::optional(base::Duration{us});
  }
  if (!is_wait) return dialect_.timeout;
  if (!dialect_.waits_have_timeout) return std::nullopt;
  return with_wait(dialect_.timeout.us);
}

bool Core::cancel(client_call_id id, base::Time now) {
  now_ = now;
  const uint32_t index = calls_.find(id);
  if (index == no_index) return false;
  give_up_call(index, client_errc::cancelled, "the call was cancelled", now);
  return true;
}

// Ends a call whose reply may still come.
void Core::give_up_call(uint32_t index, client_errc error, const char* text, base::Time now) {
  Call& call = calls_[index];
  const uint32_t link = call.link;
  const bool is_sent = call.state == Call::State::sent;
  const bool keeps_place = !is_sent || dialect_.in_order;
  end_call(index, failure(error, text), keeps_place);
  // The server ends a wait with its connection.
  if (links_[link]->is_for_waits && is_sent) end_link(link, client_errc::cancelled, "", now);
}

void Core::append_call(uint32_t link, uint32_t index) {
  Link& one = *links_[link];
  Call& call = calls_[index];
  call.link = link;
  call.next = no_index;
  call.previous = one.last;
  if (one.last == no_index)
    one.first = index;
  else
    calls_[one.last].next = index;
  one.last = index;
  ++one.calls;
}

void Core::remove_call(uint32_t index) {
  Call& call = calls_[index];
  if (call.link != no_index) {
    Link& link = *links_[call.link];
    (call.previous == no_index ? link.first : calls_[call.previous].next) = call.next;
    (call.next == no_index ? link.last : calls_[call.next].previous) = call.previous;
    --link.calls;
  }
  calls_.remove(index);
}

void Core::end_call(uint32_t index, client_result&& result, bool keeps_place) {
  Call& call = calls_[index];
  const client_verb verb = call.expected.verb;
  Completed& done = completed_.emplace_back();
  done.handler = std::move(call.handler);
  done.report = {verb, result.error, client_origin::server, false,
                 std::chrono::microseconds(now_.us - call.begun.us)};
  if (is_unavailable(result.error) && is_decision(verb)) {
    if (call.request != nullptr) {
      done.request = std::move(call.request);
    } else if (options_.on_unavailable != client_policy::error) {
      result.allowed = options_.on_unavailable == client_policy::allow;
      result.error = client_errc::none;
      result.origin = client_origin::on_unavailable;
    }
  }
  done.report.origin = result.origin;
  done.report.allowed = result.is_allowed();
  done.result = std::move(result);
  if (keeps_place)
    call.state = Call::State::ended;
  else
    remove_call(index);
}

// All calls of a link.
void Core::end_calls(uint32_t link, client_errc error, const std::string& text) {
  Link& one = *links_[link];
  while (one.first != no_index) {
    const uint32_t index = one.first;
    if (calls_[index].is_under_way())
      end_call(index, failure(error, text), false);
    else
      remove_call(index);
  }
  one.queue.clear();
}

void Core::close(base::Time now) {
  now_ = now;
  if (closed_) return;
  closed_ = true;
  for (uint32_t link = 0; link < links_.size(); ++link) {
    Link& one = *links_[link];
    if (one.phase == Link::Phase::ready) {
      one.codec->goodbye(one.out);
      want_write(link);
    }
    if (one.phase >= Link::Phase::connecting && one.phase <= Link::Phase::ready)
      actions_.push_back({Action::Kind::close, link});
    one.phase = Link::Phase::dead;
  }
  calls_.each_under_way([this](uint32_t index) {
    end_call(index, failure(client_errc::closed, "the client was closed"), true);
  });
}

// The links of the client's core: states, tries, and what is due when.

// The replies to the calls of one link.
class Core::LinkReplies final : public Replies {
 public:
  LinkReplies(Core& core, uint32_t link) : core_(core), link_(link) {}

  const Expected* oldest() override {
    // Before the connection is ready nothing was asked.
    const Link& link = *core_.links_[link_];
    if (link.phase != Link::Phase::ready || !link.has_sent()) return nullptr;
    return &core_.calls_[link.first].expected;
  }
  void answer_oldest(client_result&& result) override {
    const uint32_t index = core_.links_[link_]->first;
    if (core_.calls_[index].is_under_way())
      core_.end_call(index, std::move(result), false);
    else
      core_.remove_call(index);
  }
  const Expected* find(uint64_t id) override {
    const uint32_t index = core_.calls_.find(id);
    if (index == no_index) return nullptr;
    Call& call = core_.calls_[index];
    return call.link == link_ && call.state == Call::State::sent ? &call.expected : nullptr;
  }
  void answer(uint64_t id, client_result&& result) override {
    core_.end_call(core_.calls_.find(id), std::move(result), false);
  }

 private:
  Core& core_;
  const uint32_t link_;
};

// ---- Links ----

uint32_t Core::add_link(uint32_t host, bool is_for_waits) {
  links_.push_back(std::make_unique<Link>());
  links_.back()->host = host;
  links_.back()->is_for_waits = is_for_waits;
  return static_cast<uint32_t>(links_.size() - 1);
}

void Core::start(base::Time now) {
  if (started_) return;
  started_ = true;
  for (uint32_t link = 0; link < links_.size(); ++link) begin_try(link, now);
}

bool Core::is_refused(const Link& link) const {
  return link.phase == Link::Phase::idle && !link.refusal.empty() &&
         now_.us - link.ended.us < refused_pause.us;
}

// Why no call is sent to these hosts; null: the reason is another.
const std::string* Core::refusal_of(size_t host_first, size_t host_end) const {
  for (const auto& link : links_)
    if (link->host >= host_first && link->host < host_end && is_refused(*link))
      return &link->refusal;
  return nullptr;
}

// The first host that is connected; else the first that may be soon.
uint32_t Core::pick(size_t host_first, size_t host_end) {
  using Phase = Link::Phase;
  const auto rank = [this](const Link& link) -> unsigned {
    switch (link.phase) {
      case Phase::ready:
        return 0;
      case Phase::connecting:
      case Phase::opening:
        return 1;
      case Phase::idle:
        return is_refused(link) ? 4 : 2;
      case Phase::waiting:
        return dialect_.away.queue_while_waiting ? 3 : 4;
      case Phase::dead:
        return 4;
    }
    return 4;
  };
  uint32_t best = no_index;
  unsigned best_rank = 4;
  for (uint32_t i = 0; i < links_.size(); ++i) {
    const Link& link = *links_[i];
    if (link.is_for_waits || link.host < host_first || link.host >= host_end) continue;
    const unsigned its = rank(link);
    const bool is_better =
        its < best_rank || (best != no_index && its == best_rank &&
                            link.host == links_[best]->host && link.calls < links_[best]->calls);
    if (!is_better) continue;
    best = i;
    best_rank = its;
  }
  return best;
}

uint32_t Core::pick_for_wait(size_t host_first, size_t host_end) {
  const uint32_t model = pick(host_first, host_end);
  if (model == no_index && refusal_of(host_first, host_end) != nullptr) return no_index;
  const size_t host = model == no_index ? host_first : links_[model]->host;
  size_t count = 0;
  uint32_t found = no_index;
  for (uint32_t i = 0; i < links_.size(); ++i) {
    const Link& link = *links_[i];
    if (!link.is_for_waits) continue;
    ++count;
    if (link.calls == 0 && link.host == host &&
        (found == no_index || link.phase == Link::Phase::ready))
      found = i;
  }
  if (found != no_index) return found;
  return count < options_.waits_max ? add_link(static_cast<uint32_t>(host), true) : no_index;
}

void Core::demand(uint32_t link, base::Time now) {
  Link& one = *links_[link];
  if (one.phase != Link::Phase::idle) return;
  const base::Time earliest{one.ended.us + (one.is_for_waits ? 0 : dialect_.reconnect.first.us)};
  if (earliest <= now) {
    begin_try(link, now);
    return;
  }
  one.phase = Link::Phase::waiting;
  one.next_try = earliest;
}

// A link whose user was refused is tried again by calls alone, and calls go to what is connected.
void Core::demand_refused(size_t host_first, size_t host_end, base::Time now) {
  for (uint32_t i = 0; i < links_.size(); ++i) {
    const Link& link = *links_[i];
    if (link.phase == Link::Phase::idle && !link.refusal.empty() && !link.is_for_waits &&
        link.host >= host_first && link.host < host_end && !is_refused(link))
      demand(i, now);
  }
}

void Core::begin_try(uint32_t link, base::Time now) {
  Link& one = *links_[link];
  one.phase = Link::Phase::connecting;
  one.phase_since = now;
  actions_.push_back({Action::Kind::connect, link});
}

void Core::on_connected(uint32_t link, base::Time now) {
  now_ = now;
  Link& one = *links_[link];
  if (one.phase != Link::Phase::connecting) return;
  one.phase = Link::Phase::opening;
  one.phase_since = one.last_read = now;
  one.was_understood = false;
  one.codec = dialect_.make_codec(hosts_[one.host]);
  one.codec->open(one.out);
  if (!one.out.empty()) want_write(link);
  if (one.codec->is_open()) open(link);
}

void Core::open(uint32_t link) {
  Link& one = *links_[link];
  one.phase = Link::Phase::ready;
  one.tries = 0;
  one.wait = one.wait_before = {};
  one.refusal.clear();
  report(client_connection_report::event::connected, link, "");
  one.last_written = now_;
  send_queued(link);
}

// Requests that waited leave as far as the bound allows, except for those that have ended.
void Core::send_queued(uint32_t link) {
  Link& one = *links_[link];
  while (!one.queue.empty() && one.unwritten() < dialect_.output_bytes_max) {
    const RequestQueue::Request request = one.queue.front();
    Call& call = calls_[request.call];
    if (call.is_under_way()) {
      one.out.append(request.bytes);
      call.state = Call::State::sent;
      if (call.no_answer) end_call(request.call, {}, false);
    } else {
      remove_call(request.call);
    }
    one.queue.pop();
  }
  if (one.unwritten() > 0) want_write(link);
}

void Core::on_failed(uint32_t link, const std::string& text, base::Time now) {
  now_ = now;
  const Link& one = *links_[link];
  const bool is_foreign = one.phase == Link::Phase::ready && !one.was_understood;
  end_link(link, client_errc::disconnected, is_foreign ? text + looks_like(one.in.view()) : text,
           now);
}

void Core::on_read(uint32_t link, size_t bytes, base::Time now) {
  now_ = now;
  Link& one = *links_[link];
  one.in.add(bytes);
  one.last_read = now;
  if (one.codec == nullptr) return;
  LinkReplies replies(*this, link);
  for (bool is_open = one.codec->is_open();; is_open = true) {
    const size_t out_before = one.out.size();
    CodecRead read = one.codec->read(one.in.view(), replies, one.out);
    const bool is_foreign =
        read.error == client_errc::bad_reply ||
        (read.error == client_errc::unavailable && read.consumed == 0);  // of a handshake
    if (is_foreign && !one.was_understood) read.problem += looks_like(one.in.view());
    one.was_understood |= read.consumed > 0;
    one.in.consume(read.consumed);
    if (one.out.size() != out_before) want_write(link);
    if (read.problem.empty() && one.in.view().size() > reply_bytes_max)
      read = {0, client_errc::bad_reply, "the reply is too long"};
    one.codec_bytes += one.out.size() - out_before;
    if (read.problem.empty() && one.codec_bytes > dialect_.output_bytes_max)
      read = {0, client_errc::disconnected, "the server does not read what it asks for"};
    if (!read.problem.empty()) {
      end_link(link, read.error, read.problem, now);
      return;
    }
    // What follows a handshake is read before requests are sent, as it answers none.
    if (is_open || !one.codec->is_open()) break;
  }
  if (one.phase == Link::Phase::opening && one.codec->is_open()) open(link);
}

// `error`: of the calls that were sent.
void Core::end_link(uint32_t link, client_errc error, const std::string& text, base::Time now) {
  Link& one = *links_[link];
  using Phase = Link::Phase;
  if (one.phase < Phase::connecting || one.phase > Phase::ready) return;
  const bool was_ready = one.phase == Phase::ready;
  const bool is_refusal = !was_ready && error == client_errc::refused;
  one.refusal = is_refusal ? text : "";
  actions_.push_back({Action::Kind::close, link});
  if (error != client_errc::cancelled)
    report(was_ready ? client_connection_report::event::disconnected
                     : client_connection_report::event::attempt_failed,
           link, text);
  one.codec.reset();
  one.out.clear();
  one.written = one.codec_bytes = 0;
  one.in.clear();
  const bool keeps_queue =
      !was_ready && !is_refusal && dialect_.away.keep_on_failed_attempt && !one.is_for_waits;
  if (!keeps_queue) {
    const client_errc told = was_ready || is_refusal ? error : client_errc::unavailable;
    end_calls(link, told, text);
  }
  plan_next_try(link, now);
}

void Core::plan_next_try(uint32_t link, base::Time now) {
  Link& one = *links_[link];
  const Reconnect& rule = dialect_.reconnect;
  one.ended = now;
  one.phase = Link::Phase::idle;
  if (one.is_for_waits) return;
  if (!one.refusal.empty()) {
    report(client_connection_report::event::gave_up, link, one.refusal);
    return;
  }
  if (rule.given_up != Reconnect::GivenUp::never_gives_up && one.tries >= rule.tries) {
    if (rule.given_up == Reconnect::GivenUp::for_ever) {
      one.phase = Link::Phase::dead;
      end_calls(link, client_errc::unavailable, "the server is away");
    }
    report(client_connection_report::event::gave_up, link,
           "no connection in " + std::to_string(rule.tries + 1) + " tries");
    return;
  }
  const bool is_first = one.tries++ == 0;
  const base::Duration last = one.wait;
  switch (rule.growth) {
    case Reconnect::Growth::none:
      one.wait = rule.first;
      break;
    case Reconnect::Growth::exponential: {
      if (is_first && !rule.grows_first) {
        one.wait = rule.first;
        break;
      }
      const int64_t from = is_first ? rule.first.us : last.us;
      const double ms = std::floor(static_cast<double>(from / 1'000) * rule.factor);
      one.wait = std::min(rule.longest, base::milliseconds(static_cast<int64_t>(ms)));
      break;
    }
    case Reconnect::Growth::fibonacci:
      // 1, 1, 2, 3, 5 ... times the first
      one.wait = is_first ? rule.first
                          : std::min(rule.longest, base::Duration{last.us + one.wait_before.us});
      one.wait_before = is_first ? base::Duration{} : last;
      break;
  }
  one.phase = Link::Phase::waiting;
  one.next_try = {now.us + (rule.spread ? drawn_from(one.wait) : one.wait).us};
}

// Clients that lost one server together come back one after the other.
base::Duration Core::drawn_from(base::Duration wait) {
  const int64_t half = wait.us / 2;
  const auto choices = static_cast<uint64_t>(wait.us - half + 1);
  return {half + static_cast<int64_t>((uint64_t{entropy()} * choices) >> 32)};
}

std::string_view Core::output(uint32_t link) {
  Link& one = *links_[link];
  one.has_write_action = false;
  return one.out.view().substr(one.written);
}

void Core::on_written(uint32_t link, size_t bytes, base::Time now) {
  now_ = now;
  Link& one = *links_[link];
  one.written += bytes;
  if (bytes > 0) one.last_written = now;
  one.codec_bytes -= std::min(one.codec_bytes, bytes);
  if (one.unwritten() == 0) {
    one.written = 0;
    if (one.out.size() > Inbox::kept_bytes)
      one.out = {};
    else
      one.out.clear();
  } else if (one.written >= dialect_.output_bytes_max) {
    base::Buffer rest;
    rest.append(one.out.view().substr(one.written));
    one.out = std::move(rest);
    one.written = 0;
  }
  if (one.phase == Link::Phase::ready && !one.queue.empty() &&
      one.unwritten() <= dialect_.output_bytes_max / 2)
    send_queued(link);
}

void Core::want_write(uint32_t link) {
  Link& one = *links_[link];
  if (one.has_write_action) return;
  one.has_write_action = true;
  actions_.push_back({Action::Kind::write, link});
}

size_t Core::ready_links() const {
  return static_cast<size_t>(std::count_if(links_.begin(), links_.end(), [](const auto& link) {
    return link->phase == Link::Phase::ready && !link->is_for_waits;
  }));
}

void Core::report(client_connection_report::event what, uint32_t link, std::string text) {
  if (options_.on_connection) reports_.push_back({what, target(link).name, std::move(text)});
}

// ---- Time ----

void Core::tick(base::Time now) {
  now_ = now;
  deadlines_.pass(now, calls_, [this, now](client_call_id id) {
    give_up_call(calls_.find(id), client_errc::timeout, "no reply in time", now);
  });
  for (uint32_t link = 0; link < links_.size(); ++link) {
    const Link& one = *links_[link];
    if (one.phase == Link::Phase::waiting && one.next_try <= now) {
      begin_try(link, now);
    } else if ((one.phase == Link::Phase::connecting || one.phase == Link::Phase::opening) &&
               now.us - one.phase_since.us >= attempt_max.us) {
      end_link(link, client_errc::unavailable, "no answer in time", now);
    } else {
      check_stall(link, now);
    }
  }
}

// When a link is given up whose oldest call has ended without a reply, or whose oldest request that
// waits for the socket has ended; no_time: not now.
base::Time Core::stall_time(const Link& link) const {
  const int64_t after = options_.stalled_after.count();
  if (after <= 0 || link.phase != Link::Phase::ready) return no_time;
  int64_t time = no_time.us;
  if (link.has_sent() && calls_[link.first].state == Call::State::ended)
    time = std::max(link.last_read.us, calls_[link.first].begun.us) + after;
  if (!link.queue.empty()) {
    const Call& waits = calls_[link.queue.front_call()];
    if (waits.state == Call::State::ended)
      time = std::min(time, std::max(link.last_written.us, waits.begun.us) + after);
  }
  return {time};
}

void Core::check_stall(uint32_t link, base::Time now) {
  const Link& one = *links_[link];
  if (stall_time(one) <= now)
    end_link(link, client_errc::disconnected,
             one.has_sent() && calls_[one.first].state == Call::State::ended
                 ? "the server has stopped answering"
                 : "the server has stopped reading",
             now);
}

base::Time Core::next_time() const {
  base::Time first = deadlines_.next();
  for (const auto& link : links_) {
    base::Time its = no_time;
    if (link->phase == Link::Phase::waiting)
      its = link->next_try;
    else if (link->phase == Link::Phase::connecting || link->phase == Link::Phase::opening)
      its = {link->phase_since.us + attempt_max.us};
    else
      its = stall_time(*link);
    first = std::min(first, its);
  }
  return first;
}

}  // namespace sluice::calls
