#include "cli/admin_port.h"

#include <algorithm>
#include <utility>

#include "base/units.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "cli/tls_flags.h"
#include "client/socket.h"
#include "config/address.h"
#include "config/admin_sockets.h"
#include "config/operations.h"
#include "config/read_file.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* address_default = "127.0.0.1:8380";
constexpr uint64_t timeout_ms_max = 3'600'000;

// The timeout of an attempt to find a server.
constexpr std::chrono::milliseconds probe_timeout{500};

bool answers(const std::string& host, uint16_t port) {
  return static_cast<bool>(calls::Socket::connect(host, port, probe_timeout));
}

// The server to use if none is named: the only one that is found on this machine, at the default
// address or at a socket of a drop-in server. A problem: there are several.
base::Result<std::string> find_server(const config::CommandIo& io) {
  std::vector<std::string> found;
  for (const std::string& path : config::admin_sockets(io))
    if (answers(path, 0)) found.push_back(path);
  if (found.empty()) return std::string(address_default);
  if (answers("127.0.0.1", config::admin_port)) found.insert(found.begin(), address_default);
  if (found.size() == 1) return found.front();
  std::string several = "several servers run on this machine; choose one with --admin:";
  for (const std::string& one : found) several += (&one == &found.front() ? " " : ", ") + one;
  return base::Problem{std::move(several)};
}

std::string variable(const config::CommandIo& io, const char* name) {
  return io.environment ? io.environment(name).value_or("") : "";
}

constexpr const char* server_variable = "SLUICE_ADMIN_SERVER";
constexpr const char* listen_variable = "SLUICE_ADMIN";

// The token from the flag or the environment; "" if neither is set. A problem: the token cannot be
// used.
base::Result<std::string> read_token(const AdminFlags& flags, const config::CommandIo& io) {
  base::Diagnostics diagnostics;
  std::string text, origin = "SLUICE_ADMIN_TOKEN";
  std::string file = flags.token_file.value_or("");
  if (flags.token_file) origin = "--token-file " + file;
  if (!flags.token_file && variable(io, "SLUICE_ADMIN_TOKEN").empty()) {
    file = variable(io, "SLUICE_ADMIN_TOKEN_FILE");
    if (!file.empty()) origin = "SLUICE_ADMIN_TOKEN_FILE " + file;
  }
  if (flags.token_file || !file.empty()) {
    auto read = config::read_file(file, diagnostics);
    if (!read)
      return base::Problem{
          origin + ": " + diagnostics.front().message +
          "; name a file that holds the server's admin token, or set SLUICE_ADMIN_TOKEN"};
    text = std::move(*read);
    while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  } else {
    text = variable(io, "SLUICE_ADMIN_TOKEN");
    if (text.empty()) return text;
  }
  std::string token;
  config::AdminToken::read(
      {.key = {}, .text = text, .origin = origin, .place = {}, .diagnostics = diagnostics}, token);
  if (diagnostics.empty()) return text;
  return base::Problem{origin + ": " + diagnostics.front().message + "; " +
                       diagnostics.front().remedy};
}

// The path of a target, without the query.
std::string path_of(const std::string& target) {
  return target.substr(0, target.find('?'));
}

// The content type without its parameters.
std::string_view media_type(std::string_view content_type) {
  return content_type.substr(0, content_type.find_first_of("; "));
}

// Does `path` match a described path, such as "/v1/counters/{key}"?
bool fits(std::string_view described, std::string_view path) {
  const size_t brace = described.find("/{");
  if (brace == described.npos) return described == path;
  return path.size() > brace + 1 && path.substr(0, brace + 1) == described.substr(0, brace + 1);
}

}  // namespace

void add_admin_flags(Arguments& arguments, AdminFlags& flags) {
  arguments.add_option("--admin", flags.admin,
                       "Where the server's admin port is: an address, with `https://` in front\n"
                       "where it has TLS, or the path of a socket;\n"
                       "default 127.0.0.1:8380, or the socket of the one server that has one",
                       "ADDRESS");
  add_common_admin_flags(arguments, flags);
}

void add_common_admin_flags(Arguments& arguments, AdminFlags& flags) {
  arguments.add_option("--token-file", flags.token_file,
                       "A file with the admin token, where the server wants one", "FILE");
  add_tls_flags(arguments, flags.ca, flags.cert, flags.key);
  arguments.add_option("--timeout", flags.timeout, "Milliseconds until giving up; default 5000",
                       "MS");
  arguments.add_flag("--json", flags.json, "Print the result as JSON");
}

