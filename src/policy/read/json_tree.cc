#include "policy/read/json_tree.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/background.h"
#include "policy/text.h"

namespace sluice::policy {

namespace {

using Library = nlohmann::json;

// Gives characters to the library, and tells the handler how far the library has read.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  const char** furthest;

  reference operator*() const { return *at; }
  Cursor& operator++() {
    *furthest = ++at;
    return *this;
  }
  Cursor operator++(int) {
    Cursor before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.at == b.at; }
};

class Builder {
 public:
  Builder(std::string_view text, JsonDocument& document)
      : text_(text), furthest_(text.data()), document_(document) {}

  bool null() { return scalar({}); }
  bool boolean(bool value) {
    JsonNode node;
    node.kind = JsonNode::Kind::boolean;
    node.boolean = value;
    return scalar(std::move(node));
  }
  bool number_integer(Library::number_integer_t value) {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(Library::number_unsigned_t value) {
    return number(static_cast<double>(value));
  }
  bool number_float(Library::number_float_t value, const std::string&) { return number(value); }
  bool string(std::string& value) {
    JsonNode node;
    node.kind = JsonNode::Kind::text;
    node.text = std::move(value);
    return scalar(std::move(node));
  }
  bool binary(Library::binary_t&) { return false; }

  bool start_object(size_t) { return open(JsonNode::Kind::object); }
  bool start_array(size_t) { return open(JsonNode::Kind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    base::yield_if_background();
    Open& object = open_.back();
    object.key = std::move(name);
    object.key_at = before(object.key.size() + 2);
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const Library::exception&) {
    error_ = {position > 0 ? position - 1 : 0, "this is not JSON"};
    if (!token.empty()) error_->message += "; the first error is at `" + shortened(token, 64) + "`";
    return false;
  }

  std::optional<JsonError> error() const { return error_; }
  const char** progress() { return &furthest_; }

 private:
  // A list or object whose end has not been read.
  struct Open {
    JsonNode node;
    std::string key;  // of the next member
    size_t key_at = 0;
    std::unordered_map<std::string, size_t> places;  // index of each member of an object
  };

  size_t position() const { return static_cast<size_t>(furthest_ - text_.data()); }
  size_t before(size_t size) const { return position() > size ? position() - size : 0; }

  bool number(double value) {
    JsonNode node;
    node.kind = JsonNode::Kind::number;
    node.number = value;
    return scalar(std::move(node), 2);  // the character after the number has been read as well
  }

  bool scalar(JsonNode node, size_t back = 1) {
    node.at = before(back);
    place(std::move(node));
    return true;
  }

  bool open(JsonNode::Kind kind) {
    if (open_.size() == json_depth_max) {
      error_ = {before(1), "more than " + std::to_string(json_depth_max) +
                               " lists and objects are nested here"};
      return false;
    }
    Open& fresh = open_.emplace_back();
    fresh.node.kind = kind;
    fresh.node.at = before(1);
    return true;
  }

  bool close() {
    JsonNode node = std::move(open_.back().node);
    open_.pop_back();
    place(std::move(node));
    return true;
  }

  // Adds a complete node to the list or object around it.
  void place(JsonNode node) {
    if (open_.empty()) {
      document_.root = std::move(node);
      return;
    }
    Open& around = open_.back();
    std::vector<JsonNode>& items = around.node.items;
    if (around.node.kind == JsonNode::Kind::list) {
      items.push_back(std::move(node));
      return;
    }
    const bool scalar = node.kind != JsonNode::Kind::list && node.kind != JsonNode::Kind::object;
    if (scalar) node.at = around.key_at;
    const auto [at, fresh] = around.places.try_emplace(around.key, items.size());
    if (fresh) {
      around.node.keys.push_back(std::move(around.key));
      items.push_back(std::move(node));
    } else {
      document_.repeated_keys.emplace_back(std::move(around.key), around.key_at);
      items[at->second] = std::move(node);
    }
  }

  std::string_view text_;
  const char* furthest_;
  JsonDocument& document_;
  std::vector<Open> open_;
  std::optional<JsonError> error_;
};

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
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
      default:
        if (byte >= 0x20) {
          out += c;
        } else {
          out += "\\u00";
          out += hex[byte >> 4];
          out += hex[byte & 15];
        }
    }
  }
  out += '"';
}

void append(std::string& out, const JsonNode& node) {
  switch (node.kind) {
    case JsonNode::Kind::null:
      out += "null";
      return;
    case JsonNode::Kind::boolean:
      out += node.boolean ? "true" : "false";
      return;
    case JsonNode::Kind::number:
      out += number_text(node.number);
      return;
    case JsonNode::Kind::text:
      append_quoted(out, node.text);
      return;
    case JsonNode::Kind::list:
    case JsonNode::Kind::object:
      break;
  }
  const bool object = node.kind == JsonNode::Kind::object;
  out += object ? '{' : '[';
  for (size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) out += ',';
    if (object) {
      append_quoted(out, node.keys[i]);
      out += ':';
    }
    append(out, node.items[i]);
  }
  out += object ? '}' : ']';
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::optional<JsonError> parse_json(std::string_view text, JsonDocument& document) {
  Builder builder(text, document);
  const Cursor first{text.data(), builder.progress()};
  const Cursor end{text.data() + text.size(), builder.progress()};
  if (Library::sax_parse(first, end, &builder)) return std::nullopt;
  if (auto error = builder.error()) return error;
  return JsonError{text.size(), "this is not JSON"};
}

std::string compact_json(const JsonNode& node) {
  std::string out;
  append(out, node);
  return out;
}

}  // namespace sluice::policy
