#include "store/hold_book.h"

#include <pthread.h>
#include <sys/random.h>

#include <array>
#include <atomic>
#include <span>
#include <utility>

#include "base/check.h"

namespace sluice::store {

namespace {

// How often this process came from a fork: a child must not give out the ids of its parent.
std::atomic<uint32_t> forks{0};

}  // namespace

std::string HoldBook::make_id() {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  // The system is asked for many at a time.
  thread_local std::array<unsigned char, 256> pool;
  thread_local size_t used = pool.size();
  thread_local uint32_t filled_after = 0;  // so many forks
  static const bool watches_forks = ::pthread_atfork(nullptr, nullptr, [] {
                                      forks.fetch_add(1, std::memory_order_relaxed);
                                    }) == 0;
  SLUICE_CHECK(watches_forks);
  const uint32_t so_far = forks.load(std::memory_order_relaxed);
  if (used == pool.size() || filled_after != so_far) {
    filled_after = so_far;
    SLUICE_CHECK(::getrandom(pool.data(), pool.size(), 0) == ssize_t{pool.size()});
    used = 0;
  }
  const auto random = std::span(pool).subspan(std::exchange(used, used + 16), 16);
  std::string id;
  id.reserve(22);
  for (size_t i = 0; i < random.size(); i += 3) {
    uint32_t bits = 0;
    const size_t count = std::min<size_t>(3, random.size() - i);
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? random[i + j] : 0u);
    for (size_t j = 0; j <= count; ++j) id += digits[bits >> (18 - 6 * j) & 63];
  }
  return id;
}

}  // namespace sluice::store
