#include <charconv>
#include <chrono>
#include <utility>

#include "client/core.h"
#include "client/dialect.h"
#include "client/limit_words.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace client_side {
namespace {

using calls::CodecRead;
using wire::RespItem;
using Kind = RespItem::Kind;
using Milliseconds = std::chrono::milliseconds;

constexpr wire::RespReplyBounds reply_bounds{.bytes = size_t{16} << 20, .items = 1 << 16};

// ---- Replies ----

std::chrono::microseconds length_of(int64_t ms) {
  constexpr int64_t longest = INT64_MAX / 1'000;
  return ms < 0 || ms > longest ? client_never : Milliseconds(ms);
}

bool read_integers(wire::RespItems& items, std::span<int64_t> numbers) {
  for (int64_t& number : numbers) {
    RespItem item;
    if (!items.next(item) || item.kind != Kind::integer) return false;
    number = item.number;
  }
  return true;
}

template <class To>
void set_five(const int64_t (&five)[5], To& to) {
  to.allowed = five[0] == 1;
  to.limit = five[1];
  to.remaining = five[2];
  to.retry_after = length_of(five[3]);
  to.reset_after = length_of(five[4]);
}

// Reads the decision of a take or peek, with the rule's name, or of a wait, with the time it
// waited.
bool read_decision(const RespItem& head, wire::RespItems& items, client_verb verb,
                   client_result& result) {
  if (head.kind == Kind::null) {
    result.text = "the units were not there in time";
    return verb == client_verb::wait;
  }
  int64_t five[5];
  if (head.kind != Kind::list || head.count != 6 || !read_integers(items, five)) return false;
  set_five(five, result);
  RespItem item;
  if (!items.next(item)) return false;
  if (verb == client_verb::wait) {
    if (item.kind != Kind::integer) return false;
    result.waited = length_of(item.number);
    result.delayed = item.number > 0;
    return true;
  }
  if (item.kind != Kind::bulk && item.kind != Kind::null) return false;
  result.rule = item.text;
  return true;
}

// Servers before `charged` told seven.
bool read_charge(const RespItem& head, wire::RespItems& items, client_result& result) {
  int64_t six[6];
  if (head.kind != Kind::list || head.count < 7 || head.count > 8 || !read_integers(items, six))
    return false;
  result.over = six[0] != 1;
  result.allowed = !result.over;
  result.limit = six[1];
  result.remaining = six[2];
  result.retry_after = length_of(six[3]);
  result.reset_after = length_of(six[4]);
  result.debt = six[5];
  RespItem item;
  if (!items.next(item) || (item.kind != Kind::bulk && item.kind != Kind::null)) return false;
  result.rule = item.text;
  if (head.count == 7) return true;
  if (!items.next(item) || item.kind != Kind::integer) return false;
  result.charged = item.number;
  return true;
}

bool read_several(const RespItem& head, wire::RespItems& items, size_t count,
                  client_result& result) {
  int64_t all[1];
  if (head.kind != Kind::list || head.count != count + 1 || !read_integers(items, all))
    return false;
  result.allowed = all[0] == 1;
  for (size_t i = 0; i < count; ++i) {
    client_level& level = result.levels.emplace_back();
    RespItem one;
    if (!items.next(one)) return false;
    if (one.kind == Kind::null) {
      level.decided = false;
      continue;
    }
    int64_t five[5];
    if (one.kind != Kind::list || one.count != 5 || !read_integers(items, five)) return false;
    set_five(five, level);
  }
  return true;
}

bool read_put(const RespItem& head, wire::RespItems& items, client_result& result) {
  int64_t two[2];
  if (head.kind != Kind::list || head.count != 2 || !read_integers(items, two)) return false;
  result.remaining = two[0];
  result.limit = two[1];
  return true;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view one : beginnings)
    if (text.starts_with(one)) return true;
  return false;
}

// Does the error say that the server may succeed later?
bool is_passing(std::string_view error) {
  return starts_with_any(error, {"TRYAGAIN", "OOM", "BUSY", "LOADING", "ERR too many connections",
                                 "ERR max number of clients"});
}

// Does an error to AUTH say that the user or the token is wrong?
bool is_wrong_login(std::string_view error) {
  return starts_with_any(error, {"WRONGPASS", "ERR AUTH", "ERR invalid password",
                                 "ERR Client sent AUTH", "ERR wrong number", "NOPERM"});
}

