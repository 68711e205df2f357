// The commands `sluice completion` and `sluice man`.
#include <filesystem>
#include <fstream>
#include <system_error>

#include "cli/completion.h"
#include "cli/inspect.h"
#include "cli/manual.h"

namespace sluice::cli {
namespace {

constexpr const char* about_completion =
    "Prints the completion of sluice's commands and options for a shell: bash, zsh or fish. `make\n"
    "install` puts them where these shells look.";

constexpr const char* footer_of_completion =
    "Examples:\n"
    "  source <(sluice completion bash)\n"
    "  sluice completion fish > ~/.config/fish/completions/sluice.fish\n";

constexpr const char* about_man =
    "Prints a page of the manual, in roff: that of sluice, or of COMMAND. With --to, writes all "
    "of\n"
    "them into a folder. `make install` does so.";

constexpr const char* footer_of_man =
    "Examples:\n"
    "  sluice man check | man -l -\n"
    "  sluice man --to /usr/local/share/man/man1\n";

constexpr ExitStatus exit_of_page{"printed, or written", "it cannot be written"};

bool write_page(const std::filesystem::path& folder, const std::string& name,
                const std::string& text) {
  std::ofstream file(folder / (name + ".1"), std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  return static_cast<bool>(file);
}

int write_pages(const std::string& to, const std::vector<DefinedCommand>& commands,
                config::CommandIo& io) {
  std::error_code problem;
  std::filesystem::create_directories(to, problem);
  if (problem) return fail(to + " cannot be made: " + problem.message(), io);
  bool all = write_page(to, "sluice", main_page(commands));
  for (const DefinedCommand& command : commands)
    all = write_page(to, page_name(command), manual_page(command)) && all;
  return all ? config::exit_ok : fail("not all pages could be written into " + to, io);
}

}  // namespace

int completion(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice completion bash|zsh|fish", about_completion, footer_of_completion,
                      {"printed", "it cannot be written"});
  arguments.set_words({std::begin(shells), std::end(shells)});
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() != 1)
    return arguments.misused("one shell is required: bash, zsh or fish", io);
  const std::string& shell = arguments.positional().front();
  const auto text = completion(shell, defined_commands());
  if (!text)
    return arguments.misused("`" + shell + "` must be bash, zsh or fish" +
                                 did_you_mean(shell, {std::begin(shells), std::end(shells)}),
                             io);
  io.out << *text << std::flush;
  return config::exit_ok;
}

int manual(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice man [--to DIR | COMMAND...]", about_man, footer_of_man, exit_of_page);
  std::optional<std::string> to;
  arguments.add_option("--to", to, "Write all pages into this folder", "DIR");
  const std::vector<protocol::Command> all = all_commands();
  std::vector<std::string_view> known;
  for (const protocol::Command& command : all) known.push_back(command.name);
  arguments.set_words(known);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  const Words& said = arguments.positional();
  if (to && !said.empty()) return arguments.misused("--to writes all pages; take COMMAND out", io);
  const std::vector<DefinedCommand> commands = defined_commands();
  if (to) return write_pages(*to, commands, io);
  if (said.empty()) {
    io.out << main_page(commands) << std::flush;
    return config::exit_ok;
  }
  std::string name;
  for (const std::string& word : said) name += (name.empty() ? "" : " ") + word;
  std::vector<std::string_view> names;
  for (const DefinedCommand& command : commands) {
    names.emplace_back(command.name);
    if (command.name != name) continue;
    io.out << manual_page(command) << std::flush;
    return config::exit_ok;
  }
  return arguments.misused("there is no command `" + name + "`" + did_you_mean(name, names), io);
}

}  // namespace sluice::cli
