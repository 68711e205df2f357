// A running server's admin port, as the commands for it ask it: whom to ask and with which token,
// by flags and environment; answers as JSON; and what went wrong in words for people. Blocks; one
// thread. No token is ever printed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "client/http_client.h"

namespace sluice::cli {

struct AdminFlags {
  std::optional<std::string> admin, token_file;
  std::string timeout = "5000";
  bool json = false;
};
// --admin, --token-file, --timeout and --json.
void add_admin_flags(CLI::App& app, AdminFlags& flags);
// The server that the environment says commands ask: SLUICE_ADMIN_SERVER, else what servers listen
// on by SLUICE_ADMIN, which earlier versions read.
struct AdminServer {
  std::string address;  // "": neither is set
  const char* variable;
};
AdminServer admin_server_of(const config::CommandIo& io);
// What every help ends with: the environment, and the exit statuses, of which 0 and 1 differ.
std::string admin_footer(const std::string& examples, const std::string& done,
                         const std::string& failed);

class AdminPort {
 public:
  // By flags and environment. Nothing: something about them is wrong; it is reported, and `status`
  // is what the command ends with.
  static std::optional<AdminPort> open(const AdminFlags& flags, const Arguments& arguments,
                                       config::CommandIo& io, int& status);

  struct Reply {
    enum class Kind {
      done,     // 2xx, and as sluice answers: a JSON object, or the figures of /metrics
      refused,  // the server says no, and why
      unasked,  // there is nothing that could have said
    };
    Kind kind = Kind::unasked;
    unsigned status = 0;          // 0: nothing came
    nlohmann::ordered_json json;  // null: it is none
    std::string text;             // the figures, of /metrics
    std::string problem;          // what is wrong, where it is not done; one line
    bool interrupted = false;

    bool is_done() const { return kind == Kind::done; }
  };
  // `target` is a path with its query, encoded.
  Reply ask(std::string_view method, const std::string& target, const nlohmann::ordered_json& body,
            std::span<const int> interrupts = {});
  Reply get(const std::string& target, std::span<const int> interrupts = {});

  // For a question that takes the server longer.
  void wait_at_least(std::chrono::milliseconds timeout);

  // "127.0.0.1:8380"
  const std::string& name() const { return name_; }

 private:
  AdminPort(calls::HttpClient::Options options, std::string name)
      : client_(std::move(options)), name_(std::move(name)) {}
  Reply read(const std::string& method, const std::string& target, calls::HttpResult result,
             std::span<const int> interrupts);
  bool has_path(const std::string& target, std::span<const int> interrupts);

  calls::HttpClient client_;
  std::string name_;
};

// Tells what is wrong with a reply that is not done, as `{"error": ...}` if the command was asked
// for JSON, with `done` of what was done before; returns the exit status.
int report_failure(const AdminPort::Reply& reply, bool json, config::CommandIo& io,
                   const nlohmann::ordered_json& done = {});

}  // namespace sluice::cli
