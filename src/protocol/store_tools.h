// Tools of `sluice store` that belong to a protocol: they bring over what another server of it has
// stored. Constant data; the main thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace sluice::config {
struct CommandIo;
}

namespace sluice::protocol {

// What such a tool is told.
struct StoreCall {
  std::string dir, config;
  bool json = false;  // print the result as JSON
};

// NAME DIR --config FILE
struct StoreTool {
  std::string_view name;
  std::string_view help;            // what it does, in lines
  std::string_view config;          // what FILE is: "limitd's configuration"
  std::string_view config_purpose;  // what for: "which names the types"
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
