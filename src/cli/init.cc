#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "base/clock.h"
#include "cli/inspect.h"
#include "config/address.h"
#include "config/load_policy.h"
#include "config/screen_text.h"
#include "policy/read/native_text.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

constexpr const char* file_default = "sluice.yaml";

// The protocols with policy files whose rules can be converted to native rules.
std::vector<protocol::Protocol> converted() {
  std::vector<protocol::Protocol> all;
  for (const protocol::Protocol protocol : config::with_policy_files())
    if (describe(protocol).policy->to_native != nullptr) all.push_back(protocol);
  return all;
}

constexpr const char* about_init =
    "Writes a sluice.yaml to begin with: every protocol on its own port, reached from this "
    "machine\n"
    "alone, and one rule, with comments on what to change. With an old policy: its rules as "
    "native\n"
    "ones that decide alike, for the protocol that it was of. FILE is sluice.yaml unless it is "
    "said,\n"
    "- prints it.";

std::string footer_of_init() {
  std::string text = "Examples:\n  sluice init\n";
  for (const protocol::Protocol protocol : converted()) {
    const protocol::Description& its = describe(protocol);
    text +=
        "  sluice init --" + std::string(its.name) + " " + std::string(its.policy->file) + " -\n";
  }
  return text +
         "\n"
         "A rule that allows always tells clients another number of units left than before; all\n"
         "else is answered alike. Counters begin again.\n";
}

std::string line_of_listener(const std::string& protocol, const std::string& host, uint16_t port,
                             const std::string& comment) {
  std::string line =
      "  - { protocol: " + protocol + ", address: \"" + config::format_address(host, port) + "\" }";
  if (line.size() < 57) line.resize(57, ' ');
  return line + " # " + comment + "\n";
}

std::string listeners_of_starter() {
  std::string text =
      "# Each protocol on its own port. 127.0.0.1 is reached from this machine alone, "
      "\"[::]:PORT\"\n"
      "# from everywhere. Take out what you do not need.\n"
      "listen:\n";
  for (const protocol::Description* one : protocol::all())
    text +=
        line_of_listener(std::string(one->name), "127.0.0.1", one->port, std::string(one->title));
  return text + line_of_listener("admin", "127.0.0.1", config::admin_port,
                                 "`sluice status`, `sluice top`, metrics");
}

constexpr const char* rules_of_starter =
    "# The first rule that a request meets decides. Every key: docs/policy.md.\n"
    "rules:\n"
    "  # Log-ins: five a minute for each address.\n"
    "  - name: log-in\n"
    "    match: { method: POST, path: /login, ip: \"*\" } # what a request must have; `*` is any "
    "text\n"
    "    actor: ip                                      # each address has a counter of its own\n"
    "    limit: { quota: 5, window: 1m }                # five at once, and one more every 12 s\n"
    "\n"
    "  # More to choose from; take the `#` away:\n"
    "  # - name: office\n"
    "  #   match: { ip: [cidr(10.0.0.0/8), cidr(2001:db8::/32)], method: [GET, HEAD] }\n"
    "  #   unlimited: true\n"
    "  # - name: api-per-tenant\n"
    "  #   match: { tenant: \"*\", path: \"/api/*\" }\n"
    "  #   actor: tenant\n"
    "  #   limits: # all of them must allow\n"
    "  #     - { quota: 100, window: 1s, burst: 200 }\n"
    "  #     - { quota: 10k, window: 1d, algorithm: sliding_window }\n"
    "  #   mode: shadow # counts, and refuses nothing yet\n"
    "\n"
    "# Counters are kept in memory, and a restart forgets them, unless there is a folder for "
    "them.\n"
    "# store: { path: /var/lib/sluice/store, memory: 1GiB }\n";

std::string starter(const std::string& name) {
  return "# What sluice serves. Look at it, serve it, ask it:\n"
         "#\n"
         "#     sluice check " +
         name + "\n#     sluice serve --config " + name +
         "\n"
         "#     sluice status\n"
         "#\n"
         "# A change of `rules` is live as soon as the file is saved.\n\n" +
         listeners_of_starter() + "\n" + rules_of_starter;
}

