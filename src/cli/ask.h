// What the questions of all protocols have in common: the options, whom to ask, and how it ends.
// Used by the commands alone.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/tls_flags.h"
#include "config/address.h"
#include "net/tls.h"

namespace sluice::cli {

inline constexpr int exit_allowed = config::exit_ok, exit_denied = config::exit_failure,
                     exit_undecided = exit_no_server;

struct AskOptions {
  std::string server, timeout = "1000";
  TlsFlag ca, cert, key;  // files of TLS
  bool json = false;

  explicit AskOptions(uint16_t port) : server("localhost:" + std::to_string(port)) {}
};
// `server_default`: what the help says of it; null: the address itself.
void add_ask_options(Arguments& arguments, AskOptions& options,
                     const char* server_default = nullptr);

// Whom to be at a server with users: --user, and the token of the environment, which suffices. No
// token: the client names no user.
struct AskedUser {
  std::string name, token;
};
// What the help of these commands says of it.
inline constexpr const char* about_users =
    "Where the server has users, SLUICE_TOKEN holds the token of one.\n";
void add_user_option(Arguments& arguments, AskedUser& user);
// Reads the token. A problem: there is none, and --user or a variable of before wants one.
base::Done read_token(AskedUser& user, const config::CommandIo& io);

struct AskTarget {
  config::Address address;
  std::chrono::milliseconds timeout;
  std::optional<net::TlsClient> tls{};  // empty: plain text
};
// The server to ask. `schemes`: what the address may begin with, such as `http`; with an `s` at its
// end it asks for TLS. A problem: an option is wrong.
base::Result<AskTarget> target_of(const AskOptions& options, uint16_t port,
                                  std::initializer_list<std::string_view> schemes);

// The failure of a question, with what to do if it is that the port has TLS and was asked without.
std::string with_hint(std::string failure, const AskTarget& target);

// Tells that there is no decision, why, and what to do where no server was reached; returns
// exit_undecided.
int report_undecided(std::string error, bool json, config::CommandIo& io);

}  // namespace sluice::cli
