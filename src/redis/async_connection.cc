#include "redis/async_connection.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/bounds.h"
#include "redis/errors.h"
#include "redis/script_call.h"

namespace sluice::redis {

namespace {

// A connection without a byte for this long, while an answer is overdue, counts as lost; so does an
// attempt to connect that takes as long.
constexpr int64_t silence_max_us = 1'000'000;
constexpr int64_t pause_min_us = 20'000, pause_max_us = 1'000'000;
constexpr size_t read_bytes = 64 << 10;

// The object that hiredis' reader creates for a reply: it passes the reply to the connection. The
// text is copied, as the reader moves its buffer before it returns.
struct Seen {
  Reply reply = Reply::text;
  std::string text;
};
thread_local Seen seen;
void* const made = &seen;

void* on_string(const redisReadTask* task, char* text, size_t size) {
  if (task->parent != nullptr) return made;
  seen.reply = task->type == REDIS_REPLY_ERROR ? Reply::error : Reply::text;
  seen.text.assign(text, size);
  return made;
}
// The size is an int in hiredis 0.14, and a size_t from 1.0 on.
template <class Size>
void* on_array(const redisReadTask* task, Size) {
  if (task->parent != nullptr) return made;
  seen.reply = Reply::text;
  seen.text.clear();
  return made;
}
void* on_integer(const redisReadTask* task, long long number) {
  if (task->parent != nullptr) return made;
  seen.reply = Reply::text;
  seen.text = std::to_string(number);
  return made;
}
void* on_nil(const redisReadTask* task) {
  if (task->parent != nullptr) return made;
  seen.reply = Reply::nil;
  seen.text.clear();
  return made;
}
void on_free(void*) {}

redisReplyObjectFunctions* functions() {
  // By name, as hiredis 1.0 has more members. What is null does not come in RESP2.
  static redisReplyObjectFunctions all = [] {
    redisReplyObjectFunctions its{};
    its.createString = on_string;
    its.createArray = on_array;
    its.createInteger = on_integer;
    its.createNil = on_nil;
    its.freeObject = on_free;
    return its;
  }();
  return &all;
}

std::string error_text(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace

int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void AsyncConnection::FreeReader::operator()(redisReader* reader) const {
  redisReaderFree(reader);
}

AsyncConnection::AsyncConnection(const Options& options, net::TlsContext* tls, net::Loop& loop,
                                 Owner& owner, uint64_t seed, Ticks ticks)
    : options_(options),
      tls_context_(tls),
      loop_(loop),
      owner_(owner),
      random_(static_cast<std::minstd_rand::result_type>(seed)),
      ticks_(ticks),
      window_(options.answer_within()) {}

AsyncConnection::~AsyncConnection() {
  close();
}

std::string AsyncConnection::name() const {
  return name_of(options_.nodes[node_ % options_.nodes.size()]);
}

void AsyncConnection::publish() {
  ConnectionState state = refused_ ? ConnectionState::refused : ConnectionState::down;
  if (phase_ == Phase::up) state = silent_ ? ConnectionState::silent : ConnectionState::up;
  state_.store(state, std::memory_order_relaxed);
}

bool AsyncConnection::takes() const {
  return (phase_ == Phase::up || first_) && !silent_ && !is_behind();
}

// Once an answer is overdue, what is behind it would be late too, unless it is known how much Redis
// answers in time.
bool AsyncConnection::is_behind() const {
  if (phase_ != Phase::up || silent_) return false;
  return !window_.takes(sent_.size()) || (late_ > 0 && !window_.is_known());
}

bool AsyncConnection::is_overdue(base::Time now) {
  return late_ < sent_.size() && sent_[late_].due_us <= now.us;
}

bool AsyncConnection::is_full() const {
  return sent_.size() >= base::bounds::redis_commands_max ||
         out_.size() - out_at_ >= base::bounds::redis_bytes_max;
}

void AsyncConnection::sent(const Sender& sender, base::Time due) {
  sent_.push({sender, due.us});
  window_.sent(sent_.size());
  wait_wanted_ = true;
  call_times_.queued(due.us);
  loop_.at_turn_end(*this);
}

void AsyncConnection::wait_for_replicas(unsigned replicas, base::Duration timeout) {
  wait_replicas_ = replicas;
  wait_count_ = std::to_string(replicas);
  wait_ms_ = std::to_string(timeout.us / 1000);
}

void AsyncConnection::append_wait() {
  if (wait_replicas_ == 0 || !std::exchange(wait_wanted_, false) || sent_.empty()) return;
  append_array(out_, 3);
  append_bulk(out_, std::string_view("WAIT"));
  append_bulk(out_, std::string_view(wait_count_));
  append_bulk(out_, std::string_view(wait_ms_));
  sent_.push({{}, sent_[sent_.size() - 1].due_us, false, true});
  window_.sent(sent_.size());
  call_times_.queued(sent_[sent_.size() - 1].due_us);
}

void AsyncConnection::deliver_held() {
  std::vector<Held> held;
  held.swap(held_);
  std::string texts;
  texts.swap(held_texts_);
  std::string_view rest = texts;
  for (const Held& one : held) {
    owner_.on_answer(one.sender, one.reply, rest.substr(0, one.size));
    rest.remove_prefix(one.size);
  }
  if (!held_.empty()) return;
  // Kept for the next use.
  held.clear();
  texts.clear();
  held_.swap(held);
  held_texts_.swap(texts);
}

void AsyncConnection::step_back(base::Duration by) {
  for (size_t i = 0; i < sent_.size(); ++i) sent_[i].due_us -= by.us;
  for (int64_t* const at : {&heard_us_, &retry_us_, &phase_due_us_})
    if (*at != INT64_MAX) *at -= by.us;
}

std::optional<base::Time> AsyncConnection::advance(base::Time now) {
  if (std::exchange(heard_, false)) heard_us_ = now.us;
  // If an address refuses, the next one is tried at once.
  while (phase_ == Phase::down && !lost_ && now.us >= retry_us_) connect(now);
  if ((phase_ == Phase::connecting || phase_ == Phase::greeting) && now.us >= phase_due_us_)
    lose("it does not answer");
  const int64_t deadline_us = options_.answer_within().us;
  // Read first: an answer that has arrived is not late, as it may be this process that was slow.
  if (phase_ == Phase::up && is_overdue(now)) read();
  int64_t silent_in_us = INT64_MAX;
  if (phase_ == Phase::up && !silent_ && (late_ > 0 || is_overdue(now))) {
    silent_in_us = answered_ticks_ + deadline_us - ticks_();
    silent_ = silent_in_us <= 0;
    publish();
  }
  while (is_overdue(now)) {
    // The silence is measured from the first overdue answer.
    if (late_ == 0) heard_us_ = now.us;
    const size_t at = late_++;
    if (sent_[at].waits) {
      wait_timeouts_.fetch_add(1, std::memory_order_relaxed);
      sent_[at].dropped = true;
      deliver_held();
    } else {
      // The owner may send meanwhile, and then `sent_` may move its elements.
      const Sender sender = sent_[at].sender;
      const bool dropped = owner_.on_late(sender);
      sent_[at].dropped = dropped;
    }
  }
  if (phase_ == Phase::up && late_ > 0 && now.us - heard_us_ >= silence_max_us)
    lose("it does not answer");
  if (phase_ != Phase::up && late_ > 0) forget_unsent();
  if (std::exchange(lost_, false)) {
    first_ = false;
    pause_us_ = std::clamp(2 * pause_us_, pause_min_us, pause_max_us);
    // Half of the pause, plus a random time up to the other half: servers that lost the same Redis
    // do not all reconnect at once.
    retry_us_ = now.us + pause_us_ / 2 + static_cast<int64_t>(random_()) % (pause_us_ / 2);
    const std::string news = name() + ": " + why_;
    if (news != told_) owner_.on_news(false, news + "; trying again");
    told_ = news;
  }
  int64_t next_us = INT64_MAX;
  if (phase_ == Phase::down) next_us = retry_us_;
  if (phase_ == Phase::connecting || phase_ == Phase::greeting) next_us = phase_due_us_;
  if (late_ < sent_.size()) next_us = std::min(next_us, sent_[late_].due_us);
  if (phase_ == Phase::up && late_ > 0) {
    next_us = std::min(next_us, heard_us_ + silence_max_us);
    if (!silent_) next_us = std::min(next_us, now.us + silent_in_us);
  }
  if (next_us == INT64_MAX) return std::nullopt;
  return base::Time{next_us};
}

void AsyncConnection::leave_node() {
  if (phase_ != Phase::up) return;
  doubtful_ = true;
  lose("it takes no writes");
}

void AsyncConnection::connect(base::Time now) {
  const auto addresses = owner_.addresses();
  phase_due_us_ = now.us + silence_max_us;
  if (addresses.empty()) {
    retry_us_ = now.us + pause_min_us;  // as soon as the names are resolved
    return;
  }
  const net::Address& address = addresses[next_address_++ % addresses.size()];
  node_ = address.node;
  untried_ = untried_ > 0 ? std::min(untried_, addresses.size()) - 1 : addresses.size() - 1;
  if (!open(address)) lose("cannot connect: " + error_text(errno));
}

bool AsyncConnection::open(const net::Address& address) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  stream_ = net::Stream::connecting(fd, tls_context_, options_.nodes[node_].host);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  phase_ = Phase::connecting;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
      errno != EINPROGRESS)
    return false;
  return loop_.watch(fd, *this);
}

void AsyncConnection::greet() {
  phase_ = Phase::greeting;
  reader_.reset(redisReaderCreateWithFunctions(functions()));
  greeting_error_.clear();
  greetings_ = 0;
  const auto command = [this](std::initializer_list<std::string_view> words) {
    std::vector<const char*> at;
    std::vector<size_t> sizes;
    for (const std::string_view word : words) {
      at.push_back(word.data());
      sizes.push_back(word.size());
    }
    char* text = nullptr;
    const auto size =
        redisFormatCommandArgv(&text, static_cast<int>(at.size()), at.data(), sizes.data());
    if (size < 0) return;
    greeting_out_.append(text, static_cast<size_t>(size));
    redisFreeCommand(text);
    ++greetings_;
  };
  greeting_out_.clear();
  if (!options_.username.empty())
    command({"AUTH", options_.username, options_.password});
  else if (!options_.password.empty())
    command({"AUTH", options_.password});
  if (options_.database != 0) command({"SELECT", std::to_string(options_.database)});
  command({"PING"});  // is it loading, or does it need a password?
  flush();
}

void AsyncConnection::on_greeted(Reply reply, std::string_view text) {
  if (reply == Reply::error && greeting_error_.empty()) greeting_error_ = text;
  if (--greetings_ > 0) return;
  if (!greeting_error_.empty()) {
    return;
  }
  phase_ = Phase::up;
  answered_ticks_ = ticks_();
  refused_ = false;
  untried_ = 0;
  connects_.fetch_add(1, std::memory_order_relaxed);
  publish();
  if (!doubtful_) log_up();
  loop_.at_turn_end(*this);
}

void AsyncConnection::log_up() {
  if (!std::exchange(was_up_, true) || !told_.empty()) owner_.on_news(true, name() + ": connected");
  told_.clear();
}

// Redis has decided something, so earlier trouble is over.
void AsyncConnection::confirm_up() {
  pause_us_ = 0;
  if (std::exchange(doubtful_, false)) log_up();
}

// The owner is notified by the next `advance`, which sets the pause: the owner is never called from
// within its own call.
void AsyncConnection::lose(const std::string& why) {
  if (phase_ == Phase::down && !stream_.is_open() && lost_) return;
  why_ = why;
  losses_.fetch_add(1, std::memory_order_relaxed);
  const bool was_connecting = phase_ == Phase::connecting;
  // A node that closed the connection by itself may be back soon, and another node is likely to be
  // a replica: the same address is tried first.
  if (phase_ == Phase::up && late_ == 0 && !doubtful_) --next_address_;
  close();
  phase_ = Phase::down;
  if (was_connecting && untried_ > 0) {
    retry_us_ = 0;
  } else {
    lost_ = true;
    retry_us_ = INT64_MAX;
    untried_ = 0;
    drop_all();
  }
  publish();
  owner_.on_change();
}

// Drops commands that were queued before there was a connection and are late: they must not be
// decided at some later time.
void AsyncConnection::forget_unsent() {
  drop_all();
  publish();
}

void AsyncConnection::drop_all() {
  first_ = silent_ = false;
  late_ = 0;
  // Redis has decided these; how many replicas have the writes is not known.
  if (!held_.empty()) {
    wait_timeouts_.fetch_add(1, std::memory_order_relaxed);
    deliver_held();
  }
  for (size_t i = 0; i < sent_.size(); ++i)
    if (!sent_[i].dropped && !sent_[i].waits) owner_.on_lost(sent_[i].sender);
  sent_.clear();
  call_times_.lost();
  window_.lost();
  out_.clear();
  out_at_ = 0;
}

void AsyncConnection::close() {
  if (!stream_.is_open()) return;
  loop_.unwatch(*this);
  stream_.close();
  reader_.reset();
  ended_ = false;
}

void AsyncConnection::on_turn_end() {
  if (phase_ != Phase::up) return;
  append_wait();
  window_.written(ticks_());
  flush();
}

void AsyncConnection::flush() {
  while (stream_.is_open()) {
    std::string& from = greeting_out_.empty() ? out_ : greeting_out_;
    size_t none = 0;
    size_t& at = greeting_out_.empty() ? out_at_ : none;
    if (greeting_out_.empty() && phase_ != Phase::up) return;
    if (at == from.size()) {
      if (at > 0) call_times_.written();
      from.clear();
      at = 0;
      return;
    }
    const ssize_t done = stream_.write(std::string_view(from).substr(at));
    if (done < 0 && errno == EAGAIN) return;
    if (done <= 0) return lose("lost: " + problem_of(stream_, errno));
    if (&from == &greeting_out_)
      from.erase(0, static_cast<size_t>(done));
    else
      at += static_cast<size_t>(done);
  }
}

void AsyncConnection::on_ready(bool readable, bool writable, bool ended) {
  ended_ |= ended;
  if (phase_ == Phase::connecting && (readable || writable)) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(stream_.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      lose("cannot connect: " + error_text(error));
      return;
    }
    if (!writable) return;
    greet();
  }
  if (readable && stream_.is_open()) read();
  if (writable && stream_.is_open()) flush();
  // With TLS a write may have to wait for readable data, and a read for a writable socket.
  if (readable && stream_.write_wants_read()) flush();
  if (writable && stream_.read_wants_write()) read();
}

