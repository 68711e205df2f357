// Messages about text that is not YAML, which say what to fix; libyaml's own messages name rules of
// the grammar. Pure functions on literals.
#pragma once

#include <string>
#include <string_view>

namespace sluice::policy {

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

}  // namespace sluice::policy
