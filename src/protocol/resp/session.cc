#include "protocol/resp/session.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "base/bounds.h"
#include "base/buffer.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"

namespace sluice::resp {

bool Transaction::add(std::span<const std::string_view> words) {
  size_t more = (1 + words.size()) * sizeof(uint32_t);
  for (const std::string_view word : words) more += word.size();
  const size_t all = stored_.size() + more;
  if (size_ == commands_max || all > bytes_max) return false;
  // A vector alone would grow to twice the bound.
  if (all > stored_.capacity())
    stored_.reserve(std::min(bytes_max, std::max(all, 2 * stored_.capacity())));
  put(static_cast<uint32_t>(words.size()));
  for (const std::string_view word : words) {
    put(static_cast<uint32_t>(word.size()));
    stored_.insert(stored_.end(), word.begin(), word.end());
  }
  ++size_;
  return true;
}

void Transaction::put(uint32_t number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  stored_.insert(stored_.end(), bytes, bytes + sizeof number);
}

uint32_t Transaction::take(size_t& at) const {
  uint32_t number;
  std::memcpy(&number, stored_.data() + at, sizeof number);
  at += sizeof number;
  return number;
}

std::span<const std::string_view> Transaction::next() {
  next_.clear();
  next_at_ = at_;
  for (uint32_t left = take(next_at_); left > 0; --left) {
    const uint32_t bytes = take(next_at_);
    next_.emplace_back(stored_.data() + next_at_, bytes);
    next_at_ += bytes;
  }
  return next_;
}

void Transaction::pop() {
  at_ = next_at_;
  ++done_;
}

namespace {

using base::bounds::batch_requests_max;

// The first word of the error if the store cannot decide. It tells clients that they may try again,
// unless memory is lacking or the stored value has another type.
std::string_view first_word(request::Error cause) {
  switch (cause) {
    case request::Error::none:
    case request::Error::no_number:
      return "ERR ";
    case request::Error::memory:
    case request::Error::no_space:
      return "OOM ";
    case request::Error::overloaded:
      return "BUSY ";
    case request::Error::wrong_type:
      return "WRONGTYPE ";
    default:
      return "TRYAGAIN ";
  }
}

// Is it of a command that waits for units? In a transaction none waits.
bool waits(const request::Request& request) {
  return request.verb == request::Verb::wait ||
         (request.verb == request::Verb::reserve && request.message->wait_at_most.us > 0);
}

const RespOptions default_options;

// The most bytes of answers in a batch before it is sent; the last answer may exceed it.
constexpr size_t batch_bytes_max = size_t{64} << 10;

// Replies are written in the version that is set when they are written. So requests before such a
// command belong to an earlier batch.
bool changes_version(std::string_view name) {
  return name.size() == 5 && (is_word(name, "HELLO") || is_word(name, "RESET"));
}

}  // namespace

std::string_view RespSession::database_text(uint32_t database) {
  static constexpr std::string_view texts[] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                               "8", "9", "10", "11", "12", "13", "14", "15"};
  return texts[database];
}

std::string RespSession::error_of(const request::Verdict& verdict) {
  if (verdict.error == request::not_permitted)
    return "NOPERM this user has no permissions to access a counter of the command";
  const bool stops = verdict.error == request::server_stops;
  return std::string(stops ? "TRYAGAIN " : first_word(verdict.cause)) + std::string(verdict.error);
}

RespSession::RespSession(const request::Peer& peer)
    : peer_(peer),
      options_(peer.options == nullptr ? default_options
                                       : static_cast<const RespOptions&>(*peer.options)),
      connections_(*options_.connections),
      identity_(peer.access, peer.certificate),
      reader_(options_.bounds),
      id_(++connections_.last_id) {}

RespSession::~RespSession() {
  if (waiting_) --connections_.waiting;
}

request::Received RespSession::receive(std::string_view in, bool, request::Requests& requests,
                                       base::Buffer&) {
  if (closing_) return {in.size(), true};
  using Found = wire::RespCommandReader::Found;
  requests_ = &requests;
  identity_.refresh();
  texts_.clear();
  ends_batch_ = false;
  written_ = 0;
  size_t consumed = 0;
  for (size_t taken = 0; taken < batch_requests_max && !is_batch_full(); ++taken) {
    const auto result = reader_.next(in.substr(consumed), texts_);
    if (taken > 0 && result.found == Found::command && changes_version(reader_.words()[0])) break;
    if (result.found == Found::command) {
      if (executed_ == nullptr) {
        silent_ = off_ || skip_;
        skip_ = false;
        ask(reader_.words());
      } else if (!executed_->is_done()) {
        execute_some();
      } else {
        executed_.reset();
      }
      // The transaction is freed only after its last batch was decided and the replies were
      // written, because requests contain views into it. Until then EXEC is read again.
      if (executed_ != nullptr && executed_->is_done() && requests.size() == 0) executed_.reset();
      if (executed_ != nullptr) break;
    }
    consumed += result.consumed;
    if (result.found == Found::incomplete) break;
    if (result.found != Found::command) {
      closing_ = true;
      fault_ = result.found == Found::http ? "http" : "protocol";
    }
    if (closing_) return {in.size(), true};
    if (waiting_) break;
  }
  reader_.release();
  return {consumed, false};
}

