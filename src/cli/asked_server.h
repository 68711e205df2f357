// The server that a command of a protocol asks, over the client library: one connection, which is
// tried once. Blocks the calling thread.
#pragma once

#include <sluice/client.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ask.h"

namespace sluice::cli {

class AskedServer {
 public:
  // `scheme`: of an address of the client library, `resp`, without TLS. Connects with the first
  // call. The target's timeout bounds each call, except for the lookup of the name.
  AskedServer(std::string_view scheme, const AskTarget& target, const AskedUser& user = {});

  // How the request ended. With an error its text says why.
  client_result call(const client_request& request);
  // The same of several, which are sent together.
  std::vector<client_result> call_all(std::span<const client_request> requests);

  // Has the connection ended? A later call is sent over another one, which has neither the
  // database nor the state of the first.
  bool was_lost() const { return was_lost_; }

 private:
  void explain(client_result& result) const;

  const AskTarget target_;
  std::string problem_;  // the address is not one
  bool was_connected_ = false, was_lost_ = false;
  std::string failure_;  // why it could not connect
  std::vector<client_call_id> calls_;
  std::unique_ptr<client> client_;
};

}  // namespace sluice::cli
