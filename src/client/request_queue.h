// Encoded requests that wait for their connection: for its handshake, or until its socket takes
// more. A plain value of the core's, in the order of the calls. Keeps at most as much memory as
// waited since it was last empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"

namespace sluice::calls {

class RequestQueue {
 public:
  struct Request {
    uint32_t call;
    std::string_view bytes;  // until the next change of the queue
  };

  bool empty() const { return next_ == entries_.size(); }
  // Where the next request is encoded. `push` makes what was appended a request of `call`.
  base::Buffer& bytes() { return bytes_; }
  void push(uint32_t call) { entries_.push_back({call, bytes_.size()}); }

  // The oldest. The queue is not empty.
  uint32_t front_call() const { return entries_[next_].call; }
  Request front() const {
    return {entries_[next_].call, bytes_.view().substr(begin_, entries_[next_].end - begin_)};
  }
  void pop() {
    begin_ = entries_[next_].end;
    ++next_;
    if (empty())
      clear();
    else if (next_ >= compact_from && next_ >= entries_.size() / 2)
      compact();
  }
  void clear() {
    entries_ = {};
    bytes_ = {};
    next_ = begin_ = 0;
  }

 private:
  static constexpr size_t compact_from = 1024;
  struct Entry {
    uint32_t call;
    size_t end;  // in `bytes_`
  };

  void compact() {
    base::Buffer rest;
    rest.append(bytes_.view().substr(begin_));
    bytes_ = std::move(rest);
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(next_));
    for (Entry& entry : entries_) entry.end -= begin_;
    next_ = begin_ = 0;
  }

  base::Buffer bytes_;
  std::vector<Entry> entries_;
  size_t next_ = 0, begin_ = 0;  // of the oldest: in `entries_`, in `bytes_`
};

}  // namespace sluice::calls