client_result failed(client_errc error, std::string_view text) {
  client_result result;
  result.error = error;
  result.text = text;
  return result;
}

client_result result_of(std::string_view reply, const calls::Expected& expected) {
  if (expected.verb == client_verb::command) {
    client_result result;
    result.reply = reply;
    return result;
  }
  wire::RespItems items(reply);
  RespItem head;
  if (!items.next(head)) return failed(client_errc::bad_reply, "the reply is empty");
  if (head.kind == Kind::error) {
    client_errc error = client_errc::refused;
    if (head.text.starts_with("NORULE")) error = client_errc::no_rule;
    if (is_passing(head.text)) error = client_errc::unavailable;
    std::string text(head.text);
    if (head.text.starts_with("NOAUTH")) text += " Give USER:TOKEN@ in the client's address";
    return failed(error, text);
  }
  client_result result;
  bool good = false;
  switch (expected.verb) {
    case client_verb::take:
    case client_verb::peek:
    case client_verb::wait:
      good = expected.several > 0 ? read_several(head, items, expected.several, result)
                                  : read_decision(head, items, expected.verb, result);
      break;
    case client_verb::charge:
      good = read_charge(head, items, result);
      break;
    case client_verb::put:
      good = read_put(head, items, result);
      break;
    case client_verb::reset:
      good = head.kind == Kind::integer;
      result.counters = head.number;
      break;
    case client_verb::ping:
      good = head.kind == Kind::simple && head.text == "PONG";
      break;
    case client_verb::list:
    case client_verb::command:
    case client_verb::reserve:
    case client_verb::extend:
    case client_verb::renew:
    case client_verb::commit:
    case client_verb::release:
    case client_verb::acquire:
      break;
  }
  if (good) return result;
  return failed(client_errc::bad_reply, "the reply is to another kind of command");
}

// The result for a reply to AUTH other than OK. Errors that may pass, such as those of a server at
// its bound of connections, lead to another attempt.
calls::CodecRead refusal_in(std::string_view reply, size_t consumed) {
  const std::string line(reply.substr(1, reply.find('\r') - 1));
  if (!reply.starts_with('-') || !is_wrong_login(line))
    return {consumed, client_errc::unavailable, "the server cannot check the token: " + line};
  return {consumed, client_errc::refused,
          "the server does not accept the user and token (" + line +
              "): correct them, or add the user at the server"};
}

bool is_push(std::string_view reply) {
  return reply.starts_with('>');
}

class ClientCodec final : public calls::Codec {
 public:
  explicit ClientCodec(const calls::Target& target) : target_(target) { is_open_ = !has_user(); }

  void open(base::Buffer& out) override {
    if (is_open_) return;
    const std::string_view words[] = {"AUTH", target_.user, target_.token};
    const std::string_view without_user[] = {"AUTH", target_.token};
    if (target_.user.empty())
      wire::append_resp_command(without_user, out);
    else
      wire::append_resp_command(words, out);
  }
  bool is_open() const override { return is_open_; }

  CodecRead read(std::string_view in, calls::Replies& replies, base::Buffer&) override {
    size_t done = 0;
    for (;;) {
      const auto found = reader_.next(in.substr(done));
      if (found.found == wire::RespReplyReader::Found::incomplete)
        return {done, client_errc::none, {}};
      if (found.found == wire::RespReplyReader::Found::broken)
        return {done, client_errc::bad_reply, "that is not a reply of Redis' protocol"};
      const std::string_view reply = in.substr(done, found.consumed);
      done += found.consumed;
      if (is_push(reply)) continue;
      if (!is_open_) {
        if (!reply.starts_with('+')) return refusal_in(reply, done);
        is_open_ = true;
        return {done, client_errc::none, {}};
      }
      const calls::Expected* expected = replies.oldest();
      if (expected == nullptr)
        return {done, client_errc::bad_reply, "the server sent a reply that answers nothing"};
      client_result result = result_of(reply, *expected);
      const bool is_broken = result.error == client_errc::bad_reply;
      replies.answer_oldest(std::move(result));
      // The server has forgotten the login, for example because the user was removed and added
      // again.
      if (has_user() && reply.starts_with("-NOAUTH"))
        return {done, client_errc::disconnected, "the server has ended the login"};
      // The replies that follow would be matched to the wrong commands.
      if (is_broken) return {done, client_errc::bad_reply, "a reply does not fit its command"};
    }
  }

