// The commands that clients send when they connect, and commands about the connection.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/session.h"

namespace sluice::resp {
namespace {

constexpr std::string_view no_integer = "ERR value is not an integer or out of range";
constexpr int64_t databases = 16;

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return all;
}

// The largest name of a connection or library, which the connection keeps.
constexpr size_t name_bytes_max = 256;

// The error if `name` is not valid for `what`; empty: it is valid.
std::string problem_of_name(std::string_view what, std::string_view name) {
  if (name.size() > name_bytes_max)
    return "ERR " + std::string(what) + " must have 256 bytes at most.";
  if (std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; })) return {};
  return "ERR " + std::string(what) + " cannot contain spaces, newlines or special characters.";
}

}  // namespace

std::string_view RespSession::server_version() const {
  return peer_.server == nullptr ? "0.0.0" : peer_.server->version();
}

void RespSession::hello(Words words) {
  wire::RespVersion wanted = version();
  if (words.size() > 1) {
    int64_t number;
    if (!wire::read_resp_number(words[1], number))
      return answer_error("ERR Protocol version is not an integer or out of range");
    if (number < 2 || number > 3) return answer("-NOPROTO unsupported protocol version\r\n");
    wanted = static_cast<wire::RespVersion>(number);
  }
  std::string_view user, token;
  std::optional<std::string_view> name;
  bool authenticates = false;
  for (size_t i = 2; i < words.size();) {
    if (is_word(words[i], "AUTH") && words.size() - i > 2) {
      authenticates = true;
      user = words[i + 1];
      token = words[i + 2];
      i += 3;
    } else if (is_word(words[i], "SETNAME") && words.size() - i > 1) {
      const std::string problem = problem_of_name("Client names", words[i + 1]);
      if (!problem.empty()) return answer_error(problem);
      name = words[i + 1];
      i += 2;
    } else {
      return answer_error("ERR Syntax error in HELLO option '" +
                          std::string(words[i].substr(0, shown_bytes_max)) + "'");
    }
  }
  if (authenticates && !log_in(user, token)) return;
  if (!identity_.is_known())
    return answer(
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time\r\n");
  facts_.version = static_cast<int>(wanted);
  if (name) facts_.name = *name;
  answer_with([this](wire::RespWriter& out) { append_greeting(out); });
}

void RespSession::append_greeting(wire::RespWriter& out) const {
  out.map(7);
  out.bulk("server");
  out.bulk("sluice");
  out.bulk("version");
  out.bulk(server_version());
  out.bulk("proto");
  out.integer(facts_.version);
  out.bulk("id");
  out.integer(id_);
  out.bulk("mode");
  out.bulk("standalone");
  out.bulk("role");
  out.bulk("master");
  out.bulk("modules");
  out.list(0);
}

void RespSession::auth(Words words) {
  if (words.size() > 3) return answer("-ERR syntax error\r\n");
  if (words.size() == 2 && !identity_.is_needed())
    return answer_error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  if (log_in(words.size() == 2 ? std::string_view() : words[1], words.back())) answer(ok);
}

// False: the token is not that of the user, which is the answer. Without users there is `default`,
// with any token.
bool RespSession::log_in(std::string_view user, std::string_view token) {
  if (identity_.is_needed() ? identity_.log_in(user, token) : user == access::default_user)
    return true;
  report("login", "WRONGPASS");
  answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  return false;
}

void RespSession::select(std::string_view word) {
  int64_t number;
  if (!wire::read_resp_number(word, number)) return answer_error(no_integer);
  if (number < 0 || number >= databases) return answer("-ERR DB index is out of range\r\n");
  facts_.database = static_cast<uint32_t>(number);
  answer(ok);
}

void RespSession::client(Words words) {
  struct Subcommand {
    std::string_view name;
    size_t words;
  };
  static constexpr Subcommand known[] = {{"SETNAME", 3}, {"GETNAME", 2}, {"ID", 2},
                                         {"SETINFO", 4}, {"REPLY", 3},   {"INFO", 2}};
  const auto* const sub = std::find_if(std::begin(known), std::end(known), [&](const auto& one) {
    return is_word(words[1], one.name);
  });
  if (sub == std::end(known)) return unknown_subcommand(words, "CLIENT");
  if (words.size() != sub->words) return wrong_count("client|" + lower(sub->name));
  if (sub->name == "SETNAME") return set_name(words[2]);
  if (sub->name == "REPLY") return client_reply(words[2]);
  if (sub->name == "GETNAME") {
    if (!facts_.name.empty()) return answer_bulk(facts_.name);
    return answer_with([](wire::RespWriter& out) { out.null(); });
  }
  if (sub->name == "ID") return answer_with([&](wire::RespWriter& out) { out.integer(id_); });
  if (sub->name == "SETINFO") return set_library(words[2], words[3]);
  commit(own_line, {});    // INFO
  ends_batch_ = !silent_;  // the line is made with the reply: no later command may change it
}

// The line of CLIENT INFO, with its line end.
std::string RespSession::line_of_client(base::Time now) const {
  const int64_t age_us = facts_.since ? std::max<int64_t>(now.us - facts_.since->us, 0) : 0;
  return "id=" + std::to_string(id_) + " addr=" + peer_.address + " name=" + facts_.name +
         " age=" + std::to_string(age_us / 1'000'000) + " db=" + std::to_string(facts_.database) +
         " resp=" + std::to_string(facts_.version) + " user=" + identity_.user() +
         " lib-name=" + facts_.library + " lib-ver=" + facts_.library_version + "\n";
}

void RespSession::set_name(std::string_view name) {
  const std::string problem = problem_of_name("Client names", name);
  if (!problem.empty()) return answer_error(problem);
  facts_.name = name;
  answer(ok);
}

void RespSession::set_library(std::string_view which, std::string_view value) {
  const bool is_name_of = is_word(which, "LIB-NAME");
  if (!is_name_of && !is_word(which, "LIB-VER"))
    return answer_error("ERR Unrecognized option '" +
                        std::string(which.substr(0, shown_bytes_max)) + "'");
  const std::string problem = problem_of_name(lower(which), value);
  if (!problem.empty()) return answer_error(problem);
  (is_name_of ? facts_.library : facts_.library_version) = value;
  answer(ok);
}

// `sections`: the names of the sections to send; empty: all.
void RespSession::info(Words sections) {
  const request::ServerFigures figures =
      peer_.server == nullptr ? request::ServerFigures() : peer_.server->figures();
  using Lines = std::vector<std::pair<std::string_view, std::string>>;
  const auto number = [](auto n) { return std::to_string(n); };
  utsname machine{};
  ::uname(&machine);
  const std::pair<std::string_view, Lines> all[] = {
      {"Server",
       {{"redis_version", "7.0.0"},
        {"redis_mode", "standalone"},
        {"sluice_version", std::string(server_version())},
        {"os", std::string(machine.sysname) + " " + machine.release + " " + machine.machine},
        {"process_id", number(::getpid())},
        {"tcp_port", number(peer_.port)},
        {"uptime_in_seconds", number(figures.uptime.us / 1'000'000)}}},
      {"Clients", {{"connected_clients", number(figures.connections)}}},
      {"Memory",
       {{"used_memory", number(figures.memory_bytes)},
        {"maxmemory", number(figures.memory_bytes_max)}}},
      {"Persistence", {{"loading", "0"}}},
      {"Stats",
       {{"total_connections_received", number(figures.connections_total)},
        {"total_commands_processed", number(figures.requests_total)}}},
      {"Replication", {{"role", "master"}}},
      {"Keyspace", {{"counters", number(figures.counters)}}},
  };
  const auto is_wanted = [&](std::string_view name) {
    return sections.empty() || std::any_of(sections.begin(), sections.end(), [&](auto word) {
             return lower(word) == lower(name) || is_word(word, "ALL") ||
                    is_word(word, "DEFAULT") || is_word(word, "EVERYTHING");
           });
  };
  std::string text;
  for (const auto& [name, lines] : all) {
    if (!is_wanted(name)) continue;
    if (!text.empty()) text += "\r\n";
    text += "# " + std::string(name) + "\r\n";
    for (const auto& [key, value] : lines) text += std::string(key) + ":" + value + "\r\n";
  }
  answer_bulk(text);
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

// COMMAND lists only commands that the configuration has not turned off.
void RespSession::command(Words words) {
  std::vector<const CommandEntry*> all;
  for (const CommandEntry& entry : command_entries())
    if (is_answered(entry)) all.push_back(&entry);
  const auto find = [this](std::string_view name) {
    const CommandEntry* const entry = find_command(name);
    return entry != nullptr && is_answered(*entry) ? entry : nullptr;
  };
  if (words.size() == 1)
    return answer_with([&](wire::RespWriter& out) {
      out.list(all.size());
      for (const CommandEntry* entry : all) append_info(*entry, out);
    });
  const Words names = words.subspan(2);
  if (is_word(words[1], "COUNT")) {
    if (!names.empty()) return wrong_count("command|count");
    return answer_with(
        [&](wire::RespWriter& out) { out.integer(static_cast<int64_t>(all.size())); });
  }
  if (is_word(words[1], "INFO"))
    return answer_with([&](wire::RespWriter& out) {
      out.list(names.empty() ? all.size() : names.size());
      if (names.empty())
        for (const CommandEntry* entry : all) append_info(*entry, out);
      for (const std::string_view name : names) {
        const CommandEntry* const entry = find(name);
        if (entry == nullptr)
          out.null_list();
        else
          append_info(*entry, out);
      }
    });
  if (is_word(words[1], "DOCS"))
    return answer_with([&](wire::RespWriter& out) {
      const auto is_known = [&](std::string_view name) { return find(name) != nullptr; };
      out.map(names.empty()
                  ? all.size()
                  : static_cast<size_t>(std::count_if(names.begin(), names.end(), is_known)));
      if (names.empty())
        for (const CommandEntry* entry : all) append_docs(*entry, out);
      for (const std::string_view name : names)
        if (const CommandEntry* const entry = find(name)) append_docs(*entry, out);
    });
  unknown_subcommand(words, "COMMAND");
}

void RespSession::config(Words words) {
  if (!is_word(words[1], "GET")) return unknown_subcommand(words, "CONFIG");
  if (words.size() < 3) return wrong_count("config|get");
  answer_with([](wire::RespWriter& out) { out.map(0); });
}

void RespSession::reset() {
  identity_.log_out();
  facts_.version = static_cast<int>(wire::RespVersion::resp2);
  facts_.database = 0;
  facts_.name.clear();
  off_ = silent_ = false;
  open_.reset();
  answer("+RESET\r\n");
}

}  // namespace sluice::resp
