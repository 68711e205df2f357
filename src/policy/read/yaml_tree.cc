#include "policy/read/yaml_tree.h"

#include <yaml.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/background.h"
#include "base/bounds.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "policy/text.h"

namespace sluice::policy {

// Messages about text that is not YAML, which say what to fix; libyaml's own messages name rules of
// the grammar. Pure functions on literals.

// The place to show for an error: where libyaml found it, or where the broken element began.
enum class YamlPlace { met, begun };

struct YamlWords {
  YamlPlace place = YamlPlace::met;
  std::string message, remedy;
};

// `problem` and `context` are libyaml's texts, `rest` is the input from the place where it found
// the problem on, and `open` says whether a `[` or `{` is not closed.
YamlWords yaml_words(std::string_view problem, std::string_view context, std::string_view rest,
                     bool open);

namespace {

struct Known {
  std::string_view problem;  // the beginning of libyaml's text
  YamlPlace place;
  std::string_view message, remedy;
};

constexpr Known known[] = {
    {"could not find expected ':'", YamlPlace::begun, "this line must be a key and has no `: `",
     "write `key: value`, with a space behind the colon"},
    {"did not find expected ',' or ']'", YamlPlace::met, "`,` or `]` is expected here",
     "separate the items of a list by commas and close it"},
    {"did not find expected ',' or '}'", YamlPlace::met, "`,` or `}` is expected here",
     "separate the entries of a map by commas and close it"},
    {"did not find expected key", YamlPlace::met, "a key is expected here",
     "indent it like the keys above, and close what is open there"},
    {"did not find expected '-' indicator", YamlPlace::met, "an item of a list is expected here",
     "indent it like the items above, with its `- `"},
    {"did not find expected node content", YamlPlace::met, "a value is expected here",
     "quote it if this is meant to be one"},
    {"did not find expected <document start>", YamlPlace::met, "the document ends above",
     "take out what follows, or indent it so that it belongs there"},
    {"block sequence entries are not allowed", YamlPlace::met, "no list can begin here",
     "begin it on a line of its own"},
    {"mapping keys are not allowed", YamlPlace::met, "no key can stand here",
     "put it on a line of its own"},
    {"mapping values are not allowed", YamlPlace::met, "a `: ` cannot stand here",
     "quote the value if it belongs to it; else indent this line like the others"},
    {"found a tab character", YamlPlace::met, "a tab cannot indent", "use spaces"},
    {"found unexpected end of stream", YamlPlace::begun, "the quotes that open here never close",
     "close them, and write those inside as `\\\"` or, in single quotes, `''`"},
    {"found unexpected document indicator", YamlPlace::begun,
     "the quotes that open here are not closed before the document ends", "close them"},
    {"found unknown escape character", YamlPlace::met, "there is no such escape",
     "write `\\\\` for a backslash, or use single quotes, which have no escapes"},
    {"did not find expected hexdecimal number", YamlPlace::met, "hexadecimal digits are missing",
     "write two behind `\\x`, four behind `\\u`, eight behind `\\U`"},
    {"found invalid Unicode character escape code", YamlPlace::met,
     "this escape is not a character of Unicode", "write one up to `\\U0010FFFF`"},
    {"did not find expected alphabetic or numeric character", YamlPlace::begun,
     "`*` and `&` begin the name of an alias or anchor, and none follows",
     "quote the value if that is part of it, as in `\"*\"`"},
    {"found undefined tag handle", YamlPlace::begun, "no %TAG line declares the prefix of this tag",
     "take it out"},
    {"found an indentation indicator equal to 0", YamlPlace::met,
     "a block cannot be indented by 0 spaces", "write 1 to 9, or take the digit out"},
    {"did not find expected comment or line break", YamlPlace::met,
     "nothing can follow here on the same line", "begin the text on the next line"},
    {"found incompatible YAML document", YamlPlace::met, "this version of YAML is not supported",
     "take the %YAML line out"},
    {"duplicate %", YamlPlace::met, "repeats a directive of a line above", "keep one of them"},
    {"found duplicate %", YamlPlace::met, "repeats a directive of a line above",
     "keep one of them"},
};

// For a character with which no token begins.
YamlWords no_token(std::string_view rest) {
  if (rest.starts_with('\t')) return {YamlPlace::met, "a tab cannot stand here", "use spaces"};
  const std::string begin = rest.empty() ? "" : std::string(rest.substr(0, decode(rest, 0).size));
  return {YamlPlace::met, "no value can begin with `" + begin + "`", "quote it"};
}

}  // namespace

YamlWords yaml_words(std::string_view problem, std::string_view context, std::string_view rest,
                     bool open) {
  const bool at_end = rest.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (problem.starts_with("found character that cannot start any token")) return no_token(rest);
  if (at_end && open && problem.starts_with("did not find expected"))
    return {YamlPlace::begun, "what opens here is never closed", "close it"};
  for (const Known& one : known)
    if (problem.starts_with(one.problem))
      return {one.place, std::string(one.message), std::string(one.remedy)};
  if (context.find("tag") != std::string_view::npos)
    return {YamlPlace::begun, "this is not a tag", "take it out, or quote the value"};
  if (context.find("directive") != std::string_view::npos)
    return {YamlPlace::begun, "a line that begins with `%` is not a directive that is known here",
            "take it out"};
  return {YamlPlace::met, "this cannot be read",
          "check the indentation, quotes and brackets of this line and of the one above"};
}

namespace {

YamlError at(std::string_view text, size_t byte, std::string message, std::string remedy) {
  const std::string_view before = text.substr(0, byte);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n')),
          .column = byte - line_begin + 1,
          .subject = "",
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

// The size in bytes of the character at `i` if only YAML 1.1 ends a line there (U+0085, U+2028,
// U+2029); otherwise 0.
size_t odd_break(std::string_view text, size_t i) {
  const std::string_view rest = text.substr(i);
  if (rest.starts_with("\u0085")) return 2;
  return rest.starts_with("\u2028") || rest.starts_with("\u2029") ? 3 : 0;
}

// Finds bytes that a YAML 1.1 reader would misread, or refuse without naming the place.
std::optional<YamlError> check_bytes(std::string_view text, const YamlReading& reading) {
  if (text.size() > base::bounds::config_bytes_max)
    return YamlError{.subject = "",
                     .message = "the file has " + std::to_string(text.size()) + " bytes; " +
                                std::to_string(base::bounds::config_bytes_max) +
                                " is the most that is read",
                     .remedy = "split or shorten it"};
  if (!base::utf8::is_valid(text)) {
    size_t replaced_at = 0;
    (void)sound_utf8(text, replaced_at);
    return at(text, replaced_at, "the file is not UTF-8 here", "save the file as UTF-8");
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    const bool wide = c >= 0xc2 && !reading.line_breaks_of_1_1 && odd_break(text, i) > 0;
    if (!control && !wide) continue;
    return at(text, i,
              wide ? "this character ends the line for some readers of YAML only"
                   : "this control character is not allowed in YAML",
              "take it out, or write it escaped in double quotes");
  }
  return std::nullopt;
}

// Finds the places of libyaml's marks in the text: libyaml counts characters, editors count lines,
// and diagnostics count bytes. Marks mostly ascend, so following them costs about one pass.
class YamlCursor {
 public:
  explicit YamlCursor(std::string_view text) : text_(text) {}

  void go_to(size_t character) {
    while (character_ < character && byte_ < text_.size()) {
      if (text_[byte_] == '\n') {
        ++line_;
        line_begin_ = byte_ + 1;
      }
      byte_ += base::utf8::character_size(text_.substr(byte_));
      ++character_;
    }
    if (character_ > character) step_back(character);
  }
  // Skips blanks, unless the rest of the line is blank.
  void skip_blanks() {
    const size_t next = text_.find_first_not_of(" \t", byte_);
    if (next == std::string_view::npos || text_[next] == '\n' || text_[next] == '\r' ||
        text_[next] == '#')
      return;
    character_ += next - byte_;
    byte_ = next;
  }

  size_t byte() const { return byte_; }
  size_t line() const { return line_; }
  size_t column() const { return byte_ - line_begin_ + 1; }

 private:
  void step_back(size_t character) {
    while (character_ > character) {
      --byte_;
      const auto c = static_cast<unsigned char>(text_[byte_]);
      if (c == '\n') --line_;
      if ((c & 0xc0) != 0x80) --character_;
    }
    line_begin_ = text_.substr(0, byte_).rfind('\n') + 1;
  }

  std::string_view text_;
  size_t byte_ = 0, character_ = 0;
  size_t line_ = 1, line_begin_ = 0;
};

}  // namespace

// Makes nodes of libyaml's events.
class YamlBuilder {
 public:
  YamlBuilder(std::string_view text, YamlDocument& document, const YamlReading& reading)
      : text_(text), document_(document), reading_(reading), cursor_(text) {
    document_.tags_.emplace_back();
  }

