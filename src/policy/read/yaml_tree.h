// YAML text as a tree whose nodes know where they stand, for messages that name line and column.
// One document; aliases share the node that they name, so the tree is not larger than its text, and
// its caller must bound the walk (YamlReader does). Plain values; immutable once parsed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace sluice::policy {

class YamlNode;

class YamlDocument {
 public:
  enum class Kind : uint8_t { null, scalar, list, map, alias };

  // An entry of a map that is not YAML text: a single value, or the kind of what stands in its
  // place.
  struct Member {
    std::string_view key;
    Kind kind = Kind::null;
    std::string_view text{};  // of a scalar
  };

  YamlDocument() = default;
  // A document that is such a map, for what is read as YAML and written otherwise. Its nodes stand
  // nowhere; keys are as if in quotes, lists and maps in it are empty.
  explicit YamlDocument(std::span<const Member> members);

  // The node of the whole, a null one when there is no text. Valid while the document is, and stays
  // where it is.
  YamlNode root() const;
  size_t size() const { return nodes_.size(); }
  // Where something follows the first document that YamlReading passes over, from 1; 0: nothing.
  size_t passed_over_line() const { return passed_over_line_; }

 private:
  friend class YamlNode;
  friend class YamlBuilder;

  static constexpr uint32_t none = UINT32_MAX;

  struct Node {
    Kind kind = Kind::null;
    bool plain = false;
    uint32_t line = 0, column = 0;
    uint32_t begin =
        0;  // scalar: of its text; list, map: first child or none; alias: what it names
    uint32_t length = 0;   // scalar: of its text; list, map: children, of a map keys and values
    uint32_t next = none;  // child of the same parent
    uint32_t tag = 0;      // in tags_
  };

  std::vector<Node> nodes_;
  std::string text_;               // of all scalars
  std::vector<std::string> tags_;  // each once, behind the one of nodes that have none, ""
  uint32_t root_ = none;
  size_t passed_over_line_ = 0;
};

// A handle on one node, aliases looked through. Cheap to copy; lives as long as its document.
class YamlNode {
 public:
  YamlNode() = default;  // no node at all: what a map lacks

  explicit operator bool() const { return document_ != nullptr; }
  bool is_null() const { return kind() == YamlDocument::Kind::null; }
  bool is_scalar() const { return kind() == YamlDocument::Kind::scalar; }
  bool is_list() const { return kind() == YamlDocument::Kind::list; }
  bool is_map() const { return kind() == YamlDocument::Kind::map; }
  // A number below the document's size; that of an alias is its target's.
  uint32_t id() const { return index_; }

  // Of a scalar, as written, escapes and folding resolved.
  std::string_view text() const;
  // Written without quotes or block marks.
  bool is_plain() const { return it().plain; }
  // Resolved, as in tag:yaml.org,2002:js/regexp for `!!js/regexp`; empty: none is written.
  std::string_view tag() const;
  // From 1, as in base::Diagnostic; an alias stands where it names. 0: nowhere.
  size_t line() const { return document_ == nullptr || index_ == none ? 0 : it().line; }
  size_t column() const { return document_ == nullptr || index_ == none ? 0 : it().column; }

  // The items of a list; of a map, keys and values in turn.
  size_t size() const { return is_list() || is_map() ? it().length : 0; }
  YamlNode first_child() const;
  // The next one of a walk that began with first_child.
  YamlNode next() const;

 private:
  friend class YamlDocument;
  static constexpr uint32_t none = YamlDocument::none;
  YamlNode(const YamlDocument* document, uint32_t index);

  const YamlDocument::Node& it() const { return document_->nodes_[index_]; }
  YamlDocument::Kind kind() const {
    return document_ == nullptr || index_ == none ? YamlDocument::Kind::null : it().kind;
  }

  const YamlDocument* document_ = nullptr;
  uint32_t index_ = none;
  uint32_t place_ = none;  // in the parent; differs from index_ for an alias
};

struct YamlError {
  size_t line = 0, column = 0;  // as in base::Diagnostic
  std::string subject, message, remedy;
};

// What is accepted beyond what the readers of sluice's own files want: files of other programs are
// in use as they are.
struct YamlReading {
  bool first_document_only = false;  // what follows the first document is not even parsed
  bool foreign_tags = false;         // tags beyond YAML's own, which mean nothing here
  bool line_breaks_of_1_1 = false;   // U+0085, U+2028, U+2029
};

// Refuses what is not YAML, no UTF-8, longer than base::bounds::config_bytes_max, more than one
// document, deeper than yaml_depth_max, tags beyond YAML's own, and nodes within themselves.
inline constexpr size_t yaml_depth_max = 64;
std::optional<YamlError> parse_yaml(std::string_view text, YamlDocument& document,
                                    const YamlReading& reading = {});
base::Diagnostic to_diagnostic(YamlError error, std::string_view file);

}  // namespace sluice::policy
