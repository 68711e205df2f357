#include "cli/run.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "base/printable.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/built_in.h"
#include "config/screen_text.h"
#include "config/time_zones.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

using protocol::Command;

// The program's own commands. Those of protocols follow `serve`, in the order of the protocols.
constexpr Command own_commands[] = {
    {"serve", "serve every configured protocol; without a file, a built-in example", serve},
    {"init", "write a sluice.yaml to begin with, or one from an old policy", init},
    {"check", "say what is wrong with policy and configuration files", check},
    {"explain", "say which rules of a policy apply to a request, and which one decides", explain},
    {"ask", "ask a running server, and say its decision in words", ask},
    {"status", "show the state of a running server: ready, its policy, its store", status},
    {"health", "say whether the server of this machine serves, for health checks", health},
    {"top", "show the clients that are refused most", top},
    {"denials", "list what was refused in the last day", denials},
    {"rules", "list the live rules with what they decide", rules},
    {"counters", "list counters and their state", counters},
    {"reset", "reset a counter, as if it had never been used", reset},
    {"override", "give one actor another limit, until a time or without an end", override_limits},
    {"holds", "list the reservations and places that a server holds", holds},
    {"renew", "set the end of a reservation or a place", renew},
    {"release", "end a reservation or a place, so that its units go back", release},
    {"changes", "list the changes that were made while a server ran, and their authors", changes},
    {"config", "print the configuration that a running server uses", live_config},
    {"log", "print or change what a running server logs", log_settings},
    {"reload", "make a running server read its policy again", reload},
    {"store", "inspect, check, repair and copy the counters on disk", store},
    {"token", "make a token for a user of a server, and the user's line", token},
    {"completion", "print the completion for a shell", completion},
    {"man", "print or write pages of the manual", manual},
};

// A request for the built-in example policy of the first protocol that has one.
std::string example_question() {
  for (const protocol::Description* protocol : protocol::all())
    if (protocol->ask != nullptr && !protocol->ask->question.empty())
      return "  sluice ask " + std::string(protocol->name) + " " +
             std::string(protocol->ask->question) + "\n";
  return {};
}

std::string help() {
  std::string text = "sluice " + std::string(config::version) +
                     ", a rate-limit and quota server: may this happen now, how much is left,\n"
                     "when is there more?\n"
                     "\n"
                     "Usage: sluice COMMAND [options]\n"
                     "\n"
                     "Commands:\n";
  for (const Command& c : all_commands()) {
    std::string name(c.name);
    name.resize(11, ' ');
    text += "  " + name + std::string(c.summary) + "\n";
  }
  return text +
         "\n"
         "  sluice COMMAND --help     what a command does, with an example\n"
         "  sluice --version\n"
         "\n"
         "Example: see it work, in two terminals\n"
         "  sluice serve\n" +
         example_question();
}

int misused(const std::string& word, config::CommandIo& io) {
  if (word == "metrics") {
    io.err << config::paint("error:", config::red, io.err_colour)
           << " there is no command `metrics`: ask the server's admin port for them, as `curl "
              "http://127.0.0.1:8380/metrics` does"
           << std::endl;
    return config::exit_usage;
  }
  std::vector<std::string_view> names;
  for (const Command& c : all_commands()) names.emplace_back(c.name);
  io.err << config::paint("error:", config::red, io.err_colour) << " there is no command `"
         << config::on_screen(word) << '`' << did_you_mean(word, names)
         << "\nUsage: sluice COMMAND [options]\nMore with --help." << std::endl;
  return config::exit_usage;
}

bool coloured(int file) {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(file) == 1 && std::getenv("NO_COLOR") == nullptr && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

// Opens standard files that are closed: otherwise the next file that is opened would take their
// descriptor, and output would be written to it. A pipe without a writer is read as empty and
// refuses what is written, as /dev/null that is open for reading, which may not exist.
void keep_standard_files() {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    int ends[2];
    if (::fcntl(file, F_GETFD) >= 0) continue;
    if (::pipe(ends) != 0) return;
    ::close(ends[1]);
  }
}

