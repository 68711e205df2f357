// A table for a terminal: columns as wide as what stands in them, or as narrow as the window wants.
// Cells are made fit for a terminal (config/screen_text.h). Plain value; one thread.
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
    bool right = false;    // numbers stand at the right
    bool elastic = false;  // may be cut where there is little room
  };
  static constexpr size_t any_width = std::numeric_limits<size_t>::max();

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // A text for each column, as it came.
  void add(const std::vector<std::string>& row);
  size_t rows() const { return rows_.size(); }

  // The titles, then a line for each row, none of them wider than that. What does not fit is cut
  // out of the elastic columns first; then columns are left out, the last first.
  std::vector<std::string> lines(size_t columns_max = any_width) const;
  // The same as a text, with a line end behind each.
  std::string text(bool coloured, size_t columns_max = any_width) const;
  // For what a command prints: as wide as the terminal, if it is one.
  std::string text(const config::CommandIo& io) const;

 private:
  std::vector<size_t> widths(size_t columns_max) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sluice::cli
