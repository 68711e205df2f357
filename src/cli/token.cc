#include "access/users.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/inspect.h"
#include "config/settings.h"
#include "config/users.h"

namespace sluice::cli {
namespace {

constexpr const char* about_token =
    "Makes a token for a user of a server: prints it, for the client, and the user's line for\n"
    "`users` in sluice.yaml, which holds the token's SHA-256 alone. A server that reads the token\n"
    "from a file has `token_file: FILE` in place of `sha256`. Nothing keeps the token: who loses\n"
    "it makes another one.";

constexpr const char* footer_of_token =
    "Examples:\n"
    "  sluice token app\n"
    "  sluice token app --json | jq -r .token > app.token\n";

std::string hexadecimal(const access::Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

int token(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice token [options] NAME", about_token, footer_of_token,
                      {"made", "it cannot be printed"});
  bool json = false;
  arguments.add_flag("--json", json, "Print the token and the line as JSON");
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() != 1)
    return arguments.misused("give the name of one user, such as `sluice token app`", io);
  const std::string& name = arguments.positional().front();
  if (!config::is_user_name(name))
    return arguments.misused(
        "a name of a user has up to 64 printable ASCII characters and no blanks", io);
  const std::string made = access::make_token(), digest = hexadecimal(access::digest_of(made)),
                    line = "- { name: " + config::in_quotes(name) + ", sha256: " + digest +
                           ", rights: [take, look] }";
  if (json)
    io.out << to_text({{"name", name}, {"token", made}, {"sha256", digest}, {"line", line}});
  else
    io.out << "token, for the client:\n  " << made << "\nline of `users`, for sluice.yaml:\n  "
           << line << '\n';
  io.out << std::flush;
  return io.out ? config::exit_ok : config::exit_failure;
}

}  // namespace sluice::cli
