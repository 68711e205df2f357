// When may what readers without a lock could still be looking at be freed? A writer takes it out of
// their reach, then hands it here; it is freed once every reader has said that it holds nothing of
// what it found before. Readers say so whenever it suits them, at the price of two loads; they
// never wait, and no thread waits for them. Owned by what is read; `retire` and `reclaim` are the
// writer's, one thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::base {

class EpochReclaimer {
 public:
  EpochReclaimer() = default;
  ~EpochReclaimer() { free_all(); }
  EpochReclaimer(const EpochReclaimer&) = delete;
  EpochReclaimer& operator=(const EpochReclaimer&) = delete;

  // One thread that reads, as long as this lives; made on any thread.
  class Reader {
   public:
    explicit Reader(EpochReclaimer& reclaimer) : reclaimer_(reclaimer) {
      const std::lock_guard lock(reclaimer_.mutex_);
      seen_.store(reclaimer_.epoch_.load(std::memory_order_acquire), std::memory_order_release);
      reclaimer_.readers_.push_back(this);
    }
    ~Reader() {
      const std::lock_guard lock(reclaimer_.mutex_);
      std::erase(reclaimer_.readers_, this);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // It holds nothing that it found until now.
    void quiesce() {
      const uint64_t epoch = reclaimer_.epoch_.load(std::memory_order_acquire);
      if (epoch != seen_.load(std::memory_order_relaxed))
        seen_.store(epoch, std::memory_order_release);
    }

   private:
    friend class EpochReclaimer;
    EpochReclaimer& reclaimer_;
    std::atomic<uint64_t> seen_{0};
  };

  // Makes room for so many: until they are retired nothing fails. Throws std::bad_alloc.
  void make_room(size_t count) {
    while (room_.size() < count) room_.emplace_back();
  }
  // Takes `what`, which later lookups must not find, and frees it by `free(context, what)`.
  // Allocates if there is no room for one more (make_room).
  void retire(void* what, void (*free)(void* context, void* what), void* context) {
    make_room(1);
    const uint64_t epoch = epoch_.fetch_add(1, std::memory_order_acq_rel);
    room_.front() = {what, free, context, epoch};
    retired_.splice(retired_.end(), room_, room_.begin());
  }
  template <class T>
  void retire(std::unique_ptr<T> what) {
    if (what == nullptr) return;
    make_room(1);
    retire(
        what.release(), [](void*, void* it) { delete static_cast<T*>(it); }, nullptr);
  }

  // Frees what may be freed.
  void reclaim() {
    if (retired_.empty()) return;
    uint64_t seen = UINT64_MAX;
    {
      const std::lock_guard lock(mutex_);
      for (const Reader* reader : readers_)
        seen = std::min(seen, reader->seen_.load(std::memory_order_acquire));
    }
    for (; !retired_.empty() && retired_.front().epoch < seen; retired_.pop_front())
      retired_.front().free();
  }
  // All of it: no thread reads any more.
  void free_all() {
    for (; !retired_.empty(); retired_.pop_front()) retired_.front().free();
  }
  // What is not freed yet.
  size_t retired() const { return retired_.size(); }

 private:
  struct Retired {
    void* what = nullptr;
    void (*free_it)(void* context, void* what) = nullptr;
    void* context = nullptr;
    uint64_t epoch = 0;  // a reader that has seen a later one cannot hold it
    void free() const { free_it(context, what); }
  };

  std::atomic<uint64_t> epoch_{1};
  std::list<Retired> retired_, room_;
  std::mutex mutex_;  // of the next
  std::vector<const Reader*> readers_;
};

}  // namespace sluice::base
