// YAML text as a tree whose nodes know their place in the text, for messages with line and column;
// JSON text becomes the same (json_tree.h).
// One document. Aliases share the node that they name, so the tree is not larger than its text, but
// a walk may be: its caller must bound it (YamlReader does). Plain values; immutable once parsed.
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

  // An entry of a map that does not come from YAML text: a scalar, or the kind of another value.
  struct Member {
    std::string_view key;
    Kind kind = Kind::null;
    std::string_view text{};  // of a scalar
  };

  YamlDocument() = default;
  // A document that consists of such a map, for input in another format that a reader of YAML
  // reads. Its nodes have no place; keys count as quoted, and lists and maps in it are empty.
  explicit YamlDocument(std::span<const Member> members);

  // The top node; without text a null node. Valid as long as the document lives and is not moved.
  YamlNode root() const;
  size_t size() const { return nodes_.size(); }
  // The line, from 1, of the text after the first document that YamlReading ignores; 0: none.
  size_t passed_over_line() const { return passed_over_line_; }

 private:
  friend class YamlNode;
  friend class YamlBuilder;
  friend class JsonBuilder;

  static constexpr uint32_t none = UINT32_MAX;

  struct Node {
    Kind kind = Kind::null;
    bool plain = false;
    uint32_t line = 0, column = 0;
    uint32_t begin = 0;    // scalar: of its text; list, map: first child or none; alias: its target
    uint32_t length = 0;   // scalar: of its text; list: its items; map: its keys and values
    uint32_t next = none;  // child of the same parent
    uint32_t tag = 0;      // index in tags_
  };

  std::vector<Node> nodes_;
  std::string text_;               // the texts of all scalars
  std::vector<std::string> tags_;  // each once; the first, "", is for nodes without a tag
  uint32_t root_ = none;
  size_t passed_over_line_ = 0;
};

// A handle on a node; an alias is resolved to its target. Cheap to copy; valid as long as the
// document.
class YamlNode {
 public:
  YamlNode() = default;  // no node: the value of a key that a map does not have

  explicit operator bool() const { return document_ != nullptr; }
  bool is_null() const { return kind() == YamlDocument::Kind::null; }
  bool is_scalar() const { return kind() == YamlDocument::Kind::scalar; }
  bool is_list() const { return kind() == YamlDocument::Kind::list; }
  bool is_map() const { return kind() == YamlDocument::Kind::map; }
  // A number below the document's size; an alias has that of its target.
  uint32_t id() const { return index_; }

  // The text of a scalar, with escapes and folding resolved.
  std::string_view text() const;
  // Is it written without quotes or block marks?
  bool is_plain() const { return it().plain; }
  // The resolved tag, such as tag:yaml.org,2002:js/regexp for `!!js/regexp`; empty: none is
  // written.
  std::string_view tag() const;
  // From 1, as in base::Diagnostic; an alias has the place of its target. 0: no place.
  size_t line() const { return document_ == nullptr || index_ == none ? 0 : it().line; }
  size_t column() const { return document_ == nullptr || index_ == none ? 0 : it().column; }

  // The number of items of a list, or of keys and values of a map, which alternate.
  size_t size() const { return is_list() || is_map() ? it().length : 0; }
  YamlNode first_child() const;
  // The next sibling, in a walk that began with first_child.
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
  uint32_t place_ = none;  // of the node in its parent; for an alias it differs from index_
};

struct YamlError {
  size_t line = 0, column = 0;  // as in base::Diagnostic
  std::string subject, message, remedy;
};

// What is accepted in the files of other programs, though not in sluice's own files.
struct YamlReading {
  bool first_document_only = false;  // text after the first document is not even parsed
  bool foreign_tags = false;         // tags other than YAML's own, which have no meaning here
  bool line_breaks_of_1_1 = false;   // U+0085, U+2028, U+2029
};

// The parser refuses text that is not YAML or not UTF-8, is longer than
// base::bounds::config_bytes_max or deeper than yaml_depth_max, or has several documents, tags
// other than YAML's own, or nodes within themselves; and a manifest of Kubernetes.
inline constexpr size_t yaml_depth_max = 64;
std::optional<YamlError> parse_yaml(std::string_view text, YamlDocument& document,
                                    const YamlReading& reading = {});
// For formats that are not YAML: is the text a manifest of Kubernetes, in YAML or in JSON?
std::optional<YamlError> find_manifest(std::string_view text);
base::Diagnostic to_diagnostic(YamlError error, std::string_view file);

}  // namespace sluice::policy
