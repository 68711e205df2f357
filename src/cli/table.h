// A table for a terminal. Columns are as wide as their widest cell, or narrower where the window
// is. Cells are made safe for a terminal (config/screen_text.h). Plain value; one thread.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace sluice::config {
struct CommandIo;
}

namespace sluice::cli {

class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;    // aligned at the right, for numbers
    bool elastic = false;  // may be narrowed
  };
  static constexpr size_t any_width = std::numeric_limits<size_t>::max();

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row: a text for each column, not yet escaped.
  void add(const std::vector<std::string>& row);
  size_t rows() const { return rows_.size(); }

  // The line of titles, then a line for each row, none wider than `columns_max`. If they do not
  // fit, elastic columns are cut first; then columns are left out, beginning with the last.
  std::vector<std::string> lines(size_t columns_max = any_width) const;
  // The lines as one text, each with a line end.
  std::string text(bool coloured, size_t columns_max = any_width) const;
  // The text for a command's output; as wide as the terminal, if it is one.
  std::string text(const config::CommandIo& io) const;

 private:
  std::vector<size_t> widths(size_t columns_max) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice::cli
