/**
 * @file
 * A limiter whose counters are kept in a directory, for C and for languages that call C. Link
 * `sluice-durable` in place of `sluice-limiter`. What sluice/durable.h states about what is stored,
 * about threads, errors, memory, fork() and dlclose() holds here, and what sluice/sluice.h states
 * about errors, null pointers, texts, times and the ABI.
 */
#ifndef SLUICE_SLUICE_DURABLE_H
#define SLUICE_SLUICE_DURABLE_H

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A limiter and its directory. */
typedef struct sluice_durable sluice_durable;

/** Where counters are kept, and how; see sluice::durable_options. */
typedef struct sluice_durable_options {
  size_t size; /**< sizeof(sluice_durable_options) */
  /** It is made if it is missing, with its parents. */
  const char* directory;
  /** 0: no thread commits; else how often one does, 1,000 or more */
  int64_t commit_every_us;
  /** Called with a text for people, on the thread that opens, commits or closes; may be null. Must
   * not call this interface. */
  void (*tell)(void* data, const char* text);
  /** for `tell` */
  void* tell_data;
  int32_t sync; /**< 1: a commit survives a power failure */
  /** 0 */
  int32_t reserved;
} sluice_durable_options;

/** Opens a directory, and returns when its counters are in memory. Null: it failed, see the error.
 * `options` may be null. Rules come by sluice_reload_text() or sluice_reload_file(). */
SLUICE_C_API sluice_durable* sluice_durable_open(const sluice_durable_options* where,
                                                 const sluice_options* options,
                                                 sluice_error* error);
/** The limiter, as long as `durable` is open; not for sluice_destroy(). Null for null. */
SLUICE_C_API sluice_limiter* sluice_durable_limiter(sluice_durable* durable);
/** Returns when all that was decided before this call is kept, or why it is not. `error` may be
 * null. */
SLUICE_C_API int32_t sluice_durable_commit(sluice_durable* durable, sluice_error* error);
/** Commits what is left, as far as that is possible, and closes the directory. No thread may be in
 * a call of it or of its limiter. Null: nothing happens. */
SLUICE_C_API void sluice_durable_close(sluice_durable* durable);

#ifdef __cplusplus
}
#endif

#endif