  std::optional<YamlError> build() {
    Parser parser(text_);
    for (bool over = false; !over && !error_;) {
      Event event;
      const bool parsed = yaml_parser_parse(&parser.it, &event.it) != 0;
      if (!parsed && !passes_over()) return no_yaml(parser.it);
      base::yield_if_background();
      cursor_.go_to(parsed ? event.it.start_mark.index : parser.it.problem_mark.index);
      over = event.it.type == YAML_STREAM_END_EVENT || passes_over();
      if (!over) take(event.it);
      if (over && event.it.type != YAML_STREAM_END_EVENT)
        document_.passed_over_line_ = cursor_.line();
    }
    return std::move(error_);
  }

 private:
  using Kind = YamlDocument::Kind;
  static constexpr uint32_t none = YamlDocument::none;
  struct Open {
    uint32_t node, last_child;
    bool flow;
  };
  struct Parser {
    explicit Parser(std::string_view text) {
      if (yaml_parser_initialize(&it) == 0) throw std::bad_alloc();
      yaml_parser_set_encoding(&it, YAML_UTF8_ENCODING);
      yaml_parser_set_input_string(&it, reinterpret_cast<const unsigned char*>(text.data()),
                                   text.size());
    }
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
    ~Parser() { yaml_parser_delete(&it); }
    yaml_parser_t it;
  };
  struct Event {
    Event() = default;
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() { yaml_event_delete(&it); }
    yaml_event_t it{};
  };

