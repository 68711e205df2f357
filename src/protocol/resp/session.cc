#include "protocol/resp/session.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>

#include "base/bounds.h"
#include "base/buffer.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"

namespace sluice::resp {
namespace {

using base::bounds::batch_requests_max;

// A request's note: what its tag is, or what its verdict is told as; and whether there is a reply.
enum Note : uint32_t { ready, bulk, time_of_day, cell, crab, redis, silent = 1u << 31 };

// The first word of the error that clients are told where the store cannot decide: they may try
// again, unless it is a matter of room or of what is stored.
std::string_view first_word(request::Error cause) {
  switch (cause) {
    case request::Error::none:
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

limit::Algorithm algorithm_of(uint32_t note) {
  return note == cell   ? limit::Algorithm::gcra_cell
         : note == crab ? limit::Algorithm::gcra_crab
                        : limit::Algorithm::gcra_redis;
}

std::string_view database_text(uint32_t database) {
  static constexpr std::string_view texts[] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                               "8", "9", "10", "11", "12", "13", "14", "15"};
  return texts[database];
}

constexpr std::string_view ok = "+OK\r\n";
constexpr std::string_view no_integer = "ERR value is not an integer or out of range";
constexpr int64_t databases = 16;
// Of an unknown command, and of all its arguments.
constexpr size_t shown_bytes_max = 128;

// Unique in this process, from 1.
int64_t next_id() {
  static std::atomic<int64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return all;
}

bool is_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// The slot of a Redis cluster: CRC16 (XMODEM) of what stands in the first pair of braces, or all.
int64_t slot_of(std::string_view key) {
  if (const size_t open = key.find('{'); open != key.npos) {
    const size_t close = key.find('}', open);
    if (close != key.npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  uint32_t crc = 0;
  for (const char c : key) {
    crc ^= static_cast<uint32_t>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021 : 0)) & 0xFFFF;
  }
  return crc % 16384;
}

}  // namespace

RespSession::RespSession(const SessionOptions& options)
    : options_(options), reader_(options.bounds), id_(next_id()) {}

request::Received RespSession::receive(std::string_view in, bool, request::Requests& requests,
                                       base::Buffer&) {
  if (closing_) return {in.size(), true};
  using Found = wire::RespCommandReader::Found;
  requests_ = &requests;
  texts_.clear();
  size_t consumed = 0;
  for (size_t taken = 0; taken < batch_requests_max; ++taken) {
    const auto result = reader_.next(in.substr(consumed), texts_);
    consumed += result.consumed;
    if (result.found == Found::incomplete) break;
    if (result.found != Found::command) {
      closing_ = true;
      fault_ = result.found == Found::http ? "http" : "protocol";
    } else {
      silent_ = off_ || skip_;
      skip_ = false;
      ask(reader_.words());
    }
    if (closing_) return {in.size(), true};
  }
  return {consumed, false};
}

bool RespSession::reply(const request::Request& request, const request::Verdict& verdict,
                        base::Time now, base::Buffer& out) {
  wire::RespWriter writer(out, version_);
  switch (request.note) {
    case cell:
    case crab:
    case redis:
      if (!verdict.error.empty())
        writer.error(std::string(first_word(verdict.cause)) + std::string(verdict.error));
      else if (verdict.tightest == nullptr)
        writer.error("NORULE no rule applies");
      else
        append_throttle_reply(algorithm_of(request.note), *verdict.tightest, writer);
      break;
    case bulk:
      writer.bulk(request.tag);
      break;
    case time_of_day:
      writer.list(2);
      writer.bulk(std::to_string(now.us / 1'000'000));
      writer.bulk(std::to_string(now.us % 1'000'000));
      break;
    case ready:
      out.append(request.tag);
      break;
    default:
      break;  // silent
  }
  return true;
}

void RespSession::farewell(base::Buffer& out) {
  if (off_ || fault_ != "protocol") return;
  wire::RespWriter(out, version_).error(reader_.error());
}

void RespSession::refuse(std::string_view why, base::Buffer& out) {
  wire::RespWriter(out, version_).error("ERR " + std::string(why));
}

// ---- Answers ----

void RespSession::commit(uint32_t note, std::string_view tag) {
  if (silent_) return;
  requests_->open();
  requests_->commit({.verb = request::Verb::noop, .note = note, .prefix = {}, .tag = tag});
}

void RespSession::answer(std::string_view bytes) {
  commit(ready, bytes);
}

void RespSession::answer_bulk(std::string_view text) {
  commit(bulk, requests_->hold(text));
}

template <class Write>
void RespSession::answer_with(Write write) {
  if (silent_) return;
  base::Buffer bytes;
  wire::RespWriter writer(bytes, version_);
  write(writer);
  commit(ready, requests_->hold(bytes.view()));
}

void RespSession::answer_error(std::string_view text) {
  answer_with([&](wire::RespWriter& out) { out.error(text); });
}

void RespSession::wrong_count(std::string_view command) {
  answer_error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

void RespSession::unknown_subcommand(std::string_view word, std::string_view command) {
  answer_error("ERR unknown subcommand '" + std::string(word.substr(0, shown_bytes_max)) +
               "'. Try " + std::string(command) + " HELP.");
}

void RespSession::unknown(Words words) {
  std::string shown;
  for (const std::string_view word : words.subspan(1)) {
    if (shown.size() >= shown_bytes_max) break;
    shown += "'" + std::string(word.substr(0, shown_bytes_max - shown.size())) + "' ";
  }
  answer_error("ERR unknown command '" + std::string(words[0].substr(0, shown_bytes_max)) +
               "', with args beginning with: " + shown);
}

// ---- Commands ----

void RespSession::ask(Words words) {
  const CommandEntry* const entry = find_command(words[0]);
  if (entry == nullptr) return unknown(words);
  if (entry->throttles != limit::Algorithm::deny) return throttle(entry->throttles, words);
  const auto count = static_cast<int>(words.size());
  if (entry->arity > 0 ? count != entry->arity : count < -entry->arity)
    return wrong_count(entry->name);
  const std::string_view name = entry->name;
  if (name == "ping") {
    if (count > 2) return wrong_count(name);
    return count == 2 ? answer_bulk(words[1]) : answer("+PONG\r\n");
  }
  if (name == "echo") return answer_bulk(words[1]);
  if (name == "hello") return hello(words);
  if (name == "auth") return auth(words);
  if (name == "select") return select(words[1]);
  if (name == "client") return client(words);
  if (name == "command") return command(words);
  if (name == "config") return config(words);
  if (name == "cluster") return cluster(words);
  if (name == "reset") return reset();
  if (name == "time") return commit(time_of_day, {});
  answer(ok);  // asking, readonly, readwrite, quit
  if (name == "quit") closing_ = true;
}

void RespSession::throttle(limit::Algorithm algorithm, Words words) {
  if (!read_throttle(algorithm, words, throttle_)) return answer_error(throttle_.error);
  const uint32_t note = algorithm == limit::Algorithm::gcra_cell   ? cell
                        : algorithm == limit::Algorithm::gcra_crab ? crab
                                                                   : redis;
  requests_->open();
  requests_->add(request::Entry{command_entry, command_of(algorithm)});
  requests_->add(request::Entry{database_entry, database_text(database_)});
  requests_->add(request::Entry{key_entry, throttle_.key});
  requests_->add(throttle_.limit);
  requests_->commit(
      {.note = silent_ ? silent : note, .cost = throttle_.cost, .prefix = {}, .tag = {}});
}

void RespSession::hello(Words words) {
  auto version = version_;
  if (words.size() > 1) {
    int64_t number;
    if (!wire::read_resp_number(words[1], number))
      return answer_error("ERR Protocol version is not an integer or out of range");
    if (number < 2 || number > 3) return answer("-NOPROTO unsupported protocol version\r\n");
    version = static_cast<wire::RespVersion>(number);
  }
  bool named = false;
  std::string_view name;
  for (size_t i = 2; i < words.size();) {
    if (is_word(words[i], "AUTH") && words.size() - i > 2) {
      if (words[i + 1] != "default")
        return answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
      i += 3;
    } else if (is_word(words[i], "SETNAME") && words.size() - i > 1) {
      named = true;
      name = words[i + 1];
      if (!is_name(name))
        return answer_error(
            "ERR Client names cannot contain spaces, newlines or special characters.");
      i += 2;
    } else {
      return answer_error("ERR Syntax error in HELLO option '" +
                          std::string(words[i].substr(0, shown_bytes_max)) + "'");
    }
  }
  version_ = version;
  if (named) name_ = name;
  answer_with([&](wire::RespWriter& out) {
    out.map(7);
    out.bulk("server");
    out.bulk("sluice");
    out.bulk("version");
    out.bulk(options_.version);
    out.bulk("proto");
    out.integer(static_cast<int64_t>(version_));
    out.bulk("id");
    out.integer(id_);
    out.bulk("mode");
    out.bulk("standalone");
    out.bulk("role");
    out.bulk("master");
    out.bulk("modules");
    out.list(0);
  });
}

// No password is configured.
void RespSession::auth(Words words) {
  if (words.size() > 3) return answer("-ERR syntax error\r\n");
  if (words.size() == 2)
    return answer_error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  if (words[1] == "default") return answer(ok);
  answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
}

void RespSession::select(std::string_view word) {
  int64_t number;
  if (!wire::read_resp_number(word, number)) return answer_error(no_integer);
  if (number < 0 || number >= databases) return answer("-ERR DB index is out of range\r\n");
  database_ = static_cast<uint32_t>(number);
  answer(ok);
}

void RespSession::client(Words words) {
  struct Subcommand {
    std::string_view name;
    size_t least, most;
  };
  static constexpr Subcommand known[] = {
      {"SETNAME", 3, 3}, {"GETNAME", 2, 2},  {"ID", 2, 2},       {"SETINFO", 4, 4},
      {"REPLY", 3, 3},   {"NO-EVICT", 3, 3}, {"NO-TOUCH", 3, 3}, {"TRACKING", 3, SIZE_MAX},
  };
  const auto* const sub = std::find_if(std::begin(known), std::end(known), [&](const auto& one) {
    return is_word(words[1], one.name);
  });
  if (sub == std::end(known)) return unknown_subcommand(words[1], "CLIENT");
  if (words.size() < sub->least || words.size() > sub->most)
    return wrong_count("client|" + lower(sub->name));
  if (sub->name == "SETNAME") return set_name(words[2]);
  if (sub->name == "REPLY") return client_reply(words[2]);
  if (sub->name == "GETNAME") {
    if (!name_.empty()) return answer_bulk(name_);
    return answer_with([](wire::RespWriter& out) { out.null(); });
  }
  if (sub->name == "ID") return answer_with([&](wire::RespWriter& out) { out.integer(id_); });
  if (sub->name == "TRACKING") return answer("-ERR client tracking is not supported\r\n");
  if (sub->name == "SETINFO") {
    if (!is_word(words[2], "LIB-NAME") && !is_word(words[2], "LIB-VER"))
      return answer_error("ERR Unrecognized option '" +
                          std::string(words[2].substr(0, shown_bytes_max)) + "'");
    return answer(ok);
  }
  if (!is_word(words[2], "ON") && !is_word(words[2], "OFF")) return answer("-ERR syntax error\r\n");
  answer(ok);
}

void RespSession::set_name(std::string_view name) {
  if (!is_name(name))
    return answer_error("ERR Client names cannot contain spaces, newlines or special characters.");
  name_ = name;
  answer(ok);
}

void RespSession::client_reply(std::string_view word) {
  if (is_word(word, "ON")) {
    off_ = silent_ = false;
    return answer(ok);
  }
  if (is_word(word, "OFF")) {
    off_ = true;
  } else if (is_word(word, "SKIP")) {
    skip_ = !off_;
  } else {
    answer("-ERR syntax error\r\n");
  }
}

void RespSession::command(Words words) {
  const auto all = command_entries();
  if (words.size() == 1)
    return answer_with([&](wire::RespWriter& out) {
      out.list(all.size());
      for (const CommandEntry& entry : all) append_info(entry, out);
    });
  const Words names = words.subspan(2);
  if (is_word(words[1], "COUNT")) {
    if (!names.empty()) return wrong_count("command|count");
    return answer_with(
        [&](wire::RespWriter& out) { out.integer(static_cast<int64_t>(all.size())); });
  }
  if (is_word(words[1], "LIST")) {
    if (!names.empty()) return answer("-ERR syntax error\r\n");
    return answer_with([&](wire::RespWriter& out) {
      out.list(all.size());
      for (const CommandEntry& entry : all) out.bulk(entry.name);
    });
  }
  if (is_word(words[1], "INFO"))
    return answer_with([&](wire::RespWriter& out) {
      out.list(names.empty() ? all.size() : names.size());
      if (names.empty())
        for (const CommandEntry& entry : all) append_info(entry, out);
      for (const std::string_view name : names) {
        const CommandEntry* const entry = find_command(name);
        if (entry == nullptr)
          out.null_list();
        else
          append_info(*entry, out);
      }
    });
  if (is_word(words[1], "DOCS"))
    return answer_with([&](wire::RespWriter& out) {
      const auto is_known = [](std::string_view name) { return find_command(name) != nullptr; };
      out.map(names.empty()
                  ? all.size()
                  : static_cast<size_t>(std::count_if(names.begin(), names.end(), is_known)));
      if (names.empty())
        for (const CommandEntry& entry : all) append_docs(entry, out);
      for (const std::string_view name : names)
        if (const CommandEntry* const entry = find_command(name)) append_docs(*entry, out);
    });
  if (is_word(words[1], "GETKEYS")) {
    if (names.empty()) return wrong_count("command|getkeys");
    const CommandEntry* const entry = find_command(names[0]);
    if (entry == nullptr) return answer("-ERR Invalid command specified\r\n");
    const auto first = static_cast<size_t>(entry->first_key);
    if (first == 0) return answer("-ERR The command has no key arguments\r\n");
    if (names.size() <= first)
      return answer("-ERR Invalid number of arguments specified for command\r\n");
    return answer_with([&](wire::RespWriter& out) {
      out.list(1);
      out.bulk(names[first]);
    });
  }
  unknown_subcommand(words[1], "COMMAND");
}

void RespSession::config(Words words) {
  if (!is_word(words[1], "GET")) return unknown_subcommand(words[1], "CONFIG");
  if (words.size() < 3) return wrong_count("config|get");
  answer_with([](wire::RespWriter& out) { out.map(0); });
}

void RespSession::cluster(Words words) {
  if (is_word(words[1], "KEYSLOT")) {
    if (words.size() != 3) return wrong_count("cluster|keyslot");
    return answer_with([&](wire::RespWriter& out) { out.integer(slot_of(words[2])); });
  }
  answer("-ERR This instance has cluster support disabled\r\n");
}

void RespSession::reset() {
  version_ = wire::RespVersion::resp2;
  database_ = 0;
  name_.clear();
  off_ = silent_ = false;
  answer("+RESET\r\n");
}

}  // namespace sluice::resp
