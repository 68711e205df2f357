// Commands of the program that belong to a protocol: its drop-in server, its tools, and `sluice
// ask` in its words.
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
  // The words behind the name; returns the exit status. Main thread.
  int (*run)(const Words& words, config::CommandIo& io);
  bool serves = false;  // it is a server, in place of another one's
};

// How a running server is asked from the command line; it listens on the protocol's port.
struct Ask {
  std::string_view usage;     // "key=value..."
  std::string_view example;   // a question, and behind it, line by line, what is answered; or empty
  std::string_view question;  // of the built-in example policy; or empty
  std::string_view command;   // the same with another client: the port follows; or empty
  int (*run)(const Words& words, config::CommandIo& io);
};

}  // namespace sluice::protocol