  static std::string_view view(const yaml_char_t* text) {
    return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
  }
  YamlDocument::Node& node(uint32_t index) { return document_.nodes_[index]; }

  void take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        anchored_.clear();
        root_ = none;
        return;
      case YAML_DOCUMENT_END_EVENT:
        return end_document();
      case YAML_ALIAS_EVENT:
        return alias(view(event.data.alias.anchor));
      case YAML_SCALAR_EVENT:
        return scalar(event.data.scalar);
      case YAML_SEQUENCE_START_EVENT: {
        const auto& list = event.data.sequence_start;
        return open(Kind::list, list.style == YAML_FLOW_SEQUENCE_STYLE, view(list.tag),
                    view(list.anchor));
      }
      case YAML_MAPPING_START_EVENT: {
        const auto& map = event.data.mapping_start;
        return open(Kind::map, map.style == YAML_FLOW_MAPPING_STYLE, view(map.tag),
                    view(map.anchor));
      }
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        open_.pop_back();
        return;
      case YAML_NO_EVENT:
      case YAML_STREAM_START_EVENT:
      case YAML_STREAM_END_EVENT:
        return;
    }
  }

  // Is the first document complete, and must the rest be ignored?
  bool passes_over() const { return reading_.first_document_only && ended_; }

  void end_document() {
    ended_ = true;
    const bool empty = root_ == none || node(root_).kind == Kind::null;
    if (empty) return;
    if (document_.root_ == none) {
      document_.root_ = root_;
      return;
    }
    error_ = {.line = node(root_).line,
              .column = node(root_).column,
              .subject = "---",
              .message = "begins a second document, which would not be read",
              .remedy = "keep one"};
  }

  void alias(std::string_view name) {
    const auto target = anchored_.find(std::string(name));
    if (target == anchored_.end())
      return refuse("names `" + shortened(name, 64) + "`, and no anchor before it has that name",
                    "write `&" + shortened(name, 64) + "` in front of what is meant");
    const uint32_t index = target->second;
    if (std::any_of(open_.begin(), open_.end(),
                    [&](const Open& open) { return open.node == index; }))
      return refuse("is an alias within what it names",
                    "write the value out in place of the alias");
    const uint32_t added = add(Kind::alias, {}, {});
    node(added).begin = index;
  }