AdminServer admin_server_of(const config::CommandIo& io) {
  std::string server = variable(io, server_variable);
  if (!server.empty()) return {std::move(server), server_variable};
  server = variable(io, listen_variable);
  if (server == "off") server.clear();
  return {std::move(server), listen_variable};
}

std::string admin_footer(const std::string& examples, const std::string& done,
                         const std::string& failed) {
  return "Environment:\n"
         "  SLUICE_ADMIN_SERVER   as --admin\n"
         "  SLUICE_ADMIN_TOKEN   the admin token itself\n"
         "  SLUICE_ADMIN_TOKEN_FILE   a file with it, as --token-file\n"
         "  SLUICE_ADMIN_CA   as --ca\n"
         "\n" +
         examples + "\n\n" + exit_help(ExitStatus{done, failed, true});
}

std::optional<AdminPort> AdminPort::open(const AdminFlags& flags, const Arguments& arguments,
                                         config::CommandIo& io, int& status) {
  Unusable why;
  auto port = find(flags, io, why);
  if (port) return port;
  Reply unusable;
  unusable.problem = why.problem;
  status =
      why.is_misuse ? arguments.misused(why.problem, io) : report_failure(unusable, flags.json, io);
  return std::nullopt;
}

std::optional<AdminPort> AdminPort::find(const AdminFlags& flags, config::CommandIo& io,
                                         Unusable& why) {
  const AdminServer named = admin_server_of(io);
  std::string text = flags.admin ? *flags.admin : named.address;
  const auto failed = [&](base::Problem problem) {
    why = {std::move(problem.text), false};
    return std::nullopt;
  };
  const auto misused = [&](std::string problem) {
    why = {std::move(problem), true};
    return std::nullopt;
  };
  const auto ms = base::parse_count(flags.timeout);
  if (!ms || *ms < 1 || *ms > timeout_ms_max)
    return misused("--timeout must be 1 to 3600000 milliseconds, not `" + flags.timeout + "`");
  if (!flags.admin && named.address.empty()) {
    auto found = find_server(io);
    if (!found) return failed(std::move(found).problem());
    text = *std::move(found);
  }
  if (!flags.admin && !named.address.empty() && named.variable == listen_variable)
    io.err << config::paint("warning:", config::yellow, io.err_colour)
           << " SLUICE_ADMIN is where a server listens; name the server that commands ask by "
              "SLUICE_ADMIN_SERVER or --admin"
           << std::endl;
  const std::string origin = flags.admin ? "--admin" : named.variable;
  if (text == "off")
    return misused(origin +
                   " is `off`, and what is switched off cannot be asked; write "
                   "--admin ADDRESS");
  constexpr std::string_view https = "https://", http = "http://";
  const bool is_secure = text.starts_with(https);
  if (is_secure || text.starts_with(http)) text.erase(0, is_secure ? https.size() : http.size());
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  std::optional<std::string> ca = flags.ca;
  if (const std::string its = variable(io, "SLUICE_ADMIN_CA"); is_secure && !ca && !its.empty())
    ca = its;
  auto tls = tls_of(ca, flags.cert, flags.key, is_secure, "--admin https://ADDRESS");
  if (!tls) return misused(std::move(tls).problem().text);
  const auto address = calls::is_unix_path(text) ? config::Address{text, 0}
                                                 : config::parse_address(text, config::admin_port);
  if (!address) return misused(origin + ": " + address.problem().text);
  auto token = read_token(flags, io);
  if (!token) return failed(std::move(token).problem());
  calls::HttpClient::Options options;
  options.host = address->host;
  options.port = address->port;
  options.token = *std::move(token);
  options.timeout = std::chrono::milliseconds(*ms);
  options.tls = *std::move(tls);
  const std::string name = address->port == 0
                               ? text
                               : (is_secure ? std::string(https) : std::string()) +
                                     config::format_address(address->host, address->port);
  AdminPort port(std::move(options), name);
  if (!flags.admin && named.address.empty()) {
    for (const std::string& folder : config::admin_socket_folders(io))
      port.looked_in_ += (port.looked_in_.empty() ? " (no server has a socket in " : ", ") + folder;
    port.looked_in_ += port.looked_in_.empty() ? " (no folder has a server's socket)" : ")";
  }
  return port;
}

void AdminPort::wait_at_least(std::chrono::milliseconds timeout) {
  wait_at_most(std::max(client_.options().timeout, timeout));
}

void AdminPort::wait_at_most(std::chrono::milliseconds timeout) {
  auto options = client_.options();
  options.timeout = timeout;
  client_ = calls::HttpClient(std::move(options));
}

