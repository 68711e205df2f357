// Members in the order in which they joined, the oldest first, and how long each may stay. Joining
// and leaving are a few pointers: nothing is allocated, so a connection can join for each part of a
// request. Used by one thread.
#pragma once

#include <chrono>
#include <optional>

namespace sluice::server {

template <class T>
class AgeList {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Length = std::chrono::steady_clock::duration;

  // A part of each object that can be in a list. Its destructor leaves the list. Its address must
  // not change.
  class Member {
   public:
    explicit Member(T& owner) : owner_(owner) {}
    ~Member() { leave(); }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Joins as the youngest; a member of any list leaves that one first.
    void join(AgeList& list, Time now) {
      leave();
      list_ = &list;
      since_ = now;
      older_ = list.youngest_;
      (older_ == nullptr ? list.oldest_ : older_->younger_) = this;
      list.youngest_ = this;
      ++list.size_;
    }
    void leave() {
      if (list_ == nullptr) return;
      (older_ == nullptr ? list_->oldest_ : older_->younger_) = younger_;
      (younger_ == nullptr ? list_->youngest_ : younger_->older_) = older_;
      --list_->size_;
      list_ = nullptr;
      older_ = younger_ = nullptr;
    }
    bool is_member() const { return list_ != nullptr; }
    bool is_in(const AgeList& list) const { return list_ == &list; }
    Time since() const { return since_; }
    T& owner() const { return owner_; }
    // The next younger member; null: this is the youngest.
    Member* younger() const { return younger_; }

   private:
    friend class AgeList;
    T& owner_;
    AgeList* list_ = nullptr;
    Member* older_ = nullptr;
    Member* younger_ = nullptr;
    Time since_{};
  };

  // `limit`: how long a member may stay.
  explicit AgeList(Length limit = Length::max()) : limit_(limit) {}
  // A list is destroyed after its last member has left.
  AgeList(const AgeList&) = delete;
  AgeList& operator=(const AgeList&) = delete;

  Length limit() const { return limit_; }
  // Null: it is empty.
  Member* oldest() const { return oldest_; }
  size_t size() const { return size_; }
  // When the oldest member reaches the limit; nothing: the list is empty or has no limit.
  std::optional<Time> due() const {
    if (oldest_ == nullptr || limit_ == Length::max()) return std::nullopt;
    return oldest_->since_ + limit_;
  }

 private:
  const Length limit_;
  Member* oldest_ = nullptr;
  Member* youngest_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sluice::server
