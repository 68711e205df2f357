#include "cli/manual.h"

#include <algorithm>
#include <sstream>

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

}  // namespace sluice::cli
