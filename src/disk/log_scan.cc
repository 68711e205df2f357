#include "disk/log_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

namespace sluice::disk {

namespace {

// A log is blocks of this size; a record that does not fit is cut into fragments, and what is too
// small for a header is filled with zeros.
constexpr size_t block_bytes = 32768, header_bytes = 7;
// What a disk writes as a whole.
constexpr size_t sector_bytes = 512;
enum : uint8_t { full_type = 1, first_type = 2, middle_type = 3, last_type = 4 };

// CRC-32C, eight bytes at a time.
class Crc {
 public:
  Crc() {
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
      tables_[0][i] = crc;
    }
    for (size_t t = 1; t < 8; ++t)
      for (size_t i = 0; i < 256; ++i)
        tables_[t][i] = tables_[t - 1][i] >> 8 ^ tables_[0][tables_[t - 1][i] & 255];
  }
  uint32_t operator()(const unsigned char* at, size_t bytes) const {
    uint32_t crc = ~uint32_t{0};
    for (; bytes >= 8; bytes -= 8, at += 8) {
      uint32_t low, high;
      std::memcpy(&low, at, 4);
      std::memcpy(&high, at + 4, 4);
      low ^= crc;
      crc = tables_[7][low & 255] ^ tables_[6][low >> 8 & 255] ^ tables_[5][low >> 16 & 255] ^
            tables_[4][low >> 24] ^ tables_[3][high & 255] ^ tables_[2][high >> 8 & 255] ^
            tables_[1][high >> 16 & 255] ^ tables_[0][high >> 24];
    }
    for (; bytes > 0; --bytes) crc = crc >> 8 ^ tables_[0][(crc ^ *at++) & 255];
    return ~crc;
  }

 private:
  std::array<std::array<uint32_t, 256>, 8> tables_;
};

// As RocksDB stores it.
uint32_t masked(uint32_t crc) {
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

bool is_zero(const unsigned char* at, size_t bytes) {
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0; });
}

class Scanner {
 public:
  Scanner(int fd, LogScan& scan) : fd_(fd), scan_(scan) {}

  // 0, or why not.
  int run() {
    for (;;) {
      if (!fill()) return error_;
      if (size_ == 0) break;
      for (at_ = 0; size_ - at_ >= header_bytes;) {
        if (!read_fragment()) return finish_torn();
      }
      // Less than a header: of a whole block what fills it, of the last one a header that is cut.
      if (size_ < block_bytes && at_ < size_) return finish_torn();
      scan_.bytes += size_;
      if (size_ < block_bytes) break;
    }
    if (in_record_) scan_.end = LogScan::End::cut;
    return 0;
  }

 private:
  bool fill() {
    for (size_ = 0; size_ < block_bytes;) {
      const ssize_t count = ::read(fd_, block_.get() + size_, block_bytes - size_);
      if (count == 0) return true;
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        error_ = errno;
        return false;
      }
      size_ += static_cast<size_t>(count);
    }
    return true;
  }

  bool is_known(uint8_t type) const { return type >= full_type && type <= last_type; }
  size_t length_at() const { return block_[at_ + 4] | size_t{block_[at_ + 5]} << 8; }

  bool read_fragment() {
    const unsigned char* const head = block_.get() + at_;
    const size_t length = length_at();
    const uint8_t type = head[6];
    if (!is_known(type) || at_ + header_bytes + length > size_) return false;
    uint32_t stored = 0;
    for (size_t i = 0; i < 4; ++i) stored |= uint32_t{head[i]} << (8 * i);
    static const Crc crc;
    if (masked(crc(head + 6, length + 1)) != stored) return false;
    const bool begins = type == full_type || type == first_type;
    if (begins == in_record_) {
      disordered_ = true;
      return false;
    }
    in_record_ = type == first_type || type == middle_type;
    at_ += header_bytes + length;
    if (!in_record_) {
      scan_.whole_bytes = scan_.bytes + at_;
      ++scan_.records;
    }
    return true;
  }

  // What is at `at_` is not a fragment. Is it one that was not written to its end?
  int finish_torn() {
    const bool has_header = size_ - at_ >= header_bytes;
    const bool sane =
        has_header && is_known(block_[at_ + 6]) && at_ + header_bytes + length_at() <= block_bytes;
    const size_t end = sane ? std::min(size_, at_ + header_bytes + length_at()) : size_;
    bool hole = false;
    for (size_t from = at_; from < end && !hole;) {
      const size_t to = std::min(size_, from / sector_bytes * sector_bytes + sector_bytes);
      hole = is_zero(block_.get() + from, to - from);
      from = to;
    }
    bool ends_in_zeros = block_[end - 1] == 0 && is_zero(block_.get() + end, size_ - end);
    const bool is_last = size_ < block_bytes;
    const bool cut = is_last && (!has_header || (sane && at_ + header_bytes + length_at() > size_));
    for (scan_.bytes += size_; size_ == block_bytes; scan_.bytes += size_) {
      if (!fill()) return error_;
      ends_in_zeros = ends_in_zeros && is_zero(block_.get(), size_);
    }
    if (disordered_)
      scan_.end = LogScan::End::garbled;
    else if (hole || ends_in_zeros)
      scan_.end = LogScan::End::zeros;
    else
      scan_.end = cut ? LogScan::End::cut : LogScan::End::garbled;
    return 0;
  }

  const int fd_;
  LogScan& scan_;
  const std::unique_ptr<unsigned char[]> block_{new unsigned char[block_bytes]};
  size_t size_ = 0, at_ = 0;  // of the block; where in it
  bool in_record_ = false, disordered_ = false;
  int error_ = 0;
};

}  // namespace

int scan_log(const std::string& path, LogScan& scan) {
  scan = {};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = Scanner(fd, scan).run();
  ::close(fd);
  return error;
}

}  // namespace sluice::disk
