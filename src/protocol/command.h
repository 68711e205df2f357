// The commands of the program that belong to a protocol: its drop-in server, its tools, and its
// part of `sluice ask`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::config {
struct CommandIo;
}

namespace sluice::protocol {

using Words = std::vector<std::string>;

struct Command {
  std::string_view name;
  std::string_view summary;  // for the list of commands
  // Takes the words after the command's name; returns the exit status. Main thread.
  int (*run)(const Words& words, config::CommandIo& io);
  bool serves = false;  // it is a drop-in server
  // The name of the program whose place it takes: started under that name, the program is this
  // command. Empty: none.
  std::string_view original = {};
};

// The protocol's part of `sluice ask`. By default the server listens on the protocol's port.
struct Ask {
  std::string_view usage;     // "key=value..."
  std::string_view example;   // a request, followed by lines with the answer; may be empty
  std::string_view question;  // a request for the built-in example policy; may be empty
  std::string_view command;   // the same with another client; the port follows; may be empty
  int (*run)(const Words& words, config::CommandIo& io);
};

}  // namespace sluice::protocol
