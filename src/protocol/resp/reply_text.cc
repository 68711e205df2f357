#include "protocol/resp/reply_text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/screen_text.h"
#include "protocol/resp/command_table.h"

namespace sluice::resp {
namespace {

using wire::RespItem;

bool build(wire::RespItems& items, RespValue& value, unsigned depth) {
  RespItem item;
  if (depth > resp_depth_max || !items.next(item)) return false;
  while (item.kind == RespItem::Kind::attributes) {
    RespValue left_out;
    for (size_t i = 0; i < 2 * item.count; ++i)
      if (!build(items, left_out, depth + 1)) return false;
    if (!items.next(item)) return false;
  }
  value = {item.kind, std::string(item.text), item.number, item.real, {}};
  const bool is_map = item.kind == RespItem::Kind::map;
  if (!is_map && item.kind != RespItem::Kind::list) return true;
  value.items.resize(is_map ? 2 * item.count : item.count);
  for (RespValue& one : value.items)
    if (!build(items, one, depth + 1)) return false;
  return true;
}

}  // namespace

std::optional<RespValue> resp_value(std::string_view bytes) {
  wire::RespItems items(bytes);
  RespValue value;
  if (!build(items, value, 0)) return std::nullopt;
  return value;
}

namespace {

using Kind = RespValue::Kind;
using nlohmann::ordered_json;

// Appends the text in quotes, with everything escaped except printable ASCII.
void append_quoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '\\':
      case '"':
        out += {'\\', c};
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\a':
        out += "\\a";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (c >= ' ' && c <= '~') {
          out += c;
        } else {
          char hex[5];
          std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
          out += hex;
        }
    }
  }
  out += '"';
}

void append_real(double value, std::string& out) {
  char text[32];
  out.append(text, std::to_chars(std::begin(text), std::end(text), value).ptr);
}

// `indent`: the text before every line of this reply except the first.
void append_reply(const RespValue& reply, const std::string& indent, std::string& out);

void append_items(const RespValue& reply, const std::string& indent, std::string& out) {
  const bool is_map = reply.kind == Kind::map;
  const size_t step = is_map ? 2 : 1, count = reply.items.size() / step;
  if (count == 0) {
    out += is_map ? "(empty hash)\n" : "(empty array)\n";
    return;
  }
  const size_t digits = std::to_string(count).size();
  const std::string inner = indent + std::string(digits + 2, ' ');
  for (size_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i + 1);
    if (i > 0) out += indent;
    out += std::string(digits - number.size(), ' ') + number + (is_map ? "# " : ") ");
    append_reply(reply.items[i * step], inner, out);
    if (!is_map) continue;
    out.pop_back();  // the line end after the key
    out += " => ";
    append_reply(reply.items[i * step + 1], inner, out);
  }
}

void append_reply(const RespValue& reply, const std::string& indent, std::string& out) {
  switch (reply.kind) {
    case Kind::simple:
    case Kind::big_number:
      out += config::on_screen(reply.text);
      break;
    case Kind::error:
      out += "(error) " + config::on_screen(reply.text);
      break;
    case Kind::integer:
      out += "(integer) " + std::to_string(reply.number);
      break;
    case Kind::bulk:
      append_quoted(reply.text, out);
      break;
    case Kind::null:
      out += "(nil)";
      break;
    case Kind::boolean:
      out += reply.number != 0 ? "(true)" : "(false)";
      break;
    case Kind::real:
      out += "(double) ";
      append_real(reply.real, out);
      break;
    case Kind::list:
    case Kind::map:
      return append_items(reply, indent, out);
    case Kind::attributes:
      break;
  }
  out += '\n';
}

// Is the reply to this command a text of several lines?
bool is_text_of_lines(std::span<const std::string_view> command) {
  if (command.empty()) return false;
  const auto is = [&](std::string_view name, std::initializer_list<std::string_view> subs) {
    if (!is_word(command[0], name)) return false;
    for (const std::string_view sub : subs)
      if (command.size() > 1 && is_word(command[1], sub)) return true;
    return false;
  };
  return is_word(command[0], "INFO") || is("CLIENT", {"LIST", "INFO"}) ||
         is("CLUSTER", {"NODES", "INFO"});
}

}  // namespace

std::string as_redis_cli(const RespValue& reply) {
  std::string out;
  append_reply(reply, "", out);
  return out;
}

std::string as_redis_cli(const RespValue& reply, std::span<const std::string_view> command) {
  if (reply.kind != Kind::bulk || !is_text_of_lines(command)) return as_redis_cli(reply);
  std::string out;
  for (std::string_view rest = reply.text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out += config::on_screen(line) + "\n";
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

ordered_json json_of(const RespValue& reply) {
  switch (reply.kind) {
    case Kind::simple:
    case Kind::big_number:
    case Kind::bulk:
      return reply.text;
    case Kind::error:
      return {{"error", reply.text}};
    case Kind::integer:
      return reply.number;
    case Kind::boolean:
      return reply.number != 0;
    case Kind::real:
      return reply.real;
    case Kind::list: {
      ordered_json list = ordered_json::array();
      for (const RespValue& item : reply.items) list.push_back(json_of(item));
      return list;
    }
    case Kind::map: {
      // Keys that are not texts are written as their JSON text.
      ordered_json map = ordered_json::object();
      for (size_t i = 0; i + 1 < reply.items.size(); i += 2) {
        const RespValue& key = reply.items[i];
        map[key.is_text()
                ? key.text
                : json_of(key).dump(-1, ' ', false, ordered_json::error_handler_t::replace)] =
            json_of(reply.items[i + 1]);
      }
      return map;
    }
    case Kind::null:
    case Kind::attributes:
      break;
  }
  return nullptr;
}

}  // namespace sluice::resp
