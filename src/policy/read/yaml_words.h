// What is wrong with a text that is not YAML, in our words: libyaml's own name grammar rules, not
// what to fix. Pure functions over literals.
#pragma once

#include <string>
#include <string_view>

namespace sluice::policy {

// Where an error is best shown: where libyaml met it, or where that began which it broke.
enum class YamlPlace { met, begun };

struct YamlWords {
  YamlPlace place = YamlPlace::met;
  std::string message, remedy;
};

// `problem` and `context` are libyaml's, `rest` is the text from where it met the problem, `open`
// says whether a `[` or `{` is waiting for its end.
YamlWords yaml_words(std::string_view problem, std::string_view context, std::string_view rest,
                     bool open);

}  // namespace sluice::policy