bool RespSession::is_batch_full() const {
  return ends_batch_ || written_ >= batch_bytes_max || requests_->size() >= batch_requests_max;
}

bool RespSession::reply(const request::Request& request, const request::Verdict& verdict,
                        base::Time now, base::Buffer& out) {
  if (!facts_.since) [[unlikely]]
    facts_.since = now;
  wire::RespWriter writer(out, version());
  if (waits(request) && std::exchange(waiting_, false)) --connections_.waiting;
  if ((request.note & silent) != 0) return true;
  switch (kind_of(request.note)) {
    case cell:
    case crab:
    case redis:
      if (request.note == cell && options_.cell_shared &&
          verdict.cause == request::Error::wrong_type)
        writer.error("WRONGTYPE Operation against a key holding the wrong kind of value");
      else if (!verdict.error.empty())
        writer.error(error_of(verdict));
      else if (verdict.tightest == nullptr)
        writer.error(no_rule);
      else
        append_throttle_reply(request.note == cell   ? limit::Algorithm::gcra_cell
                              : request.note == crab ? limit::Algorithm::gcra_crab
                                                     : limit::Algorithm::gcra_redis,
                              *verdict.tightest, writer);
      break;
    case increx:
      if (!verdict.error.empty())
        writer.error(error_of(verdict));
      else if (verdict.tightest == nullptr)
        writer.error(no_rule);
      else
        append_increx_reply(*verdict.tightest, request.cost, writer);
      break;
    case bulk:
      writer.bulk(request.tag);
      break;
    case time_of_day:
      writer.list(2);
      writer.bulk(std::to_string(now.us / 1'000'000));
      writer.bulk(std::to_string(now.us % 1'000'000));
      break;
    case own_line:
      writer.bulk(line_of_client(now));
      break;
    case ready:
      out.append(request.tag);
      break;
    case charged_once:
      reply_once(verdict, now, writer);
      break;
    case five:
    case five_and_name:
    case left_and_limit:
    case six:
    case six_and_name:
    case explanation:
    case waited:
      reply_sluice(request, verdict, now, writer);
      break;
    case hold_reply:
    case holds_reply:
    case renewal:
      reply_hold(request, verdict, writer);
      break;
    default:
      reply_gathered(request, verdict, writer);
  }
  return true;
}

request::SessionState RespSession::state() const {
  return {.holds_back = waiting_,
          .waits_for_units = waiting_,
          .may_pause = open_ == nullptr,
          .unfinished_bytes = (open_ == nullptr ? 0 : open_->bytes()) +
                              (executed_ == nullptr ? 0 : executed_->bytes()),
          .oldest_unfinished = open_ == nullptr ? 0 : transactions_};
}

request::Fault RespSession::fault() const {
  return {fault_, fault_ == "protocol" ? std::string_view(reader_.error()) : std::string_view()};
}

void RespSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  wire::RespWriter writer(out, version());
  if (ending == request::Ending::refused) return writer.error("ERR " + std::string(why));
  if (ending == request::Ending::announced && !off_ && fault_ == "protocol")
    writer.error(reader_.error());
}

// ---- Answers ----

void RespSession::commit(uint32_t note, std::string_view tag) {
  if (silent_) return;
  requests_->open();
  requests_->commit({.verb = request::Verb::noop, .note = note, .tag = tag});
}

void RespSession::answer(std::string_view bytes) {
  commit(ready, bytes);
}

void RespSession::answer_bulk(std::string_view text) {
  commit(bulk, requests_->hold(text));
}

void RespSession::answer_error(std::string_view text) {
  answer_with([&](wire::RespWriter& out) { out.error(text); });
}

void RespSession::answer_malformed(std::string_view text) {
  report(request::malformed_code, text);
  answer_error(text);
}

void RespSession::report(std::string_view code, std::string_view example) const {
  if (peer_.listener != nullptr) peer_.listener->refused(code, example);
}

