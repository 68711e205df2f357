// Compresses and decompresses texts with gzip (RFC 1952), each in one piece, with a bound on the
// decompressed size. Keeps zlib's state between calls, about 300 KB after both were used, so a
// worker has one. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sluice::wire {

class Gzip {
 public:
  enum class Result : uint8_t {
    done,
    too_large,  // the decompressed text has more than `bytes_max` bytes
    broken,     // not gzip, cut off, or followed by other bytes
    no_memory,
  };

  Gzip();
  ~Gzip();

  // Appends to `out`, whose earlier bytes do not count. Stops beyond `bytes_max`, whatever size the
  // text announces.
  Result decompress(std::string_view text, size_t bytes_max, std::string& out);
  // Appends the compressed text. False: no memory.
  bool compress(std::string_view text, std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::wire