void AsyncConnection::read() {
  thread_local std::unique_ptr<char[]> room(new char[read_bytes]);
  while (stream_.is_open()) {
    const ssize_t got = stream_.read(room.get(), read_bytes);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0)
      return lose("lost: " + (got == 0 ? "it closed the connection" : problem_of(stream_, errno)));
    redisReaderFeed(reader_.get(), room.get(), static_cast<size_t>(got));
    uint64_t answers = 0;
    for (;;) {
      void* reply = nullptr;
      if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK)
        return lose("lost: it does not speak Redis' protocol: " + std::string(reader_->errstr));
      if (reply == nullptr) break;
      heard_ = true;
      if (phase_ == Phase::up) ++answers;
      take(seen.reply, seen.text);
      if (!stream_.is_open()) return;
    }
    if (answers > 0) {
      answered_ticks_ = ticks_();
      window_.answered(answers, answered_ticks_);
    }
    if (reader_->len - reader_->pos > base::bounds::redis_reply_bytes_max)
      return lose("lost: its reply has more than " +
                  std::to_string(base::bounds::redis_reply_bytes_max) + " bytes");
    // The loop reports the end once only, so the socket is read until then.
    if (!ended_ && !stream_.may_have_more(static_cast<size_t>(got), read_bytes)) return;
  }
}

