/// @file
/// A limiter whose counters are kept in a directory, so that they survive the end of the process.
/// C++17 or later; link `sluice-durable` in place of `sluice-limiter`: it has all of that as well,
/// and one program must not link both (the CMake package refuses it).
///
/// - **What is kept.** A decision is returned once it is made in memory, before it is on disk.
///   commit() returns when all that was decided before it was called is kept; a process that is
///   killed then still finds it. What was decided later may be forgotten if the process is killed.
///   Counters and reservations are kept, each reservation in the commit of what it took; one whose
///   end came while the directory was not open is ended by open(), also where options::holds_max is
///   0 by then. Rules, overrides and waits are not: set them again after open().
/// - **Time.** The directory forgets a counter once it equals a fresh one by the limiter's clock
///   (options::clock). Calls that give a time must give one of that clock.
/// - **Threads.** commit() may be called by any number of threads at a time; those that come while
///   another one commits share the next commit. No thread commits by itself unless
///   durable_options::commit_every is set. An open directory has a thread of its own that writes
///   snapshots; it blocks all signals.
/// - **Errors.** Values (sluice/result.h). errc::storage: the directory is in use by another
///   process, cannot be read or written, is damaged or was written by a newer version; the message
///   says which, and what to do. After a failed commit() nothing is lost: the limiter continues in
///   memory, and the next commit() writes all of it. So it does after errc::no_memory, with which a
///   commit() ends that finds no memory for what it collects.
/// - **Memory.** Counters that changed since the last commit() keep their place in memory, within
///   options::memory_bytes: past it new counters fail with errc::no_memory until a commit()
///   succeeds. While commits fail, each drops those that equal fresh ones again. A snapshot takes
///   up to 16 MiB beside the counters while it is written.
/// - **fork().** A child may go on with the counters in memory, as a limiter's child may. In the
///   child commit() fails with errc::storage, and the destructor writes nothing.
/// - **dlclose().** Destroy what this header has made before; then nothing of the library stays.
#ifndef SLUICE_DURABLE_H
#define SLUICE_DURABLE_H

#include <sluice/limiter.h>
#include <sluice/result.h>

#include <functional>
#include <memory>
#include <string>

namespace sluice {

namespace detail {
class kept_core;
}  // namespace detail

/// Where counters are kept, and how.
struct durable_options {
  /// It is made if it is missing, with its parents. One process at a time may have it open.
  std::string directory;
  /// A commit reaches the medium, not only the system: it survives a power failure, and takes
  /// milliseconds. Else it survives the end of the process alone.
  bool sync = false;
  /// 0: only commit() commits. 1 ms or more: a thread commits once in this time as well.
  duration commit_every{};
  /// Called with a text for people about what is noteworthy: damaged counters that start fresh, or
  /// a commit by the thread that failed (each time). By the thread that opens or by the one that
  /// commits; must not throw or call durable. Empty: such messages are dropped.
  std::function<void(const std::string&)> tell;
};

/// A limiter and its directory.
class SLUICE_API durable {
 public:
  /// Opens the directory, and returns when all that is kept there is in memory. errc::no_memory:
  /// options::memory_bytes has no room for it.
  static result<durable> open(durable_options where, options how = {}) noexcept;

  /// The other one is empty from here on.
  durable(durable&&) noexcept;
  /// Takes the other one's place.
  durable& operator=(durable&&) noexcept;
  /// Commits what is left, as far as that is possible, and closes the directory. No thread may be
  /// in a call of it or of its limiter.
  ~durable();

  /// Returns when all that was decided before this call is kept, or why it is not.
  result<void> commit() noexcept;

  /// The limiter, as long as this lives. Not of an empty one.
  limiter& operator*() noexcept;
  /// The same.
  limiter* operator->() noexcept;

 private:
  explicit durable(std::unique_ptr<detail::kept_core> its) noexcept;
  std::unique_ptr<detail::kept_core> its_;
};

}  // namespace sluice

#endif
