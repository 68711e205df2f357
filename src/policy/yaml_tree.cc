#include "policy/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <istream>
#include <streambuf>
#include <utility>

#include "base/bounds.h"
#include "policy/text.h"

namespace sluice::policy {

// yaml-cpp's events into nodes. Its own tree costs half as much time again, and forgets which nodes
// are aliases.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(YamlDocument& document) : document_(document) {}

  // Ends the parse; what is wrong is the error.
  struct Refused {
    YamlError error;
  };

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp takes what cannot begin a document for an empty one, again and again.
    if (mark.pos == begun_at_) refuse(mark, "is not YAML: nothing can be made of this", "");
    begun_at_ = mark.pos;
    anchored_.clear();
    root_ = none;
  }
  void OnDocumentEnd() override {
    const bool empty = root_ == none || node(root_).kind == Kind::null;
    if (empty) return;
    if (document_.root_ != none)
      throw Refused{{.line = node(root_).line,
                     .column = node(root_).column,
                     .subject = "---",
                     .message = "begins a second document, which nobody would read",
                     .remedy = "keep one"}};
    document_.root_ = root_;
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(Kind::null, mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const uint32_t target = anchor < anchored_.size() ? anchored_[anchor] : none;
    if (target == none || std::any_of(open_.begin(), open_.end(),
                                      [&](const Open& open) { return open.node == target; }))
      refuse(mark, "is an alias within what it names", "");
    node(add(Kind::alias, mark, 0)).begin = target;
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlDocument::Node& scalar = node(add(Kind::scalar, mark, anchor));
    scalar.plain = tag == "?";
    scalar.begin = static_cast<uint32_t>(document_.text_.size());
    scalar.length = static_cast<uint32_t>(value.size());
    document_.text_ += value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { open_.pop_back(); }

  // Where a list or map is not closed yaml-cpp names any place at all; the best one is its
  // beginning.
  YAML::Mark place_of(const YAML::Exception& e) const {
    YAML::Mark mark = e.mark;
    if (!e.msg.starts_with("end of ") || open_.empty()) return mark;
    const YamlDocument::Node& open = document_.nodes_[open_.back().node];
    mark.line = static_cast<int>(open.line) - 1;
    mark.column = static_cast<int>(open.column) - 1;
    return mark;
  }

 private:
  using Kind = YamlDocument::Kind;
  static constexpr uint32_t none = YamlDocument::none;
  struct Open {
    uint32_t node, last_child;
  };

  YamlDocument::Node& node(uint32_t index) { return document_.nodes_[index]; }

  [[noreturn]] static void refuse(const YAML::Mark& mark, std::string message, std::string remedy) {
    throw Refused{{.line = static_cast<size_t>(mark.line) + 1,
                   .column = static_cast<size_t>(mark.column) + 1,
                   .subject = "",
                   .message = std::move(message),
                   .remedy = std::move(remedy)}};
  }

  // A tag of somebody's own would change what a value means, and nobody here would know.
  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    refuse(mark, "has the tag `" + shortened(tag, 64) + "`, which says nothing here",
           "take it out");
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(mark, tag);
    if (open_.size() == yaml_depth_max)
      refuse(mark, "is nested deeper than " + std::to_string(yaml_depth_max) + " lists and maps",
             "");
    const uint32_t index = add(kind, mark, anchor);
    node(index).begin = none;
    open_.push_back({index, none});
  }

  uint32_t add(Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    const auto index = static_cast<uint32_t>(document_.nodes_.size());
    document_.nodes_.push_back({.kind = kind,
                                .line = static_cast<uint32_t>(mark.line) + 1,
                                .column = static_cast<uint32_t>(mark.column) + 1});
    if (anchor != 0) {
      if (anchored_.size() <= anchor) anchored_.resize(anchor + 1, none);
      anchored_[anchor] = index;
    }
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

  YamlDocument& document_;
  std::vector<Open> open_;
  std::vector<uint32_t> anchored_;  // by yaml-cpp's number of the anchor
  uint32_t root_ = none;
  int begun_at_ = -1;  // the byte of the last document
};

namespace {

// A stream over bytes that are not copied.
class View : public std::streambuf {
 public:
  explicit View(std::string_view text) {
    char* const begin = const_cast<char*>(text.data());  // streambuf's interface; nobody writes
    setg(begin, begin, begin + text.size());
  }
};

YamlError at(std::string_view text, size_t byte, std::string message, std::string remedy) {
  const std::string_view before = text.substr(0, byte);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n')),
          .column = byte - line_begin + 1,
          .subject = "",
          .message = std::move(message),
          .remedy = std::move(remedy)};
}

// What yaml-cpp would take for something else: it ends a text at U+0004, and passes on bytes that
// are no UTF-8.
std::optional<YamlError> check_bytes(std::string_view text) {
  if (text.size() > base::bounds::config_bytes_max)
    return YamlError{.subject = "",
                     .message = "the file has " + std::to_string(text.size()) + " bytes; " +
                                std::to_string(base::bounds::config_bytes_max) +
                                " is the most that is read",
                     .remedy = "split or shorten it"};
  size_t replaced_at = std::string_view::npos;
  (void)sound_utf8(text, replaced_at);
  if (replaced_at != std::string_view::npos)
    return at(text, replaced_at, "the file is not UTF-8 here", "save the file as UTF-8");
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r') ||
           c == '\x7f';
  });
  if (control != text.end())
    return at(text, static_cast<size_t>(control - text.begin()),
              "here is a control character, which YAML does not allow",
              "take it out, or write it escaped in double quotes");
  return std::nullopt;
}

YamlError no_yaml(const YAML::Mark& mark, const std::string& reason) {
  YamlError error{.subject = "", .message = "is not YAML: " + reason, .remedy = ""};
  if (!mark.is_null()) {
    error.line = static_cast<size_t>(mark.line) + 1;
    error.column = static_cast<size_t>(mark.column) + 1;
  }
  return error;
}

}  // namespace

std::optional<YamlError> parse_yaml(std::string_view text, YamlDocument& document) {
  if (auto error = check_bytes(text)) return error;
  YamlBuilder builder(document);
  try {
    View view(text);
    std::istream stream(&view);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YamlBuilder::Refused& refused) {
    return refused.error;
  } catch (const YAML::Exception& e) {
    return no_yaml(builder.place_of(e), e.msg);
  } catch (const std::exception& e) {
    return no_yaml(YAML::Mark::null_mark(), e.what());
  }
  return std::nullopt;
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

YamlNode YamlDocument::root() const {
  return {this, root_};
}

YamlNode::YamlNode(const YamlDocument* document, uint32_t index)
    : document_(document), index_(index), place_(index) {
  // What an alias names is never an alias.
  if (index_ != none && it().kind == YamlDocument::Kind::alias) index_ = it().begin;
}

std::string_view YamlNode::text() const {
  if (!is_scalar()) return {};
  return std::string_view(document_->text_).substr(it().begin, it().length);
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