void AsyncConnection::take(Reply reply, std::string_view text) {
  if (phase_ == Phase::greeting) {
    on_greeted(reply, text);
    if (greetings_ > 0 || greeting_error_.empty()) return;
    refused_ = error_of(greeting_error_) == request::Error::auth_failed;
    return lose((refused_ ? "it does not let us in: " : "it says ") + greeting_error_ +
                remedy_of(greeting_error_, redis_account));
  }
  if (sent_.empty()) return lose("lost: it sent a reply without a request");
  const Sent of = sent_.pop();
  call_times_.answered();
  if (late_ > 0) {
    --late_;
    if (std::exchange(silent_, false)) publish();
    if (of.dropped && of.waits) deliver_held();  // answers that came since it was late
    if (of.dropped) return;
  }
  if (of.waits) {
    const bool enough = reply == Reply::text && !text.empty() &&
                        std::strtoull(std::string(text).c_str(), nullptr, 10) >= wait_replicas_;
    if (!enough) wait_timeouts_.fetch_add(1, std::memory_order_relaxed);
    return deliver_held();
  }
  if (reply != Reply::error && (pause_us_ != 0 || doubtful_)) [[unlikely]]
    confirm_up();
  if (wait_replicas_ > 0) {
    held_.push_back({of.sender, reply, static_cast<uint32_t>(text.size())});
    held_texts_ += text;
    return;
  }
  owner_.on_answer(of.sender, reply, text);
}

}  // namespace sluice::redis
