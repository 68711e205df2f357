#include "wire/gzip.h"

#include <zlib.h>

#include <algorithm>

namespace sluice::wire {
namespace {

constexpr int gzip_window_bits = 15 + 16;  // with gzip's header and digest, not zlib's
constexpr int level = 1;                   // answers are short
constexpr size_t step_bytes = 16 << 10;

Bytef* bytes_of(std::string_view text) {
  // zlib only reads the bytes.
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

struct Gzip::State {
  z_stream in{}, out{};
  bool can_read = false, can_write = false;
};

Gzip::Gzip() = default;

Gzip::~Gzip() {
  if (state_ == nullptr) return;
  if (state_->can_read) inflateEnd(&state_->in);
  if (state_->can_write) deflateEnd(&state_->out);
}

Gzip::Result Gzip::decompress(std::string_view text, size_t bytes_max, std::string& out) {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  z_stream& in = state_->in;
  if (!state_->can_read) {
    if (inflateInit2(&in, gzip_window_bits) != Z_OK) return Result::no_memory;
    state_->can_read = true;
  } else if (inflateReset(&in) != Z_OK) {
    return Result::broken;
  }
  if (text.size() > UINT32_MAX) return Result::too_large;
  in.next_in = bytes_of(text);
  in.avail_in = static_cast<uInt>(text.size());
  const size_t begin = out.size();
  while (true) {
    const size_t filled = out.size() - begin;
    // Room for one byte more than the bound shows whether the output exceeds it.
    const size_t room = std::min(step_bytes, bytes_max + 1 - filled);
    out.resize(out.size() + room);
    in.next_out = reinterpret_cast<Bytef*>(out.data() + begin + filled);
    in.avail_out = static_cast<uInt>(room);
    const int result = inflate(&in, Z_NO_FLUSH);
    out.resize(out.size() - in.avail_out);
    if (out.size() - begin > bytes_max) return Result::too_large;
    if (result == Z_STREAM_END) return in.avail_in == 0 ? Result::done : Result::broken;
    if (result == Z_MEM_ERROR) return Result::no_memory;
    if (result != Z_OK || (in.avail_in == 0 && in.avail_out > 0)) return Result::broken;
  }
}

bool Gzip::compress(std::string_view text, std::string& out) {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  z_stream& stream = state_->out;
  if (!state_->can_write) {
    if (deflateInit2(&stream, level, Z_DEFLATED, gzip_window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      return false;
    state_->can_write = true;
  } else if (deflateReset(&stream) != Z_OK) {
    return false;
  }
  const size_t begin = out.size();
  out.resize(begin + deflateBound(&stream, text.size()));
  stream.next_in = bytes_of(text);
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + begin);
  stream.avail_out = static_cast<uInt>(out.size() - begin);
  const int result = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  return result == Z_STREAM_END;
}

}  // namespace sluice::wire
