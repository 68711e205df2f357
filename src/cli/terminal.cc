#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "config/command_io.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr std::string_view gap = "  ";
constexpr size_t elastic_min = 8;

// How wide the terminal is; 80 if the system does not know it.
size_t columns_of_terminal() {
  constexpr size_t columns_max = 1000;
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return 80;
  return std::min<size_t>(window.ws_col, columns_max);
}

}  // namespace

void Table::add(const std::vector<std::string>& row) {
  std::vector<std::string> cells(columns_.size());
  for (size_t i = 0; i < std::min(row.size(), cells.size()); ++i)
    cells[i] = config::on_screen(row[i]);
  rows_.push_back(std::move(cells));
}

// The width of each column that is shown.
std::vector<size_t> Table::widths(size_t columns_max) const {
  std::vector<size_t> all(columns_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = config::columns_of(columns_[i].title);
    for (const auto& row : rows_) all[i] = std::max(all[i], config::columns_of(row[i]));
  }
  const auto gaps = [&] { return gap.size() * (all.size() - 1); };
  const auto narrowest = [&] {
    size_t total = gaps();
    for (size_t i = 0; i < all.size(); ++i)
      total += columns_[i].elastic ? std::min(all[i], elastic_min) : all[i];
    return total;
  };
  while (all.size() > 1 && narrowest() > columns_max) all.pop_back();
  if (all.size() == 1) return {std::min(all.front(), columns_max)};
  // The widest elastic column is narrowed, down to the next widest in one step; columns of equal
  // width are narrowed in turn, by one each.
  for (size_t total = std::accumulate(all.begin(), all.end(), gaps()); total > columns_max;) {
    size_t widest = 0, next = elastic_min;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!columns_[i].elastic) continue;
      if (!columns_[widest].elastic || all[i] > all[widest]) widest = i;
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (columns_[i].elastic && all[i] < all[widest]) next = std::max(next, all[i]);
    size_t less = std::min(total - columns_max, all[widest] - next);
    for (size_t i = 0; i < all.size(); ++i)
      if (i != widest && columns_[i].elastic && all[i] == all[widest]) less = 1;
    all[widest] -= less;
    total -= less;
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
      line += config::fitted(cell(i), all[i], columns_[i].right);
    }
    while (line.ends_with(' ')) line.pop_back();
    lines.push_back(std::move(line));
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](size_t i) -> const std::string& { return row[i]; });
  return lines;
}

std::string Table::text(const config::CommandIo& io) const {
  return text(io.out_colour, io.out_terminal ? columns_of_terminal() : any_width);
}

std::string Table::text(bool coloured, size_t columns_max) const {
  std::string text;
  bool first = true;
  for (const std::string& line : lines(columns_max)) {
    text += first ? config::paint(line, 0, coloured) : line;
    text += '\n';
    first = false;
  }
  return text;
}

}  // namespace sluice::cli
