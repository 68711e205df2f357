// The server that a command of a protocol asks, over the client library: one connection, which is
// tried once. Blocks the calling thread.
#pragma once

#include <sluice/client.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "cli/ask.h"

namespace sluice::cli {

class AskedServer {
 public:
  // `scheme`: of an address of the client library, `resp`. Connects with the first call. The
  // target's timeout bounds each call, except for the lookup of the name.
  AskedServer(std::string_view scheme, const AskTarget& target);

  // How the request ended. With an error its text says why.
  client_result call(const client_request& request);

 private:
  const AskTarget target_;
  std::string problem_;  // the address is not one
  bool was_connected_ = false;
  std::string failure_;  // why it could not connect
  client_call_id call_ = 0;
  std::unique_ptr<client> client_;
};

}  // namespace sluice::cli
