// The client of a running server's admin port that all commands for it use: address and token from
// flags and environment, answers as JSON, problems as texts for people. Blocks; one thread. A token
// is never printed.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "client/http_client.h"

namespace sluice::cli {

struct AdminFlags {
  std::optional<std::string> admin, token_file;
  std::optional<std::string> ca, cert, key;  // files for TLS
  std::string timeout = "5000";
  bool json = false;
};
// Adds the options --admin, --token-file, --timeout and --json.
void add_admin_flags(Arguments& arguments, AdminFlags& flags);
// Those but --admin.
void add_common_admin_flags(Arguments& arguments, AdminFlags& flags);
// The server that the environment says commands ask: SLUICE_ADMIN_SERVER, else what servers listen
// on by SLUICE_ADMIN, which earlier versions read.
struct AdminServer {
  std::string address;  // "": neither is set
  const char* variable;
};
AdminServer admin_server_of(const config::CommandIo& io);
// The end of every command's help: the environment, and the exit statuses; the meanings of 0 and 1
// are the command's own.
std::string admin_footer(const std::string& examples, const std::string& done,
                         const std::string& failed);

class AdminPort {
 public:
  // Why there is none.
  struct Unusable {
    std::string problem;     // one line
    bool is_misuse = false;  // of the command's words or of a variable
  };
  // Reads flags and environment, and looks for the server if they name none. Empty: `why` says why.
  static std::optional<AdminPort> find(const AdminFlags& flags, config::CommandIo& io,
                                       Unusable& why);
  // As `find`. Empty: the reason is reported, and the command must return `status`.
  static std::optional<AdminPort> open(const AdminFlags& flags, const Arguments& arguments,
                                       config::CommandIo& io, int& status);

  struct Reply {
    enum class Kind {
      done,     // 2xx with an answer of sluice, a JSON object
      refused,  // the server refused, and gave a reason
      unasked,  // no server could be reached, or it sent no answer of sluice
    };
    Kind kind = Kind::unasked;
    unsigned status = 0;          // of HTTP; 0: there was no answer
    nlohmann::ordered_json json;  // null: the answer is not JSON
    std::string problem;          // one line, unless it is done

    bool is_done() const { return kind == Kind::done; }
  };
  // `target`: a path with its query, percent-encoded.
  Reply ask(std::string_view method, const std::string& target, const nlohmann::ordered_json& body);
  Reply get(const std::string& target);

  // Raises the timeout, for requests that take the server longer.
  void wait_at_least(std::chrono::milliseconds timeout);
  // In place of the timeout that the flags say.
  void wait_at_most(std::chrono::milliseconds timeout);

  // The address, as "127.0.0.1:8380".
  const std::string& name() const { return name_; }

 private:
  AdminPort(calls::HttpClient::Options options, std::string name)
      : client_(std::move(options)), name_(std::move(name)) {}
  Reply read(const std::string& method, const std::string& target, calls::HttpResult result);
  bool has_path(const std::string& target);

  calls::HttpClient client_;
  std::string name_;
  std::string looked_in_;  // the folders where no server was found; empty: one was named
};

// Prints the problem of a reply that is not done, with --json as `{"error": ...}` with the members
// of `done`, which say what was done before. Returns the exit status.
int report_failure(const AdminPort::Reply& reply, bool json, config::CommandIo& io,
                   const nlohmann::ordered_json& done = {});
// Ends a command whose answer is not told in words: it is not done, or with --json it is printed as
// it is. Nothing: the command tells it.
std::optional<int> end_without_words(const AdminPort::Reply& reply, bool json,
                                     config::CommandIo& io);

}  // namespace sluice::cli
