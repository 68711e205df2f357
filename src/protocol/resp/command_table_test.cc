// The search for a command by its name, against a search through the whole list.
#include "protocol/resp/command_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace sluice::resp::command_table_test {
namespace {

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Compares with each name, letter by letter.
const CommandEntry* search(std::string_view name) {
  for (const CommandEntry& entry : command_entries())
    if (std::ranges::equal(entry.name, name, {}, {}, small)) return &entry;
  return nullptr;
}

TEST(CommandTable, FindsEachNameInAnyCaseAndNothingElse) {
  size_t found = 0, tried = 0;
  const auto expect_as_searched = [&](const std::string& name) {
    const CommandEntry* const entry = search(name);
    ASSERT_EQ(find_command(name), entry) << name;
    found += entry != nullptr ? 1 : 0;
    ++tried;
  };
  for (const CommandEntry& entry : command_entries()) {
    const std::string name(entry.name);
    for (size_t i = 0; i < name.size(); ++i) {
      std::string other = name;
      for (int c = 0; c < 256; ++c) {
        other[i] = static_cast<char>(c);
        expect_as_searched(other);
      }
      expect_as_searched(name.substr(0, i));
      expect_as_searched(name.substr(i) + name);
    }
    for (size_t more = 1; more < 20; ++more) expect_as_searched(name + std::string(more, 'x'));
  }
  // Each name was found with each of its letters in both cases.
  EXPECT_GE(found, 2 * command_entries().size());
  EXPECT_GT(tried, 50'000u);
}

}  // namespace
}  // namespace sluice::resp::command_table_test
