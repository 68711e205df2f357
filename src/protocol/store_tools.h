// Tools of `sluice store` that belong to a protocol: they bring over what another server of it has
// stored. Constant data; the main thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::config {
struct CommandIo;
}

namespace sluice::protocol {

// An option of such a tool. One name means the same in all tools that have it.
struct StoreOption {
  std::string_view name;     // "--config"
  std::string_view value;    // what its value is called: "FILE"; empty: a flag, without a value
  std::string_view help;     // what the value is, or what the flag does
  std::string_view purpose;  // "which names the types": why it must be given; empty: it need not be
};

// The options of such a tool.
struct StoreCall {
  std::string dir;
  bool json = false;  // print the result as JSON
  // Of each option of the tool, in their order. Of a flag that is given: an empty text.
  std::vector<std::optional<std::string>> values{};
};

// NAME DIR [options]
struct StoreTool {
  std::string_view name;
  std::string_view help;  // what it does, in lines
  std::span<const StoreOption> options;
  int (*run)(const StoreCall& call, config::CommandIo& io);  // returns the exit status
};

struct StoreTools {
  std::span<const StoreTool> tools;
  // Warns of what another server has stored in `dir`, before a store is opened there; `origin`
  // says where that folder was named. Null: there is nothing to look for.
  void (*check_folder)(const std::string& dir, const std::string& origin,
                       base::Diagnostics& diagnostics) = nullptr;
};

}  // namespace sluice::protocol