 private:
  bool has_user() const { return !target_.user.empty() || !target_.token.empty(); }

  const calls::Target& target_;
  wire::RespReplyReader reader_{reply_bounds};
  bool is_open_;
};

// ---- Requests ----

// The words of a command, including those that are composed here. `words` points into `text`, so
// `text` must not grow beyond the memory that was reserved.
class CommandWords {
 public:
  CommandWords(std::vector<std::string_view>& words, std::string& text, size_t bytes)
      : words_(words), text_(text) {
    words_.clear();
    text_.clear();
    text_.reserve(bytes);
  }
  void add(std::string_view word) { words_.push_back(word); }
  void add_joined(std::string_view a, std::string_view between, std::string_view b) {
    const size_t begin = text_.size();
    text_.append(a).append(between).append(b);
    words_.push_back(std::string_view(text_).substr(begin));
  }
  void add(int64_t number) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    add_joined({digits, static_cast<size_t>(end - digits)}, "", "");
  }
  // Adds a duration, in seconds.
  void add(std::chrono::microseconds length) {
    char digits[calls::seconds_text_bytes_max];
    const char* const end = calls::write_seconds(length, digits);
    add_joined({digits, static_cast<size_t>(end - digits)}, "", "");
  }

 private:
  std::vector<std::string_view>& words_;
  std::string& text_;
};

// The word of a member of policies.
constexpr std::string_view calendar_word(std::string_view name) {
  return name == "time_zone"     ? "ZONE"
         : name == "week_starts" ? "WEEKSTARTS"
         : name == "month_day"   ? "MONTHDAY"
         : name == "year_day"    ? "YEARDAY"
         : name == "starts_at"   ? "STARTSAT"
                                 : name;
}

constexpr std::string_view algorithm_word(client_algorithm algorithm) {
  switch (algorithm) {
    case client_algorithm::token_bucket:
      return "token_bucket";
    case client_algorithm::fixed_window:
      return "fixed_window";
    case client_algorithm::aligned_window:
      return "aligned_window";
    case client_algorithm::sliding_window:
      return "sliding_window";
    case client_algorithm::sliding_log:
      return "sliding_log";
    case client_algorithm::fixed_bucket:
      return "fixed_bucket";
    case client_algorithm::concurrency:
      return "concurrency";
  }
  return "";
}

size_t bytes_of(const client_subject& subject) {
  size_t bytes = 64 + subject.limits.size() * 96;
  for (const client_entry& entry : subject.entries)
    bytes += entry.key.size() + entry.value.size() + 1;
  return bytes;
}

// Why the protocol cannot express the subject; empty: it can.
std::string problem_of(const client_subject& subject) {
  if (!subject.type.empty()) return "a type belongs to limitd's protocol";
  if (subject.entries.empty() && subject.limits.empty())
    return "the subject must have entries, or a key with limits";
  if (!subject.entries.empty() && (!subject.limits.empty() || !subject.key.empty()))
    return "the subject must have entries or a key with limits, and not both";
  for (const client_entry& entry : subject.entries)
    if (entry.key.empty() || entry.key.find('=') != std::string_view::npos)
      return "the key of an entry must not be empty or hold `=`";
  for (const client_limit& limit : subject.limits)
    if (const char* const problem = calls::problem_of(limit)) return problem;
  return "";
}

void add_subject(const client_subject& subject, CommandWords& words) {
  if (!subject.entries.empty()) {
    words.add("ENTRIES");
    words.add(static_cast<int64_t>(subject.entries.size()));
    for (const client_entry& entry : subject.entries) words.add_joined(entry.key, "=", entry.value);
    return;
  }
  words.add("KEY");
  words.add(subject.key);
  for (const client_limit& limit : subject.limits) {
    words.add("LIMIT");
    words.add(limit.quota);
    if (calls::each_calendar_word(limit.calendar,
                                  [&words](std::string_view name, std::string_view value) {
                                    if (name != "window") words.add(calendar_word(name));
                                    words.add(value);
                                  }))
      continue;
    words.add(limit.window);
    if (limit.algorithm != client_algorithm::token_bucket) {
      words.add("ALGORITHM");
      words.add(algorithm_word(limit.algorithm));
    }
    if (limit.burst > 0) {
      words.add("BURST");
      words.add(limit.burst);
    }
    if (limit.max_lease.count() > 0) {
      words.add("MAXLEASE");
      words.add(limit.max_lease);
    }
  }
}

