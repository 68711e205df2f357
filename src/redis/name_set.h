// Names, some millions of them, in little more memory than their bytes. Clients choose them, so
// they are hashed with a secret of the process. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::redis {

class NameSet {
 public:
  // False: it was there already; it was not.
  bool insert(std::string_view name);
  bool erase(std::string_view name);
  bool contains(std::string_view name) const;
  size_t size() const { return size_; }
  // The most names that a lookup may have to compare with. For tests.
  size_t longest_search() const;

  // `visit(name)`, which must not change the set.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const uint32_t place : table_)
      if (place > gone) visit(name_at(place));
  }

 private:
  static constexpr uint32_t free = 0, gone = 1;

  std::string_view name_at(uint32_t place) const;
  size_t first_slot(std::string_view name) const;
  size_t find(std::string_view name) const;
  void grow();

  // Each with four bytes of its length before it; places count from 2.
  std::string bytes_;
  std::vector<uint32_t> table_;  // places, by hash, a power of two
  size_t size_ = 0, used_ = 0;   // used_: not free
};

}  // namespace sluice::redis