AdminPort::Reply AdminPort::get(const std::string& target) {
  return ask("GET", target, nullptr);
}

AdminPort::Reply AdminPort::ask(std::string_view method, const std::string& target,
                                const nlohmann::ordered_json& body) {
  const std::string text =
      body.is_null() ? "" : body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return read(std::string(method), target, client_.ask(method, target, text));
}

// Asks the server's own OpenAPI document whether it has such a path, because a 404 may also be
// about a name within the path.
bool AdminPort::has_path(const std::string& target) {
  const auto result = client_.ask("GET", "/v1/openapi.json");
  if (!result.answer || result.answer->status != 200) return false;
  const Json document = Json::parse(result.answer->body, nullptr, false);
  const Json& paths = field(document, "paths");
  if (!paths.is_object()) return false;
  for (const auto& [described, methods] : paths.items())
    if (fits(described, path_of(target))) return true;
  return false;
}

AdminPort::Reply AdminPort::read(const std::string& method, const std::string& target,
                                 calls::HttpResult result) {
  Reply reply;
  if (!result.answer) {
    const bool unconnected = result.error.starts_with("cannot ");
    reply.problem = unconnected ? result.error : name_ + ": " + result.error;
    if (const auto remedy = tls_remedy(result.error); !remedy.empty())
      reply.problem += remedy;
    else if (result.error.starts_with("cannot connect"))
      reply.problem +=
          "; is the server up, and is its admin port there? If it is elsewhere, name the server as "
          "its banner does: `--admin 127.0.0.1:PORT`, `--admin PATH` of a socket, or "
          "SLUICE_ADMIN_SERVER" +
          looked_in_;
    return reply;
  }
  const calls::HttpAnswer& answer = *result.answer;
  reply.status = answer.status;
  const std::string_view type = media_type(answer.content_type);
  const bool is_json = type == "application/json", is_problem = type == "application/problem+json";
  if (is_json || is_problem) {
    reply.json = Json::parse(answer.body, nullptr, false);
    if (reply.json.is_discarded()) {
      reply.json = nullptr;
      reply.problem =
          name_ + " answers " + method + " " + path_of(target) + " with JSON that is none";
      return reply;
    }
  }
  const bool fine = answer.status >= 200 && answer.status < 300;
  if (fine && is_json && reply.json.is_object()) {
    reply.kind = Reply::Kind::done;
    return reply;
  }
  const std::string detail = text_field(reply.json, "detail");
  if (fine || !is_problem || detail.empty()) {
    reply.problem = name_ + " does not answer as sluice's admin port would: it answers " + method +
                    " " + path_of(target) + " with " + std::to_string(answer.status) +
                    "; check the address (--admin)";
    return reply;
  }
  reply.problem = detail;
  if (answer.status == 401) {
    reply.problem = client_.options().token.empty()
                        ? "the server requires its admin token; give it by --token-file FILE or "
                          "SLUICE_ADMIN_TOKEN"
                        : "the server has another admin token than the one that was given";
  } else if ((answer.status == 404 || answer.status == 405) && !has_path(target)) {
    reply.problem =
        "the server at " + name_ + " has no " + path_of(target) +
        "; it is older than this command: use the `sluice` of its version, or restart it with "
        "this version";
  } else if (answer.status != 403) {
    reply.kind = Reply::Kind::refused;
  }
  return reply;
}

int report_failure(const AdminPort::Reply& reply, bool json, config::CommandIo& io,
                   const Json& done) {
  const int status =
      reply.kind == AdminPort::Reply::Kind::refused ? config::exit_failure : exit_no_server;
  if (json) {
    Json told{{"error", reply.problem}};
    if (reply.status != 0) told["status"] = reply.status;
    for (const char* key : {"diagnostics", "candidates"})
      if (!field(reply.json, key).is_null()) told[key] = field(reply.json, key);
    if (done.is_object()) told.update(done);
    io.out << to_text(told) << std::flush;
    return status;
  }
  io.err << config::paint("error:", config::red, io.err_colour) << ' '
         << config::on_screen(reply.problem) << std::endl;
  // The rules that the name may mean.
  for (const Json& one : list_field(reply.json, "candidates"))
    io.err << "  --dialect " << config::on_screen(text_field(one, "dialect")) << " --rule '"
           << config::on_screen(text_field(one, "rule")) << "'" << std::endl;
  return status;
}

std::optional<int> end_without_words(const AdminPort::Reply& reply, bool json,
                                     config::CommandIo& io) {
  if (!reply.is_done()) return report_failure(reply, json, io);
  if (!json) return std::nullopt;
  io.out << to_text(reply.json) << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