int run_command(const Words& words, config::CommandIo& io) {
  if (words.empty()) {
    io.err << help() << std::flush;
    return config::exit_usage;
  }
  const std::string& word = words.front();
  if (word == "help" && words.size() > 1) return run_command({words[1], "--help"}, io);
  if (word == "--help" || word == "-h" || word == "help") {
    io.out << help() << std::flush;
    return config::exit_ok;
  }
  if (word == "--version" || word == "-V") {
    io.out << "sluice " << config::version << '\n' << config::time_zones_text() << std::endl;
    return config::exit_ok;
  }
  const auto commands = all_commands();
  const auto at = std::find_if(commands.begin(), commands.end(),
                               [&](const Command& c) { return word == c.name; });
  if (at == commands.end()) return misused(word, io);
  return at->run(Words(words.begin() + 1, words.end()), io);
}

}  // namespace

std::vector<protocol::Command> all_commands() {
  std::vector<Command> all{own_commands[0]};
  std::vector<Command> tools;
  for (const protocol::Description* protocol : protocol::all())
    for (const Command& c : protocol->commands) (c.serves ? all : tools).push_back(c);
  all.insert(all.end(), std::begin(own_commands) + 1, std::end(own_commands));
  all.insert(all.end(), tools.begin(), tools.end());
  return all;
}

namespace {

// The command that takes the place of the program at that path; empty: there is none.
std::string in_place_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  for (const Command& c : all_commands())
    if (!c.original.empty() && path == c.original) return std::string(c.name);
  return {};
}

// The words of the command line. The program may have the name of a server that it takes the place
// of, as by a link, or be told to run it, as a container whose command is the path of the original.
// That one reads no arguments, so there they are ignored, but for a question of people.
Words words_of(int argc, char** argv, config::CommandIo& io) {
  Words words(argv + std::min(argc, 1), argv + argc);
  std::string command = in_place_of(argc > 0 ? argv[0] : "");
  if (command.empty() && !words.empty()) {
    command = in_place_of(words.front());
    if (!command.empty()) words.erase(words.begin());
  }
  if (command.empty()) return words;
  const bool is_question = words == Words{"--help"} || words == Words{"-h"};
  if (!words.empty() && !is_question) {
    io.err << config::paint("warning:", config::yellow, io.err_colour)
           << " called by the name of a program that reads no arguments, so they are ignored: `"
           << base::printable(words.front()) << (words.size() > 1 ? "` and more" : "`")
           << "; `sluice " << command << "` reads them" << std::endl;
    words.clear();
  }
  words.insert(words.begin(), std::move(command));
  return words;
}

}  // namespace

int run(const Words& words, config::CommandIo& io) {
  const int status = run_command(words, io);
  // The exit status of `ask` is the answer, so it is kept.
  if (status != config::exit_ok || io.out.good() || words.front() == "ask") return status;
  io.err << config::paint("error:", config::red, io.err_colour)
         << " cannot write to standard output" << std::endl;
  return config::exit_failure;
}

int run(int argc, char** argv) {
  keep_standard_files();
  config::use_built_in_time_zones();
  config::CommandIo io{std::cout,
                       std::cerr,
                       coloured(STDOUT_FILENO),
                       coloured(STDERR_FILENO),
                       [](const char* name) -> std::optional<std::string> {
                         const char* const value = std::getenv(name);
                         if (value == nullptr) return std::nullopt;
                         return value;
                       },
                       [] {
                         std::vector<std::pair<std::string, std::string>> all;
                         for (char** at = environ; *at != nullptr; ++at) {
                           const std::string text = *at;
                           const size_t cut = text.find('=');
                           if (cut != std::string::npos)
                             all.emplace_back(text.substr(0, cut), text.substr(cut + 1));
                         }
                         return all;
                       },
                       ::isatty(STDOUT_FILENO) == 1};
  try {
    return run(words_of(argc, argv, io), io);
  } catch (const std::exception& e) {
    // Only a lack of memory, threads or descriptors leads here.
    std::cerr << "error: " << e.what() << std::endl;
    return config::exit_failure;
  }
}

}  // namespace sluice::cli
