#include "cli/definitions.h"

#include <ostream>
#include <sstream>
#include <utility>

#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

template <class Run>
CommandDefinition defined_by(Run&& run) {
  std::ostringstream out, err;
  config::CommandIo io{out, err, false, false, [](const char*) { return std::nullopt; }};
  return definition_of([&] { run(Words{}, io); }).value_or(CommandDefinition{});
}

}  // namespace

std::vector<DefinedCommand> defined_commands() {
  std::vector<DefinedCommand> all;
  for (const protocol::Command& command : all_commands()) {
    const std::string name(command.name), summary(command.summary);
    all.push_back({name, summary, defined_by(command.run)});
    if (command.run != ask) continue;
    for (const protocol::Description* one : protocol::all())
      if (one->ask != nullptr)
        all.push_back({name + " " + std::string(one->name),
                       "ask a running server over " + std::string(one->title) + "'s protocol",
                       defined_by(one->ask->run)});
  }
  return all;
}

}  // namespace sluice::cli
