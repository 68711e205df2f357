#include "cli/explain_live.h"

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

std::string shown(const Json& json, const char* key) {
  return config::on_screen(text_field(json, key));
}

std::string place_words(const Json& rule) {
  const std::string file = shown(rule, "file");
  return file.empty() ? "" : " " + file + ":" + std::to_string(integer_field(rule, "line"));
}

std::string mismatch_words(const Json& mismatch) {
  const std::string key = shown(mismatch, "key");
  const Json& value = field(mismatch, "value");
  return key + "=" + shown(mismatch, "pattern") + " does not fit: " +
         (value.is_string() ? "it is " + config::on_screen(value.get<std::string>())
                            : "the request has no " + key);
}

std::string rule_line(const Json& rule) {
  std::string text = "rule " + shown(rule, "rule") + " (" + shown(rule, "dialect") + ")" +
                     place_words(rule) + ": ";
  const std::string mode = shown(rule, "mode");
  if (mode != "enforce") text += mode + ", ";
  if (const std::string error = shown(rule, "error"); !error.empty()) return text + error;
  if (true_field(rule, "over")) return text + "has ended";
  if (!true_field(rule, "applies"))
    return text + (field(rule, "mismatch").is_object() ? mismatch_words(field(rule, "mismatch"))
                                                       : "does not apply");
  text += true_field(rule, "has_say") ? "applies and decides" : "applies";
  for (const Json& one : list_field(rule, "decisions"))
    text += "; " + std::string(true_field(one, "allowed") ? "allows" : "denies") + ": " +
            level_words(one);
  if (const std::string id = shown(rule, "override"); !id.empty()) text += " (override " + id + ")";
  if (const std::string counter = shown(rule, "counter"); !counter.empty())
    text += "\n  counter " + counter;
  if (const std::string actor = shown(rule, "actor"); !actor.empty()) text += "\n  actor " + actor;
  return text;
}

// `protocol`: null: none was named.
std::string verdict_line(const Json& verdict, const protocol::Description* protocol) {
  if (const std::string error = text_field(verdict, "error"); !error.empty())
    return "It would fail: " + error;
  if (!true_field(verdict, "matched"))
    return protocol == nullptr
               ? "No rule decides it; what is answered depends on the protocol (--protocol names "
                 "one) and on `unmatched`."
               : "No rule decides it." +
                     (protocol->dialect == nullptr || protocol->dialect->unmatched.empty()
                          ? std::string()
                          : " " + std::string(protocol->dialect->unmatched)) +
                     " (A listener's `unmatched` goes before that.)";
  if (true_field(verdict, "allowed"))
    return "It would be allowed: " + std::to_string(integer_field(verdict, "remaining")) +
           " left behind it.";
  const Json& wait = field(verdict, "retry_after");
  return "It would be denied" + (wait.is_null()
                                     ? std::string(", and waiting does not help.")
                                     : "; it could be allowed in " + seconds_words(wait) + ".");
}

}  // namespace

int explain_live(const AdminFlags& flags, std::optional<protocol::Protocol> protocol,
                 const Arguments& arguments, config::CommandIo& io) {
  const auto pairs = pairs_of(arguments.positional());
  if (!pairs) return arguments.misused(pairs.problem().text, io);
  const protocol::Description* const named = protocol ? &describe(*protocol) : nullptr;
  const std::string_view name = named != nullptr ? named->name : protocol::all().front()->name;
  Json body{{"protocol", name}, {"descriptor", Json::array()}};
  for (const auto& [key, value] : *pairs)
    body["descriptor"].push_back({{"key", key}, {"value", value}});
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->ask("POST", "/v1/explain", body);
  if (!reply.is_done()) return report_failure(reply, flags.json, io);
  if (flags.json) {
    io.out << to_text(reply.json) << std::flush;
    return config::exit_ok;
  }
  for (const Json& rule : list_field(reply.json, "rules")) io.out << rule_line(rule) << '\n';
  if (const int64_t behind = integer_field(reply.json, "unreached"); behind > 0)
    io.out << base::counted(static_cast<uint64_t>(behind), "rule") << " behind "
           << (behind == 1 ? "is" : "are") << " not reached.\n";
  io.out << config::on_screen(verdict_line(field(reply.json, "verdict"), named)) << std::endl;
  return config::exit_ok;
}

}  // namespace sluice::cli