void RespSession::wrong_count(std::string_view command) {
  answer_malformed("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

void RespSession::unknown_subcommand(Words words, std::string_view command) {
  const std::string refusal = refusal_of(words);
  answer_malformed(!refusal.empty() ? refusal
                                    : "ERR unknown subcommand '" +
                                          std::string(words[1].substr(0, shown_bytes_max)) +
                                          "'. Try " + std::string(command) + " HELP.");
}

void RespSession::unknown(Words words) {
  if (const std::string refusal = refusal_of(words); !refusal.empty())
    return answer_malformed(refusal);
  std::string shown;
  for (const std::string_view word : words.subspan(1)) {
    if (shown.size() >= shown_bytes_max) break;
    shown += "'" + std::string(word.substr(0, shown_bytes_max - shown.size())) + "' ";
  }
  const std::string error =
      "ERR unknown command '" + std::string(words[0].substr(0, shown_bytes_max)) + "'";
  report(request::malformed_code, error);  // without the arguments, which may be secrets
  answer_error(error + ", with args beginning with: " + shown);
}

// ---- Commands ----

void RespSession::ask(Words words) {
  const CommandEntry* entry = find_command(words[0]);
  if (entry != nullptr && !is_answered(*entry)) entry = nullptr;
  const auto count = static_cast<int>(words.size());
  const bool fits =
      entry != nullptr && (entry->throttles != limit::Algorithm::deny ||
                           (entry->arity > 0 ? count == entry->arity : count >= -entry->arity));
  if (!fits) {
    if (open_ != nullptr) open_->fail();
    return entry == nullptr ? unknown(words) : wrong_count(entry->name);
  }
  if (!is_permitted(*entry)) {
    if (open_ != nullptr) open_->fail();
    return;
  }
  if (entry->group == "transactions") return transact(*entry, words);
  const bool at_once = entry->name == "quit" || entry->name == "reset";
  if (open_ != nullptr && !at_once) {
    if (entry->name == "client" && is_word(words[1], "REPLY")) {
      open_->fail();
      return answer("-ERR CLIENT REPLY is not allowed in transactions\r\n");
    }
    return queue(words);
  }
  if (identity_.is_limited()) [[unlikely]]
    return run_guarded(*entry, words);
  run(*entry, words);
}

// Runs a command of a user with limited rights.
void RespSession::run_guarded(const CommandEntry& entry, Words words) {
  if (!entry.right) return run(entry, words);
  const size_t first = requests_->size();
  std::shared_ptr<const access::User> user = identity_.limited();
  run(entry, words);
  const bool gives_back =
      entry.throttles != limit::Algorithm::deny && throttle_.error.empty() && throttle_.cost < 0;
  requests_->guard(first, std::move(user), gives_back ? access::Right::put : *entry.right);
}

// If it is not, answers with the error.
bool RespSession::is_permitted(const CommandEntry& entry) {
  if (!identity_.is_known() && !entry.is_open()) [[unlikely]] {
    report("login", "NOAUTH, at the command " + std::string(entry.name));
    answer("-NOAUTH Authentication required.\r\n");
    return false;
  }
  if (!entry.right || identity_.may(*entry.right)) [[likely]]
    return true;
  refuse_right(entry.name);
  return false;
}

void RespSession::refuse_right(std::string_view command) {
  const std::string error = "NOPERM User " + identity_.user() + " has no permissions to run the '" +
                            std::string(command) + "' command";
  report("forbidden", error);
  answer_error(error);
}

// Is the command turned on by the configuration?
bool RespSession::is_answered(const CommandEntry& entry) const {
  const auto answers = [&](CommandFamily family) {
    return options_.answers[static_cast<size_t>(family)];
  };
  switch (entry.throttles) {
    case limit::Algorithm::gcra_cell:
      return answers(CommandFamily::cell);
    case limit::Algorithm::gcra_crab:
      return answers(CommandFamily::throttle);
    case limit::Algorithm::gcra_redis:
      return answers(CommandFamily::gcra);
    case limit::Algorithm::fixed_window:  // INCREX, in other words SLUICE.TAKE KEY
      return answers(CommandFamily::sluice) && options_.inline_limits;
    default:
      return entry.group != "sluice" || answers(CommandFamily::sluice);
  }
}

// The number of words must have been checked.
void RespSession::run(const CommandEntry& entry, Words words) {
  if (entry.throttles == limit::Algorithm::fixed_window) return take_window(words);
  if (entry.throttles != limit::Algorithm::deny) return throttle(entry.throttles, words);
  const std::string_view name = entry.name;
  if (name == "ping") {
    if (words.size() > 2) return wrong_count(name);
    return words.size() == 2 ? answer_bulk(words[1]) : answer("+PONG\r\n");
  }
  if (name == "echo") return answer_bulk(words[1]);
  if (name == "hello") return hello(words);
  if (name == "auth") return auth(words);
  if (name == "select") return select(words[1]);
  if (name == "client") return client(words);
  if (name == "command") return command(words);
  if (name == "config") return config(words);
  if (name == "info") return info(words.subspan(1));
  if (name == "cluster") return answer("-ERR This instance has cluster support disabled\r\n");
  if (name == "reset") return reset();
  if (name == "time") return commit(time_of_day, {});
  if (entry.group == "sluice") return sluice(words);
  if (entry.group == "keys") return look_at_keys(entry, words.subspan(1));
  answer(ok);  // asking, readonly, readwrite, quit
  if (name == "quit") closing_ = true;
}

// ---- Transactions ----

// MULTI, EXEC, DISCARD, WATCH and UNWATCH. WATCH has no effect, because these commands read no key
// that another client could change in between.
void RespSession::transact(const CommandEntry& entry, Words words) {
  if (entry.name == "multi") {
    if (open_ != nullptr) return answer("-ERR MULTI calls can not be nested\r\n");
    open_ = std::make_unique<Transaction>();
    ++transactions_;
    return answer(ok);
  }
  if (entry.name == "exec") return execute();
  if (entry.name == "discard") {
    if (open_ == nullptr) return answer("-ERR DISCARD without MULTI\r\n");
    open_.reset();
    return answer(ok);
  }
  if (open_ == nullptr) return answer(ok);
  if (entry.name == "watch") return answer("-ERR WATCH inside MULTI is not allowed\r\n");
  queue(words);  // unwatch
}

void RespSession::queue(Words words) {
  if (open_->add(words)) return answer("+QUEUED\r\n");
  open_->fail();
  answer("-ERR too many commands, or bytes of them, between MULTI and EXEC\r\n");
}

// Executes the commands in the order in which they were queued, in batches of the usual size.
// Requests of other clients may be decided in between; a denied command does not undo the others.
void RespSession::execute() {
  if (open_ == nullptr) return answer("-ERR EXEC without MULTI\r\n");
  std::unique_ptr<Transaction> transaction = std::move(open_);
  if (transaction->failed())
    return answer("-EXECABORT Transaction discarded because of previous errors.\r\n");
  executed_ = std::move(transaction);
  answer_with([&](wire::RespWriter& out) { out.list(executed_->size()); });
  execute_some();
}

void RespSession::execute_some() {
  executing_ = true;
  for (; !executed_->is_done() && !is_batch_full(); executed_->pop()) {
    const Words words = executed_->next();
    if (changes_version(words[0]) && requests_->size() > 0) break;
    const CommandEntry& entry = *find_command(words[0]);
    if (!is_permitted(entry)) continue;  // the user's rights may have changed since it was queued
    if (entry.group == "transactions")
      answer(ok);  // unwatch
    else if (identity_.is_limited())
      run_guarded(entry, words);
    else
      run(entry, words);
  }
  executing_ = false;
}

void RespSession::throttle(limit::Algorithm algorithm, Words words) {
  if (!read_throttle(algorithm, words, throttle_)) return answer_malformed(throttle_.error);
  if (throttle_.cost < 0 && !identity_.may(access::Right::put)) [[unlikely]]
    return refuse_right(command_of(algorithm));  // a negative quantity gives units back
  if (algorithm == limit::Algorithm::gcra_cell && options_.cell_shared && facts_.database != 0)
    return answer_error(
        "ERR the keys that CL.THROTTLE shares with redis-cell (resp.cell_shared) are those of "
        "database 0 alone");
  if (algorithm == limit::Algorithm::gcra_crab && options_.throttle_true_reset)
    throttle_.limit = limit::gcra::telling_full(throttle_.limit);
  const uint32_t note = algorithm == limit::Algorithm::gcra_cell   ? cell
                        : algorithm == limit::Algorithm::gcra_crab ? crab
                                                                   : redis;
  requests_->open();
  requests_->add(request::Entry{command_entry, command_of(algorithm)});
  requests_->add(request::Entry{database_entry, database_text(facts_.database)});
  requests_->add(request::Entry{key_entry, throttle_.key});
  requests_->add(throttle_.limit);
  requests_->commit({.note = silent_ ? silent : note, .cost = throttle_.cost, .tag = {}});
}

// INCREX: the same counter as that of SLUICE.TAKE KEY with a fixed window.
void RespSession::take_window(Words words) {
  if (!read_throttle(limit::Algorithm::fixed_window, words, throttle_))
    return answer_malformed(throttle_.error);
  requests_->open();
  requests_->add(request::Entry{command_entry, inline_command});
  requests_->add(request::Entry{key_entry, throttle_.key});
  requests_->add(throttle_.limit);
  requests_->commit({.limits = {.replaces = true},
                     .message = message(),
                     .note = silent_ ? silent : increx,
                     .cost = throttle_.cost,
                     .tag = {}});
}

}  // namespace sluice::resp