// The text of a sluice.yaml with the policy's rules as native rules, served on the protocol's port.
// Empty: they cannot be converted, which is reported.
std::optional<std::string> convert(protocol::Protocol protocol, const std::string& path,
                                   const std::string& name, const FileFlags& flags,
                                   base::Diagnostics& diagnostics) {
  const protocol::Description& its = describe(protocol);
  auto kind = config::kind_of(path);
  if (!kind || kind->protocol != protocol) kind = config::FileKind{protocol, 0};
  request::Spaces spaces;
  const auto rules = inspect(path, kind, flags, spaces, diagnostics);
  if (!rules) return std::nullopt;
  const auto native =
      its.policy->to_native(rules->rules(its.dialect), base::Clock().now(), diagnostics);
  if (base::has_errors(diagnostics)) return std::nullopt;
  return "# " + config::on_screen(path) + " as native rules, made by `sluice init --" +
         std::string(its.name) +
         "`. They decide alike over that protocol; over\n"
         "# others a rule without `match` decides as well. Look at it, serve it:\n"
         "#\n"
         "#     sluice check " +
         name + "\n#     sluice serve --config " + name +
         "\n\nlisten: # \"[::]\" is reached from everywhere, 127.0.0.1 from this machine alone\n" +
         line_of_listener(std::string(its.name), std::string(its.host), its.port,
                          std::string(its.title)) +
         line_of_listener("admin", "127.0.0.1", config::admin_port,
                          "`sluice status`, `sluice top`, metrics") +
         "\nrules:\n" + policy::native_text(native);
}

// False: the file could not be written, which is reported.
bool write_new(const std::string& path, const std::string& text, bool force,
               config::CommandIo& io) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0666);
  if (file < 0 && errno == EEXIST) {
    fail(path + " is there already; name another file, or write over it with --force", io);
    return false;
  }
  size_t written = 0;
  while (file >= 0 && written < text.size()) {
    const ssize_t n = ::write(file, text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) written += static_cast<size_t>(n);
  }
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (file >= 0 && written == text.size()) return true;
  fail(path + " cannot be written: " + std::strerror(problem), io);
  return false;
}

}  // namespace

int init(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice init [options] [FILE]", about_init, footer_of_init(),
                      {"written", "it cannot be written, or the old policy cannot be converted"});
  const auto protocols = converted();
  std::map<protocol::Protocol, std::optional<std::string>> given;
  FileFlags flags;
  bool force = false;
  for (const protocol::Protocol one : protocols)
    arguments.add_option("--" + std::string(describe(one).name), given[one],
                         "Convert this: " + std::string(describe(one).policy->summary), "FILE");
  add_format_flags(arguments, flags);
  arguments.add_flag("--force", force, "Write over a file that is there");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() > 1) return arguments.misused("one FILE is enough", io);
  const std::string path =
      arguments.positional().empty() ? file_default : arguments.positional().front();
  const std::string name = path == "-" ? file_default : config::on_screen(path);
  std::optional<protocol::Protocol> from;
  for (const auto& [one, file] : given) {
    if (file && from) return arguments.misused("one old policy is converted at a time", io);
    if (file) from = one;
  }
  std::string text = starter(name);
  if (from) {
    base::Diagnostics diagnostics;
    const auto made = convert(*from, *given[*from], name, flags, diagnostics);
    tell(diagnostics, io);
    if (!made) return config::exit_failure;
    text = *made;
  }
  if (path == "-") {
    io.out << text << std::flush;
    return config::exit_ok;
  }
  if (!write_new(path, text, force, io)) return config::exit_failure;
  io.out << name << ": written; look at it, then `sluice serve --config " << name << "`"
         << std::endl;
  return config::exit_ok;
}

}  // namespace sluice::cli
