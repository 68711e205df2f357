#include "config/variables.h"

#include <algorithm>

#include "config/config.h"
#include "config/javascript_words.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

base::Diagnostic place_of(const char* name, base::Diagnostic::Severity severity) {
  base::Diagnostic place;
  place.severity = severity;
  place.subject = name;
  return place;
}

// How many letters the words differ by in the one place where they do.
size_t slip_between(std::string_view a, std::string_view b) {
  const size_t shorter = std::min(a.size(), b.size()), longer = std::max(a.size(), b.size());
  size_t front = 0, back = 0;
  while (front < shorter && a[front] == b[front]) ++front;
  while (back < shorter - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  return longer - front - back;
}

}  // namespace

void warn_of_near(const CommandIo& io, const OtherVariables& others,
                  base::Diagnostics& diagnostics) {
  constexpr size_t shortest = 8;  // shorter names are like too many others
  constexpr size_t slip_max = 2;
  if (!io.variables) return;
  // Those of commands that ask a server are no slips.
  std::vector<std::string_view> known{"SLUICE_ADMIN_SERVER", "SLUICE_ADMIN_CA", "SLUICE_TOKEN"};
  known.insert(known.end(), others.names.begin(), others.names.end());
  Config usual;
  each_outside(table_of(usual), [&](const Entry& entry) {
    if (!entry.about.variable.empty()) known.push_back(entry.about.variable);
  });
  for (const auto& [name, text] : io.variables()) {
    if (text.empty() || name.size() < shortest ||
        std::find(known.begin(), known.end(), name) != known.end() ||
        (others.is_known != nullptr && others.is_known(name)))
      continue;
    const std::string& its = name;
    const auto near = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
      return slip_between(its, a) < slip_between(its, b);
    });
    if (slip_between(name, *near) > slip_max) continue;
    complain(place_of(name.c_str(), base::Diagnostic::Severity::warning),
             "is not a variable that is read", "did you mean `" + std::string(*near) + "`?",
             diagnostics);
  }
}

std::string help_of(std::span<const VariableHelp> all) {
  constexpr size_t column = 17;
  std::string text;
  for (const auto& [names, help] : all) {
    std::string line = "  " + std::string(names);
    constexpr size_t names_max = 40;  // behind longer ones the help begins on a line of its own
    if (line.size() > names_max)
      line += "\n" + std::string(column, ' ');
    else
      line.resize(std::max(column, line.size() + 3), ' ');
    for (const char c : help) {
      line += c;
      if (c == '\n') line.append(column, ' ');
    }
    text += line + "\n";
  }
  return text;
}

std::vector<std::string_view> names_of(std::span<const VariableHelp> all) {
  std::vector<std::string_view> names;
  for (const auto& one : all)
    for (std::string_view rest = one.names; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find(", "));
      rest.remove_prefix(std::min(rest.size(), name.size() + 2));
      names.push_back(name.substr(0, name.find('=')));
    }
  return names;
}

std::optional<std::string> Variables::text(const char* name) const {
  auto value = set(name);
  if (value && value->empty()) value.reset();
  return value;
}

void Variables::complain(const char* name, std::string what, std::string remedy) {
  for (const base::Diagnostic& known : diagnostics_)
    if (known.subject == name && known.severity == base::Diagnostic::Severity::error) return;
  config::complain(place_of(name, base::Diagnostic::Severity::error), std::move(what),
                   std::move(remedy), diagnostics_);
}

void Variables::warn(const char* name, std::string what, std::string remedy) {
  config::complain(place_of(name, base::Diagnostic::Severity::warning), std::move(what),
                   std::move(remedy), diagnostics_);
}

void Variables::apply_node_port(Setting<Listener>& listener, const char* usual, bool may_be_empty) {
  const auto text = may_be_empty ? this->text("PORT") : set("PORT");
  if (!text) return;
  if (const auto port = node_port(*text)) {
    listener.value.address.port = *port;
    listener.origin = "PORT";
  } else {
    complain("PORT", "`" + *text + "` is not a port",
             "set it to 0 to 65535, or unset it for " + std::string(usual));
  }
}

}  // namespace sluice::config
