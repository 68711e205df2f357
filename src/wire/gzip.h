// gzip texts (RFC 1952) in one piece, with a bound on what comes out. Keeps zlib's state from call
// to call, some 300 KB once each way was used: one for a worker. One thread.
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
    too_large,  // it would be more than `bytes_max`
    broken,     // not gzip, cut off, or something behind it
    no_memory,
  };

  Gzip();
  ~Gzip();

  // Appends to `out`; what it holds already does not count. Past `bytes_max` nothing more is
  // unpacked, whatever the text promises.
  Result decompress(std::string_view text, size_t bytes_max, std::string& out);
  // Appends. False: no memory.
  bool compress(std::string_view text, std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::wire
