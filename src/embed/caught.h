// The exception that is being handled, as an error value of the public interface.
#pragma once

#include <sluice/result.h>

#include <exception>
#include <new>

namespace sluice::embed {

// Call it in a catch block.
inline error caught() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {errc::no_memory, {}};  // no text: that takes memory
  } catch (const std::exception& its) {
    try {
      return {errc::internal, its.what()};
    } catch (...) {
      return {errc::internal, {}};
    }
  } catch (...) {
    return {errc::internal, {}};
  }
}

}  // namespace sluice::embed
