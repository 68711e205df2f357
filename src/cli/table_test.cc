// Tables on a terminal (cli/terminal.h): columns, and what is cut in narrow windows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/terminal.h"
#include "config/screen_text.h"
#include "tests/support/dice.h"

namespace sluice::cli {
namespace {

using config::columns_of;
using sluice::tests::Dice;

Table example() {
  Table table({{"NAME", false, true}, {"RULE", false, true}, {"COUNT", true}});
  table.add({"a\nb", "日本", "1"});
  table.add({"abcdefghijklmno", "x", "12,345"});
  return table;
}

TEST(Table, AlignsColumns) {
  EXPECT_EQ(example().text(false),
            "NAME             RULE   COUNT\n"
            "a\\nb             日本       1\n"
            "abcdefghijklmno  x     12,345\n");
}

TEST(Table, ShortensElasticColumnsAndThenOmitsColumns) {
  const auto lines = example().lines(24);
  EXPECT_EQ(lines[2], "abcdefghi…  x     12,345");
  EXPECT_EQ(example().lines(15)[2], "abcdefgh…  x");
  EXPECT_EQ(example().lines(4)[2], "abc…");
  EXPECT_EQ(example().lines(0)[2], "");
}

TEST(Table, IsNeverWiderThanTheWindow) {
  Dice dice(77);
  for (int round = 0; round < 500; ++round) {
    std::vector<Table::Column> columns(1 + dice(6u));
    for (auto& column : columns) {
      column.title = std::string(dice(12u), 'T');
      column.right = dice(2u) == 0;
      column.elastic = dice(2u) == 0;
    }
    Table table(columns);
    for (uint64_t rows = dice(5u); rows > 0; --rows) {
      std::vector<std::string> row(columns.size());
      for (auto& cell : row)
        for (uint64_t left = dice(30u); left > 0; --left) cell += dice(3u) == 0 ? "日" : "x";
      table.add(row);
    }
    const size_t width = dice(60u);
    const auto lines = table.lines(width);
    ASSERT_EQ(lines.size(), table.rows() + 1);
    for (const auto& line : lines) ASSERT_LE(columns_of(line), width) << line;
  }
}

}  // namespace
}  // namespace sluice::cli