  void scalar(const decltype(yaml_event_t::data.scalar)& scalar) {
    const std::string_view value{reinterpret_cast<const char*>(scalar.value), scalar.length};
    const std::string_view tag = view(scalar.tag);
    if (!check_tag(tag)) return;
    const bool plain = scalar.style == YAML_PLAIN_SCALAR_STYLE && tag.empty();
    if (plain && value.empty() && scalar.anchor == nullptr) cursor_.skip_blanks();
    if (plain && is_null(value)) {
      add(Kind::null, {}, view(scalar.anchor));
      return;
    }
    YamlDocument::Node& added = node(add(Kind::scalar, tag, view(scalar.anchor)));
    added.plain = plain;
    added.begin = static_cast<uint32_t>(document_.text_.size());
    added.length = static_cast<uint32_t>(value.size());
    document_.text_ += value;
  }

  static bool is_null(std::string_view word) {
    return word.empty() || word == "~" || word == "null" || word == "Null" || word == "NULL";
  }

  void refuse(std::string message, std::string remedy) {
    error_ = {.line = cursor_.line(),
              .column = cursor_.column(),
              .subject = "",
              .message = std::move(message),
              .remedy = std::move(remedy)};
  }

  // A private tag changes the meaning of a value in a way that is unknown here, so it is an error.
  bool check_tag(std::string_view tag) {
    if (tag.empty() || tag == "!" || tag.starts_with("tag:yaml.org,2002:") || reading_.foreign_tags)
      return true;
    refuse("has the tag `" + shortened(tag, 64) + "`, which says nothing here", "take it out");
    return false;
  }

  void open(Kind kind, bool flow, std::string_view tag, std::string_view anchor) {
    if (!check_tag(tag)) return;
    if (open_.size() == yaml_depth_max)
      return refuse("is nested deeper than " + std::to_string(yaml_depth_max) + " lists and maps",
                    "");
    const uint32_t index = add(kind, tag, anchor);
    node(index).begin = none;
    open_.push_back({index, none, flow});
  }

  uint32_t add(Kind kind, std::string_view tag, std::string_view anchor) {
    const auto index = static_cast<uint32_t>(document_.nodes_.size());
    document_.nodes_.push_back({.kind = kind,
                                .line = static_cast<uint32_t>(cursor_.line()),
                                .column = static_cast<uint32_t>(cursor_.column())});
    if (!tag.empty()) node(index).tag = tag_index(tag);
    if (!anchor.empty()) anchored_[std::string(anchor)] = index;
    if (open_.empty()) {
      root_ = index;
      return index;
    }
    Open& parent = open_.back();
    (parent.last_child == none ? node(parent.node).begin : node(parent.last_child).next) = index;
    parent.last_child = index;
    ++node(parent.node).length;
    return index;
  }

  uint32_t tag_index(std::string_view tag) {
    const auto [at, added] =
        tags_.emplace(std::string(tag), static_cast<uint32_t>(document_.tags_.size()));
    if (added) document_.tags_.emplace_back(tag);
    return at->second;
  }

  YamlError no_yaml(const yaml_parser_t& parser) {
    if (parser.error == YAML_MEMORY_ERROR) throw std::bad_alloc();
    if (parser.error == YAML_READER_ERROR)
      return at(text_, parser.problem_offset, "this character is not allowed in YAML",
                "take it out, or write it escaped in double quotes");
    const bool open = !open_.empty() && open_.back().flow;
    cursor_.go_to(parser.problem_mark.index);
    const char* const context = parser.context == nullptr ? "" : parser.context;
    YamlWords words = yaml_words(parser.problem, context, text_.substr(cursor_.byte()), open);
    refuse("is not YAML: " + std::move(words.message), std::move(words.remedy));
    if (words.place == YamlPlace::met) return *error_;
    if (parser.error == YAML_PARSER_ERROR && open) {
      // libyaml's mark may be the end of the text; the place to show is the node that is not
      // closed.
      error_->line = node(open_.back().node).line;
      error_->column = node(open_.back().node).column;
    } else if (parser.context != nullptr) {
      cursor_.go_to(parser.context_mark.index);
      error_->line = cursor_.line();
      error_->column = cursor_.column();
    }
    return *error_;
  }

