// Reads a log of RocksDB's without RocksDB: up to where its records are whole, and what
// follows the last one. A power cut, a kill and a full disk leave a log that is cut, or that has
// zeros where nothing was written yet; anything else is damage. Pure functions of a file; any
// thread.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::disk {

struct LogScan {
  enum class End : uint8_t {
    whole,    // the file ends with a record
    cut,      // it ends within a record
    zeros,    // zeros stand in place of a record or of a part of one
    garbled,  // a record is there and its checksum or its order is wrong
  };
  End end = End::whole;
  uint64_t bytes = 0;        // of the file
  uint64_t whole_bytes = 0;  // up to the end of the last whole record
  uint64_t records = 0;      // whole ones, up to there
};

// 0, or why the file cannot be read (errno).
int scan_log(const std::string& path, LogScan& scan);

}  // namespace sluice::disk
