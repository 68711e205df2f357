#include "cli/manual.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "cli/completion.h"
#include "cli/inspect.h"
#include "config/built_in.h"

namespace sluice::cli {
namespace {

// Escapes a text for roff, so that nothing in it is a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string head(const std::string& name, std::string_view summary) {
  return ".TH " + upper(name) + " 1 \"\" \"sluice " + std::string(config::version) +
         "\" \"sluice\"\n.SH NAME\n" + roff(name) + " \\- " + roff(summary) + "\n";
}

std::string option_names(const CommandDefinition::Option& option) {
  std::string names;
  for (const char c : option.names) names += c == ',' ? ", " : std::string(1, c);
  return names + (option.type.empty() ? "" : " " + option.type);
}

// Makes sections of the footer: "Environment:", "Exit status:" and similar words begin one. The
// other lines keep their layout.
std::string sections(const std::string& footer) {
  std::string out;
  bool open = false;
  const auto lay_out = [&](bool wanted) {
    if (open != wanted) out += wanted ? ".nf\n" : ".fi\n";
    open = wanted;
  };
  std::istringstream lines(footer);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    const size_t colon = line.find(':');
    const bool is_title = colon != line.npos && colon + 1 == line.size() && colon < 30 &&
                          line.front() >= 'A' && line.front() <= 'Z';
    if (is_title) {
      lay_out(false);
      out += ".SH \"" + upper(roff(line.substr(0, colon))) + "\"\n";
      continue;
    }
    if (first) out += ".SH NOTES\n";
    lay_out(true);
    out += roff(line) + "\n";
  }
  lay_out(false);
  return out;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string page_name(const DefinedCommand& command) {
  std::string name = "sluice-" + command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const DefinedCommand& command) {
  const CommandDefinition& its = command.definition;
  std::string page = head(page_name(command), command.summary) + ".SH SYNOPSIS\n.B " +
                     roff(its.usage) + "\n.SH DESCRIPTION\n.nf\n" + roff(its.about) +
                     "\n.fi\n.SH OPTIONS\n";
  for (const auto& option : its.options)
    page += ".TP\n.B " + roff(option_names(option)) + "\n" + roff(one_line(option.help)) + "\n";
  page += sections(its.footer);
  return page + ".SH \"SEE ALSO\"\n.BR sluice (1)\n";
}

std::string main_page(std::span<const DefinedCommand> commands) {
  std::string page = head("sluice", "a rate-limit and quota server") +
                     ".SH SYNOPSIS\n.B sluice\nCOMMAND [options]\n.SH COMMANDS\n";
  for (const DefinedCommand& command : commands)
    page += ".TP\n.BR " + roff(page_name(command)) + " (1)\n" + roff(command.summary) + "\n";
  return page;
}

// The commands `sluice completion` and `sluice man`.

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
