// The tools of `sluice store` that belong to a protocol: they import the data of another server of
// the protocol. Constant data; main thread.
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

// An option of such a tool. An option has the same meaning in all tools that have it.
struct StoreOption {
  std::string_view name;     // "--config"
  std::string_view value;    // the name of its value: "FILE"; empty: a flag without a value
  std::string_view help;     // the meaning of the value or the flag
  std::string_view purpose;  // "which names the types": why it is required; empty: it is optional
};

// The options of such a tool.
struct StoreCall {
  std::string dir;
  bool json = false;  // print the result as JSON
  // The values of the tool's options, in their order; an empty text for a flag that was given.
  std::vector<std::optional<std::string>> values{};
};

// A tool: `sluice store NAME DIR [options]`.
struct StoreTool {
  std::string_view name;
  std::string_view help;  // what it does, in lines
  std::span<const StoreOption> options;
  int (*run)(const StoreCall& call, config::CommandIo& io);  // returns the exit status
};

struct StoreTools {
  std::span<const StoreTool> tools;
  // Called before a store is opened in `dir`: warns of data that another server has stored there.
  // `origin`: the place where the folder was named. Null: there is no such data.
  void (*check_folder)(const std::string& dir, const std::string& origin,
                       base::Diagnostics& diagnostics) = nullptr;
};

}  // namespace sluice::protocol
