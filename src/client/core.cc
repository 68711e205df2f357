#include "client/core.h"

#include <algorithm>
#include <chrono>
#include <random>

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
  const bool for_wait = dialect_.wait_blocks && request.verb == client_verb::wait;
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
  const bool is_wait = request.verb == client_verb::wait;
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

}  // namespace sluice::calls
