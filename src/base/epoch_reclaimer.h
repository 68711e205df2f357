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
#include <deque>
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

  // Who looks from now on does not find it. Freed by `free(context, what)`.
  void retire(void* what, void (*free)(void* context, void* what), void* context) {
    const uint64_t epoch = epoch_.fetch_add(1, std::memory_order_acq_rel);
    retired_.push_back({what, free, context, epoch});
  }
  template <class T>
  void retire(std::unique_ptr<T> what) {
    if (what == nullptr) return;
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
    void* what;
    void (*free_it)(void* context, void* what);
    void* context;
    uint64_t epoch;  // a reader that has seen a later one cannot hold it
    void free() const { free_it(context, what); }
  };

  std::atomic<uint64_t> epoch_{1};
  std::deque<Retired> retired_;
  std::mutex mutex_;  // of the next
  std::vector<const Reader*> readers_;
};

}  // namespace sluice::base
