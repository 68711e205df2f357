// Reads limitd's environment variables: settings under the names of its keys in upper case, and
// bucket types as BUCKET_<n>_<key>. Not called by workers; views live as long as the texts passed
// in.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "protocol/limitd/rules.h"
#include "protocol/limitd/type.h"

namespace sluice::limitd {

class LimitdEnvironment {
 public:
  // A variable that is set but empty counts as not set, except for PORT and DB, which are errors
  // then, and the numbers of types, which are 0: both as in limitd.
  LimitdEnvironment(std::span<const NamedText> variables, base::Diagnostics& diagnostics);

  // The variables override settings of files, but not `flags`.
  void settings(LimitdConfig& config, const LimitdConfig& flags);

  // Does any variable define a bucket type? Then the types of files are ignored.
  bool has_types() const { return !types_.empty(); }
  std::vector<LimitdType> types();

 private:
  struct Variable {
    std::string_view name, key, text;  // key: the part of `name` after BUCKET_<n>_
  };

  void error(std::string_view variable, std::string message, std::string remedy);
  void warning(std::string_view variable, std::string message, std::string remedy);
  void tell(base::Diagnostic::Severity severity, std::string_view variable, std::string message,
            std::string remedy);
  bool number(const Variable& variable, int64_t least, int64_t most, int64_t& out);
  void type(const std::vector<Variable>& variables, std::vector<LimitdType>& out);

  base::Diagnostics& diagnostics_;
  std::vector<NamedText> settings_;
  std::map<std::string_view, std::vector<Variable>> types_;  // by <n>
  std::map<std::string, std::string_view> named_;            // type names, by their variables
};

}  // namespace sluice::limitd
