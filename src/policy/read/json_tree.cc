#include "policy/read/json_tree.h"

#include <algorithm>
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

}  // namespace

// Takes the library's events, and makes nodes of them.
class JsonBuilder {
 public:
  JsonBuilder(std::string_view text, YamlDocument& document, std::vector<RepeatedKey>& repeated)
      : text_(text), furthest_(text.data()), document_(document), repeated_(repeated) {
    document_.tags_.emplace_back();
  }

  bool null() { return add(before(1), Kind::null); }
  bool boolean(bool value) { return scalar(before(1), value ? "true" : "false", true); }
  bool number_integer(Library::number_integer_t value) {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(Library::number_unsigned_t value) {
    return number(static_cast<double>(value));
  }
  bool number_float(Library::number_float_t value, const std::string&) { return number(value); }
  bool string(const std::string& value) { return scalar(before(1), value, false); }
  bool binary(Library::binary_t&) { return false; }

  bool start_object(size_t) { return open(Kind::map); }
  bool start_array(size_t) { return open(Kind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& name) {
    base::yield_if_background();
    Open& object = open_.back();
    object.key_at = before(name.size() + 2);
    const auto [at, fresh] =
        object.keys.try_emplace(name, static_cast<uint32_t>(document_.nodes_.size()));
    object.key = at->second;
    if (fresh) return scalar(object.key_at, name, false);
    const auto [line, column] = place(object.key_at);
    repeated_.push_back({name, line, column});
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const Library::exception&) {
    refuse(position > 0 ? position - 1 : 0, "this is not JSON");
    if (!token.empty()) error_->message += "; the first error is at `" + shortened(token, 64) + "`";
    return false;
  }

  std::optional<YamlError> error() const { return error_; }
  const char** progress() { return &furthest_; }
  void refuse(size_t at, std::string message) {
    const auto [line, column] = place(at);
    error_ = {.line = line,
              .column = column,
              .subject = "",
              .message = std::move(message),
              .remedy = "check commas, quotes and brackets there"};
  }

 private:
  using Kind = YamlDocument::Kind;
  static constexpr uint32_t none = YamlDocument::none;
  // A list or object whose end has not been read.
  struct Open {
    uint32_t node, last = none;  // the last child, and of an object the key of the next value
    uint32_t key = none;
    size_t key_at = 0;
    std::unordered_map<std::string, uint32_t> keys{};
  };

  size_t before(size_t size) const {
    const auto position = static_cast<size_t>(furthest_ - text_.data());
    return position > size ? position - size : 0;
  }
  // From 1. Places ascend, but for that of an error, so counting goes on from the last one.
  std::pair<size_t, size_t> place(size_t at) {
    if (at < counted_) {
      counted_ = line_begin_ = 0;
      line_ = 1;
    }
    for (; counted_ < std::min(at, text_.size()); ++counted_) {
      if (text_[counted_] != '\n') continue;
      ++line_;
      line_begin_ = counted_ + 1;
    }
    return {line_, at - line_begin_ + 1};
  }

  YamlDocument::Node& node(uint32_t index) { return document_.nodes_[index]; }

  bool number(double value) {
    // The character after the number has been read as well.
    return scalar(before(2), number_text(value), true);
  }
  bool scalar(size_t at, std::string_view value, bool plain) {
    add(at, Kind::scalar);
    YamlDocument::Node& added = document_.nodes_.back();
    added.plain = plain;
    added.begin = static_cast<uint32_t>(document_.text_.size());
    added.length = static_cast<uint32_t>(value.size());
    document_.text_ += value;
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() == yaml_depth_max) {
      refuse(before(1),
             "more than " + std::to_string(yaml_depth_max) + " lists and objects are nested here");
      return false;
    }
    add(before(1), kind);
    document_.nodes_.back().begin = none;
    open_.push_back({static_cast<uint32_t>(document_.nodes_.size() - 1)});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  bool add(size_t at, Kind kind) {
    const auto index = static_cast<uint32_t>(document_.nodes_.size());
    const bool in_object = !open_.empty() && node(open_.back().node).kind == Kind::map;
    const bool is_key = in_object && open_.back().key == index;
    if (in_object && kind != Kind::list && kind != Kind::map) at = open_.back().key_at;
    const auto [line, column] = place(at);
    document_.nodes_.push_back({.kind = kind,
                                .line = static_cast<uint32_t>(line),
                                .column = static_cast<uint32_t>(column)});
    if (open_.empty()) {
      document_.root_ = index;
      return true;
    }
    Open& parent = open_.back();
    const uint32_t earlier = in_object && !is_key ? node(parent.key).next : none;
    if (earlier != none) {  // the value of an equal key, which this one replaces
      node(index).next = node(earlier).next;
      node(parent.key).next = index;
      if (parent.last == earlier) parent.last = index;
      return true;
    }
    (parent.last == none ? node(parent.node).begin : node(parent.last).next) = index;
    parent.last = index;
    ++node(parent.node).length;
    return true;
  }

  std::string_view text_;
  const char* furthest_;
  size_t counted_ = 0, line_ = 1, line_begin_ = 0;  // how far lines are counted
  YamlDocument& document_;
  std::vector<RepeatedKey>& repeated_;
  std::vector<Open> open_;
  std::optional<YamlError> error_;
};

std::optional<YamlError> parse_json(std::string_view text, YamlDocument& document,
                                    std::vector<RepeatedKey>& repeated) {
  JsonBuilder builder(text, document, repeated);
  const Cursor first{text.data(), builder.progress()};
  const Cursor end{text.data() + text.size(), builder.progress()};
  if (Library::sax_parse(first, end, &builder)) return std::nullopt;
  if (!builder.error()) builder.refuse(text.size(), "this is not JSON");
  return builder.error();
}

std::string compact_json(YamlNode node) {
  if (node.is_null()) return "null";
  if (node.is_scalar())
    return node.is_plain() ? std::string(node.text()) : Library(std::string(node.text())).dump();
  std::string out(1, node.is_map() ? '{' : '[');
  bool is_key = false;
  for (YamlNode child = node.first_child(); child; child = child.next()) {
    is_key = node.is_map() && !is_key;
    if (out.size() > 1 && (is_key || node.is_list())) out += ',';
    out += compact_json(child);
    if (is_key) out += ':';
  }
  return out += node.is_map() ? '}' : ']';
}

}  // namespace sluice::policy