void add_units(const client_request& request, CommandWords& words) {
  if (!request.n) return;
  words.add("N");
  words.add(*request.n);
}

void add_command(const client_request& request, CommandWords& words) {
  switch (request.verb) {
    case client_verb::take:
    case client_verb::peek:
      words.add(request.verb == client_verb::take ? "SLUICE.TAKE" : "SLUICE.PEEK");
      add_subject(request.subject, words);
      add_units(request, words);
      words.add("WITHNAME");
      break;
    case client_verb::charge:
      words.add("SLUICE.CHARGE");
      add_subject(request.subject, words);
      add_units(request, words);
      if (!request.id.empty()) {
        words.add("ID");
        words.add(request.id);
      }
      words.add("WITHNAME");
      break;
    case client_verb::wait:
      words.add("SLUICE.WAIT");
      words.add(request.wait_for);
      add_subject(request.subject, words);
      add_units(request, words);
      break;
    case client_verb::put:
      words.add("SLUICE.PUT");
      add_subject(request.subject, words);
      if (request.all)
        words.add("ALL");
      else
        add_units(request, words);
      break;
    case client_verb::reset:
      words.add("SLUICE.RESET");
      add_subject(request.subject, words);
      break;
    case client_verb::ping:
    case client_verb::list:
      words.add("PING");
      break;
    case client_verb::command:
    case client_verb::reserve:
    case client_verb::extend:
    case client_verb::renew:
    case client_verb::commit:
    case client_verb::release:
    case client_verb::acquire:
      break;
  }
}

void add_several(const client_request& request, CommandWords& words) {
  words.add("SLUICE.MTAKE");
  words.add(static_cast<int64_t>(request.several.size()));
  for (const client_subject& subject : request.several) add_subject(subject, words);
  if (request.each) words.add("EACH");
  add_units(request, words);
}

base::Done encode(const client_request& request, calls::EncodeContext& context, base::Buffer& out) {
  if (request.verb == client_verb::command) {
    if (request.words.empty()) return base::Problem{"a command must have words"};
    wire::append_resp_command(request.words, out);
    return {};
  }
  std::string problem;
  size_t bytes = 128;
  const bool has_subject = request.several.empty() && request.verb != client_verb::ping;
  if (request.verb == client_verb::list) {
    problem = "counters cannot be listed over this protocol";
  } else if (request.verb >= client_verb::reserve) {
    problem = "reservations and places are made over http, or by their commands";
  } else if (!request.several.empty() && request.verb != client_verb::take) {
    problem = "of several subjects this protocol has takes alone";
  } else if (!request.id.empty() && request.verb != client_verb::charge) {
    problem = "only a charge may have an id";
  } else if (request.wait_for.count() < 0) {
    problem = "wait_for must be 0 or more";
  } else if (has_subject) {
    problem = problem_of(request.subject);
    bytes += bytes_of(request.subject);
  }
  for (const client_subject& subject : request.several) {
    if (problem.empty()) problem = problem_of(subject);
    bytes += bytes_of(subject);
  }
  if (!problem.empty()) return base::Problem{std::move(problem)};
  CommandWords words(context.words, context.text, bytes);
  if (request.several.empty())
    add_command(request, words);
  else
    add_several(request, words);
  wire::append_resp_command(context.words, out);
  return {};
}

constexpr std::string_view schemes[] = {"resp", "redis"};

}  // namespace
}  // namespace client_side

extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {
    .schemes = client_side::schemes,
    .port = 6380,
    .timeout = base::seconds(5),
    .waits_have_timeout = false,
    .wait_blocks = true,
    .has_users = true,
    .reconnect = {.first = base::milliseconds(100),
                  .longest = base::seconds(2),
                  .growth = calls::Reconnect::Growth::exponential,
                  .factor = 2,
                  .spread = true},
    .make_codec = [](const calls::Target& target) -> std::unique_ptr<calls::Codec> {
      return std::make_unique<client_side::ClientCodec>(target);
    },
    .encode = client_side::encode,
};

}  // namespace sluice::resp
