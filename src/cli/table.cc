#include "cli/table.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "cli/outside.h"
#include "cli/screen_text.h"

namespace sluice::cli {
namespace {

constexpr std::string_view gap = "  ";
constexpr size_t elastic_min = 8;

}  // namespace

void Table::add(const std::vector<std::string>& row) {
  std::vector<std::string> cells(columns_.size());
  for (size_t i = 0; i < std::min(row.size(), cells.size()); ++i) cells[i] = on_screen(row[i]);
  rows_.push_back(std::move(cells));
}

// A width for each column that is shown.
std::vector<size_t> Table::widths(size_t columns_max) const {
  std::vector<size_t> all(columns_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = columns_of(columns_[i].title);
    for (const auto& row : rows_) all[i] = std::max(all[i], columns_of(row[i]));
  }
  const auto total = [&] {
    return std::accumulate(all.begin(), all.end(), size_t{0}) + gap.size() * (all.size() - 1);
  };
  while (total() > columns_max) {
    // The widest that can give gives most.
    size_t widest = all.size();
    for (size_t i = 0; i < all.size(); ++i)
      if (columns_[i].elastic && all[i] > elastic_min &&
          (widest == all.size() || all[i] > all[widest]))
        widest = i;
    if (widest < all.size()) {
      size_t next = elastic_min;
      for (size_t i = 0; i < all.size(); ++i)
        if (i != widest && columns_[i].elastic && all[i] < all[widest])
          next = std::max(next, all[i]);
      // Down to the next widest at once; of two that are as wide, by one in turn.
      const bool alone = std::count(all.begin(), all.end(), all[widest]) == 1;
      const size_t excess = total() - columns_max;
      all[widest] -= alone ? std::min(excess, all[widest] - next) : 1;
    } else if (all.size() > 1) {
      all.pop_back();
    } else {
      all.front() = columns_max;
    }
  }
  return all;
}

std::vector<std::string> Table::lines(size_t columns_max) const {
  const auto all = widths(columns_max);
  std::vector<std::string> lines;
  const auto add_line = [&](const auto& cell) {
    std::string line;
    for (size_t i = 0; i < all.size(); ++i) {
      if (i > 0) line += gap;
      line += fitted(cell(i), all[i], columns_[i].right);
    }
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(std::move(line));
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](size_t i) -> const std::string& { return row[i]; });
  return lines;
}

std::string Table::text(bool coloured, size_t columns_max) const {
  std::string text;
  bool first = true;
  for (const std::string& line : lines(columns_max)) {
    text += first ? paint(line, 0, coloured) : line;
    text += '\n';
    first = false;
  }
  return text;
}

}  // namespace sluice::cli