  std::string_view text_;
  YamlDocument& document_;
  const YamlReading& reading_;
  YamlCursor cursor_;
  std::vector<Open> open_;
  std::unordered_map<std::string, uint32_t> anchored_, tags_;
  uint32_t root_ = none;
  bool ended_ = false;  // a document has ended
  std::optional<YamlError> error_;
};

namespace {

// Of such a file each key would be an error, and none would say what the file is.
std::optional<YamlError> refuse_manifest(YamlNode root) {
  if (!root.is_map()) return std::nullopt;
  YamlNode version, kind;
  for (YamlNode key = root.first_child(); key; key = key.next()) {
    const YamlNode value = key.next();
    if (key.is_scalar() && value.is_scalar()) {
      if (key.text() == "apiVersion") version = key;
      if (key.text() == "kind") kind = value;
    }
    key = value;
  }
  if (!version || !kind) return std::nullopt;
  return YamlError{
      version.line(), version.column(), "",
      "this is a manifest of Kubernetes (a " + base::printable(kind.text(), 64) + "), not a policy",
      "give the file that is in it; of a ConfigMap a text under `data`"};
}

std::optional<YamlError> build(std::string_view text, YamlDocument& document,
                               const YamlReading& reading) {
  if (auto error = check_bytes(text, reading)) return error;
  if (text.starts_with("\uFEFF")) text.remove_prefix(3);
  return YamlBuilder(text, document, reading).build();
}

}  // namespace

std::optional<YamlError> parse_yaml(std::string_view text, YamlDocument& document,
                                    const YamlReading& reading) {
  auto error = build(text, document, reading);
  // Manifests often are several documents, of which the first is there by now.
  if (auto manifest = refuse_manifest(document.root())) return manifest;
  return error;
}

std::optional<YamlError> find_manifest(std::string_view text) {
  if (text.find("apiVersion") == text.npos) return std::nullopt;
  YamlDocument document;
  constexpr YamlReading reading{.first_document_only = true};
  if (build(text, document, reading)) return std::nullopt;
  return refuse_manifest(document.root());
}

base::Diagnostic to_diagnostic(YamlError error, std::string_view file) {
  base::Diagnostic d;
  d.file = file;
  d.line = error.line;
  d.column = error.column;
  d.subject = std::move(error.subject);
  d.message = std::move(error.message);
  d.remedy = std::move(error.remedy);
  return d;
}

YamlDocument::YamlDocument(std::span<const Member> members) : tags_(1), root_(0) {
  const auto count = static_cast<uint32_t>(2 * members.size());
  nodes_.push_back({.kind = Kind::map, .begin = members.empty() ? none : 1, .length = count});
  const auto add = [&](Kind kind, std::string_view text) {
    const auto behind = static_cast<uint32_t>(nodes_.size() + 1);
    nodes_.push_back({.kind = kind, .next = behind > count ? none : behind});
    if (kind != Kind::scalar) return;
    nodes_.back().begin = static_cast<uint32_t>(text_.size());
    nodes_.back().length = static_cast<uint32_t>(text.size());
    text_ += text;
  };
  for (const Member& member : members) {
    add(Kind::scalar, member.key);
    add(member.kind, member.text);
  }
}

YamlNode YamlDocument::root() const {
  return {this, root_};
}

YamlNode::YamlNode(const YamlDocument* document, uint32_t index)
    : document_(document), index_(index), place_(index) {
  // The target of an alias is never an alias.
  if (index_ != none && it().kind == YamlDocument::Kind::alias) index_ = it().begin;
}

std::string_view YamlNode::text() const {
  if (!is_scalar()) return {};
  return std::string_view(document_->text_).substr(it().begin, it().length);
}

std::string_view YamlNode::tag() const {
  if (document_ == nullptr || index_ == none) return {};
  return document_->tags_[it().tag];
}

YamlNode YamlNode::first_child() const {
  if (size() == 0) return {};
  return {document_, it().begin};
}

YamlNode YamlNode::next() const {
  const uint32_t index = document_->nodes_[place_].next;
  return index == none ? YamlNode() : YamlNode(document_, index);
}

}  // namespace sluice::policy
