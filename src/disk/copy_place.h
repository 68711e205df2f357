// Where a copy of a store is made: in TARGET.new, for its owner alone, which becomes TARGET when it
// is whole and on the medium. One thread.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::disk {

class CopyPlace {
 public:
  explicit CopyPlace(const std::string& target) : target_(target), fresh_(target + ".new") {}
  // What is not finished is removed.
  ~CopyPlace();
  CopyPlace(const CopyPlace&) = delete;
  CopyPlace& operator=(const CopyPlace&) = delete;

  // Makes it, empty, with its folder for the store. `dir`: of the store, in which it may not lie.
  // What is there of an earlier copy that was not finished is removed, and nothing else.
  base::Done make(const std::string& dir);
  const std::string& path() const { return fresh_; }
  base::Done finish();

 private:
  const std::string target_, fresh_;
  bool made_ = false;
};

}  // namespace sluice::disk
