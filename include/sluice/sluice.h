/**
 * @file
 * sluice's engine inside a program, for C and for languages that call C. Link `sluice-limiter`.
 * What sluice/limiter.h states about threads, time, units, keys, memory, fork() and dlclose() holds
 * here.
 *
 * - **Errors.** No function ends the process and no exception crosses this interface. What can fail
 *   returns SLUICE_OK or another sluice_errc, or a null pointer and the reason in a sluice_error.
 * - **Null.** A null limiter, handle or required pointer is SLUICE_INVALID_ARGUMENT, and so is a
 *   null text with a length, in a list as well. Pointers that may be null are named so; a null text
 *   of length 0 is empty.
 * - **Results** are set whatever comes of the call: a decision, an error, the number of a wait.
 * - **Texts** are bytes with their length where they may hold any byte (keys, descriptors), and end
 *   with a zero byte elsewhere (names, paths). They are copied where they are kept.
 * - **Times** are microseconds since the Unix epoch, 0 to SLUICE_LATEST_TIME; lengths of time are
 *   microseconds, and SLUICE_NEVER means that there is no such moment.
 * - **ABI.** What is here stays: the soname changes when it does not. Structs that may grow begin
 *   with their size: what an earlier version's lacks is as by default, and what a later version's
 *   has beyond it must be 0. `reserved` must be 0. Else the call is SLUICE_INVALID_ARGUMENT.
 *   Enumerations keep their numbers.
 *
 * A binding needs no more than this file: it has no macros with arguments and no inline functions.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what the library exports. */
#define SLUICE_C_API __attribute__((visibility("default")))
/** The latest time that a call may be made at, and the time of what never ends. */
#define SLUICE_LATEST_TIME (INT64_C(1) << 61)
/** No wait helps; a counter never resets. */
#define SLUICE_NEVER INT64_MAX

/** What went wrong; see sluice::errc. */
typedef enum sluice_errc {
  SLUICE_OK = 0,
  SLUICE_INVALID_ARGUMENT = 1,
  SLUICE_UNKNOWN_RULE = 2,
  SLUICE_POLICY = 3,
  SLUICE_NO_MEMORY = 4,
  SLUICE_TOO_MANY_LIMITS = 5,
  SLUICE_TOO_MANY_WAITING = 6,
  SLUICE_CONFLICTING_LIMITS = 7,
  SLUICE_TIMED_OUT = 8,
  SLUICE_CANNOT_MATCH = 9,
  SLUICE_STORAGE = 10,
  SLUICE_INTERNAL = 11,
  SLUICE_TOO_MANY_OVERRIDES = 12,
  SLUICE_NOT_FOUND = 13,
  SLUICE_NO_SUCH_HOLD = 14,
  SLUICE_ALREADY_SETTLED = 15,
  SLUICE_HOLD_ENDED = 16,
  SLUICE_TOO_MANY_HOLDS = 17,
  SLUICE_NO_PLACES = 18
} sluice_errc;

/** Why a function failed. The message ends with a zero byte and may be cut. */
typedef struct sluice_error {
  int32_t code; /**< a sluice_errc */
  /** what is wrong, where, and what to do */
  char message[1020];
} sluice_error;

/** How a limit counts; see sluice::algorithm. */
typedef enum sluice_algorithm {
  SLUICE_TOKEN_BUCKET = 0,
  SLUICE_FIXED_WINDOW = 1,
  SLUICE_ALIGNED_WINDOW = 2,
  SLUICE_SLIDING_WINDOW = 3,
  SLUICE_SLIDING_LOG = 4,
  SLUICE_FIXED_BUCKET = 5,
  SLUICE_CONCURRENCY = 6
} sluice_algorithm;

/** A limit; see sluice::limit_spec. */
typedef struct sluice_limit {
  /** 1 to 2^53 - 1 */
  int64_t quota;
  /** 1 or more; 0 for a fixed bucket */
  int64_t window_us;
  int64_t burst; /**< of a token bucket; 0: the quota */
  /** how it counts */
  int32_t algorithm;
  /** 0; or of sluice_calendar(), in place of `window_us`, which is 0 then; the algorithm is that of
   * an aligned window or of a token bucket (unsaid) then */
  int32_t calendar;
} sluice_limit;

/** What was decided; see sluice::decision. */
typedef struct sluice_decision {
  int32_t allowed; /**< 1 or 0 */
  int32_t matched; /**< 1: a limit applied */
  int32_t error;   /**< a sluice_errc */
  int32_t over;    /**< of a charge, 1: a limit is in debt */
  /** the most that `remaining` can be */
  int64_t limit;
  /** units left; below 0: the debt, units used beyond the limit */
  int64_t remaining;
  /** until the same could be allowed, and of a charge until one unit could; 0: it is */
  int64_t retry_after_us;
  /** until the counter is as a fresh one */
  int64_t reset_after_us;
} sluice_decision;

/** A limiter. */
typedef struct sluice_limiter sluice_limiter;
/** A rule or a list of limits, resolved once. */
typedef struct sluice_handle sluice_handle;

/** A cost against one key of a handle. */
typedef struct sluice_charge {
  /** whose limits hold */
  const sluice_handle* by;
  /** the name */
  const char* key;
  /** length of `key` */
  size_t key_bytes;
  /** units, 0 or more */
  int64_t cost;
} sluice_charge;

/** One key=value pair of a descriptor. */
typedef struct sluice_entry {
  /** the name */
  const char* key;
  /** length of `key` */
  size_t key_bytes;
  /** the value */
  const char* value;
  /** length of `value` */
  size_t value_bytes;
} sluice_entry;

/** How a limiter is made. Zero in a field: its default; see sluice::options. */
typedef struct sluice_options {
  size_t size; /**< sizeof(sluice_options) */
  /** of counters, in bytes */
  size_t memory_bytes;
  /** waits at a time */
  size_t waiting_max;
  /** different lists of limits at a time */
  size_t limits_max;
  int64_t (*clock)(void* data); /**< may be null: the system's */
  /** for `clock` */
  void* clock_data;
  void (*wake)(void* data); /**< may be null */
  /** for `wake` */
  void* wake_data;
  int32_t sweep_thread; /**< 1: with a thread of its own that sweeps */
  /** 0 */
  int32_t reserved;
  /** reservations at a time, up to 100,000,000; 0: none */
  size_t holds_max;
  int64_t hold_ttl_us;      /**< how long one is held that does not say so itself */
  int64_t hold_remember_us; /**< how long one that is settled or has ended is known */
} sluice_options;

/** Numbers of a limiter; see sluice::limiter_stats. */
typedef struct sluice_stats {
  size_t size; /**< sizeof(sluice_stats); set by the caller */
  /** that are held */
  uint64_t counters;
  /** of counters, in bytes */
  uint64_t memory_bytes;
  /** the bound of `memory_bytes` */
  uint64_t memory_bytes_max;
  /** counters that were forgotten as fresh */
  uint64_t swept;
  /** decisions that failed for want of memory */
  uint64_t refused;
  /** waits that have no answer */
  uint64_t waiting;
  /** lists of limits that are known */
  uint64_t limits;
  /** reservations that are not settled and have not ended */
  uint64_t holds;
} sluice_stats;

/** Names a reservation, or places: 128 random bits; all 0 name none. See sluice::hold. */
typedef struct sluice_hold {
  /** the first 64 bits */
  uint64_t high;
  /** the other ones */
  uint64_t low;
} sluice_hold;

/** What a commit or a release came to, of all charges together; see sluice::settlement. */
typedef struct sluice_settlement {
  /** units that it is committed with */
  int64_t used;
  /** units that went back */
  int64_t returned;
  /** units beyond what was reserved, counted now */
  int64_t charged;
  int32_t late;     /**< 1: its end had passed, or it was released */
  int32_t repeated; /**< 1: it was done before */
} sluice_settlement;

/** The end of a wait: granted, or its error. Called by sluice_run_due(), under no lock. */
typedef void (*sluice_wait_callback)(void* data, uint64_t id, const sluice_decision* decision);
/** The end of a wait of a reserve or an acquire: what it holds, with the units of all its charges
 * together and its end, or its error. Called as sluice_wait_callback is. */
typedef void (*sluice_reserve_callback)(void* data, uint64_t id, const sluice_decision* decision,
                                        const sluice_hold* hold, int64_t reserved, int64_t until);
/** One override. The texts live as long as the call. */
typedef void (*sluice_override_visitor)(void* data, const char* rule, const char* const* actor,
                                        const size_t* actor_bytes, size_t actor_count,
                                        const sluice_limit* limits, size_t limit_count,
                                        int64_t until);

/** The version of the library: "0.2.0". */
SLUICE_C_API const char* sluice_version(void);
/** A word for an error: "timed_out"; "unknown" for a number that is none. */
SLUICE_C_API const char* sluice_error_name(int32_t code);

/** A limiter without a policy. `options` and `error` may be null. Null: see `error`. */
SLUICE_C_API sluice_limiter* sluice_create(const sluice_options* options, sluice_error* error);
/** With the rules of a text, which messages call `name`; null: "policy". */
SLUICE_C_API sluice_limiter* sluice_create_from_text(const char* text, size_t text_bytes,
                                                     const char* name,
                                                     const sluice_options* options,
                                                     sluice_error* error);
/** With the rules of a file. */
SLUICE_C_API sluice_limiter* sluice_create_from_file(const char* path,
                                                     const sluice_options* options,
                                                     sluice_error* error);
/** No thread may be in a call of it. Callbacks of waits that have no answer are not called. Null:
 * nothing happens. */
SLUICE_C_API void sluice_destroy(sluice_limiter* limiter);

/** The rule of that name. */
SLUICE_C_API sluice_handle* sluice_find(sluice_limiter* limiter, const char* rule,
                                        sluice_error* error);
/** The number, 1 or more, of a window of the calendar (see sluice::limit_spec::calendar), as
 * "month@Europe/Berlin" or "month@Asia/Tokyo,month_day=15". The same text has the same number, as
 * long as the process. 0: `error` says why. Any thread. */
SLUICE_C_API int32_t sluice_calendar(const char* text, sluice_error* error);
/** The text of such a number, in the form that is written above: at most `size` bytes with the
 * final 0 are written to `text`. Returns its length without that; 0: there is no such number. */
SLUICE_C_API size_t sluice_calendar_text(int32_t calendar, char* text, size_t size);
/** Limits in code. */
SLUICE_C_API sluice_handle* sluice_limits(sluice_limiter* limiter, const char* name,
                                          const sluice_limit* limits, size_t count,
                                          sluice_error* error);
/** The same with the overdraft of each limit, 0 to 2^53 - 1; 2^53 - 1: none. See
 * sluice::limit_spec. */
SLUICE_C_API sluice_handle* sluice_limits_with_overdraft(sluice_limiter* limiter, const char* name,
                                                         const sluice_limit* limits,
                                                         const int64_t* overdrafts, size_t count,
                                                         sluice_error* error);
/** Before or after its limiter. Null: nothing happens. */
SLUICE_C_API void sluice_handle_destroy(sluice_handle* handle);

/** Each returns the decision's error; `decision` may be null. See sluice::limiter. */
SLUICE_C_API int32_t sluice_take(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                                 size_t key_bytes, int64_t cost, int64_t now,
                                 sluice_decision* decision);
/** What is left; changes nothing. */
SLUICE_C_API int32_t sluice_peek(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                                 size_t key_bytes, int64_t now, sluice_decision* decision);
/** What sluice_take() would answer; changes nothing. */
SLUICE_C_API int32_t sluice_would_take(sluice_limiter* limiter, const sluice_handle* by,
                                       const char* key, size_t key_bytes, int64_t cost, int64_t now,
                                       sluice_decision* decision);
/** Gives units back. */
SLUICE_C_API int32_t sluice_put(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                                size_t key_bytes, int64_t units, int64_t now,
                                sluice_decision* decision);
/** Makes the counter as a fresh one. */
SLUICE_C_API int32_t sluice_reset(sluice_limiter* limiter, const sluice_handle* by, const char* key,
                                  size_t key_bytes, int64_t now, sluice_decision* decision);

/** All or nothing. `each` is null, or has room for `count` decisions; it is set even where this
 * fails. */
SLUICE_C_API int32_t sluice_take_all(sluice_limiter* limiter, const sluice_charge* charges,
                                     size_t count, int64_t now, sluice_decision* each,
                                     sluice_decision* decision);
/** Each by itself. `each` has room for `count` decisions, and is set even where this fails. */
SLUICE_C_API int32_t sluice_take_many(sluice_limiter* limiter, const sluice_charge* charges,
                                      size_t count, int64_t now, sluice_decision* each);

/** Counts units that were used already, whatever is left; never refused. See sluice::limiter. */
SLUICE_C_API int32_t sluice_charge_key(sluice_limiter* limiter, const sluice_handle* by,
                                       const char* key, size_t key_bytes, int64_t cost, int64_t now,
                                       sluice_decision* decision);
/** All of them. `each` is null, or has room for `count` decisions; it is set even where this fails.
 */
SLUICE_C_API int32_t sluice_charge_all(sluice_limiter* limiter, const sluice_charge* charges,
                                       size_t count, int64_t now, sluice_decision* each,
                                       sluice_decision* decision);
/** The same, and `charged`, with room for `count` numbers, has the units of each charge that all
 * its limits counted (sluice::decision::charged). It is set even where this fails. */
SLUICE_C_API int32_t sluice_charge_all_counted(sluice_limiter* limiter,
                                               const sluice_charge* charges, size_t count,
                                               int64_t now, int64_t* charged, sluice_decision* each,
                                               sluice_decision* decision);
/** By the policy. */
SLUICE_C_API int32_t sluice_charge_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                            size_t count, int64_t cost, int64_t now,
                                            sluice_decision* decision);

/** The same, and the units that all limits counted. */
SLUICE_C_API int32_t sluice_charge_matching_counted(sluice_limiter* limiter,
                                                    const sluice_entry* entries, size_t count,
                                                    int64_t cost, int64_t now, int64_t* charged,
                                                    sluice_decision* decision);

/** By the policy. */
SLUICE_C_API int32_t sluice_take_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                          size_t count, int64_t cost, int64_t now,
                                          sluice_decision* decision);
/** What is left by the policy. */
SLUICE_C_API int32_t sluice_peek_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                          size_t count, int64_t now, sluice_decision* decision);
/** What sluice_take_matching() would answer. */
SLUICE_C_API int32_t sluice_would_take_matching(sluice_limiter* limiter,
                                                const sluice_entry* entries, size_t count,
                                                int64_t cost, int64_t now,
                                                sluice_decision* decision);
/** Gives units back by the policy. */
SLUICE_C_API int32_t sluice_put_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                         size_t count, int64_t units, int64_t now,
                                         sluice_decision* decision);
/** Makes the counters that the policy finds as fresh ones. */
SLUICE_C_API int32_t sluice_reset_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                           size_t count, int64_t now, sluice_decision* decision);

/** Takes as soon as there is enough. `*id` 0: it is decided or failed, as `decision` says, and
 * `callback` is not called; else it is called once. `decision` may be null. `data` must live until
 * then, or until sluice_cancel() returns 1 or the limiter is destroyed. */
SLUICE_C_API int32_t sluice_wait(sluice_limiter* limiter, const sluice_charge* charges,
                                 size_t count, int64_t deadline, sluice_wait_callback callback,
                                 void* data, int64_t now, sluice_decision* decision, uint64_t* id);
/** The same by the policy. */
SLUICE_C_API int32_t sluice_wait_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                          size_t count, int64_t cost, int64_t deadline,
                                          sluice_wait_callback callback, void* data, int64_t now,
                                          sluice_decision* decision, uint64_t* id);
/** 1: the wait is over and its callback will not be called. 0: it has its answer. */
SLUICE_C_API int32_t sluice_cancel(sluice_limiter* limiter, uint64_t id, int64_t now);
/** Answers what is due, calls callbacks, and returns how many. `next` may be null: when to call it
 * again. */
SLUICE_C_API size_t sluice_run_due(sluice_limiter* limiter, int64_t now, int64_t* next);

/** Other rules, at once. `name` and `error` may be null. */
SLUICE_C_API int32_t sluice_reload_text(sluice_limiter* limiter, const char* text,
                                        size_t text_bytes, const char* name, int64_t now,
                                        sluice_error* error);
/** The same of a file. */
SLUICE_C_API int32_t sluice_reload_file(sluice_limiter* limiter, const char* path, int64_t now,
                                        sluice_error* error);

/** Limits in place of a rule's for an actor, before `until`. `actor` has `actor_count` texts that
 * end with a zero byte: in each `*` is any text, "cidr(10.0.0.0/8)" a network, "[alice, bob]" a
 * list, and "exact(TEXT)" a text taken literally. */
SLUICE_C_API int32_t sluice_set_override(sluice_limiter* limiter, const char* rule,
                                         const char* const* actor, size_t actor_count,
                                         const sluice_limit* limits, size_t limit_count,
                                         int64_t until, int64_t now, sluice_error* error);
/** SLUICE_NOT_FOUND: there is none. */
SLUICE_C_API int32_t sluice_remove_override(sluice_limiter* limiter, const char* rule,
                                            const char* const* actor, size_t actor_count,
                                            int64_t now, sluice_error* error);
/** Calls `visit` for each override; it must not call the limiter. Returns how many; SIZE_MAX:
 * memory ran out, and `visit` was not called. */
SLUICE_C_API size_t sluice_overrides(sluice_limiter* limiter, int64_t now,
                                     sluice_override_visitor visit, void* data);

/** Looks at `steps` places of the table and forgets what need not be kept. */
SLUICE_C_API void sluice_sweep(sluice_limiter* limiter, size_t steps, int64_t now);
/** `stats->size` is the size of the part that is set. */
SLUICE_C_API int32_t sluice_get_stats(const sluice_limiter* limiter, sluice_stats* stats);
/** The limiter's clock; 0 for null. */
SLUICE_C_API int64_t sluice_now(const sluice_limiter* limiter);

/** Takes all charges, or none, until they are committed or released, or `ttl_us` are over; 0:
 * sluice_options::hold_ttl_us. Needs sluice_options::holds_max. `reserved`: null, or room for
 * `count` numbers, the units of each charge that are held. `until`: null, or the end. `hold` names
 * it, and none where nothing is held: refused, or an error. See sluice::limiter. */
SLUICE_C_API int32_t sluice_reserve(sluice_limiter* limiter, const sluice_charge* charges,
                                    size_t count, int64_t ttl_us, int64_t now, int64_t* reserved,
                                    int64_t* until, sluice_decision* decision, sluice_hold* hold);
/** The same by the policy: a reservation of one charge. `reserved`: null, or its units. */
SLUICE_C_API int32_t sluice_reserve_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                             size_t count, int64_t cost, int64_t ttl_us,
                                             int64_t now, int64_t* reserved, int64_t* until,
                                             sluice_decision* decision, sluice_hold* hold);
/** Takes places, all or none, until they are released or their lease of `lease_us` is over; 0: that
 * of their limits. As sluice_reserve() else. SLUICE_NO_PLACES: no limit that applies has places.
 * See sluice::limiter::acquire. */
SLUICE_C_API int32_t sluice_acquire(sluice_limiter* limiter, const sluice_charge* charges,
                                    size_t count, int64_t lease_us, int64_t now, int64_t* reserved,
                                    int64_t* until, sluice_decision* decision, sluice_hold* hold);
/** The same by the policy: `n` places. `reserved`: null, or how many are held. */
SLUICE_C_API int32_t sluice_acquire_matching(sluice_limiter* limiter, const sluice_entry* entries,
                                             size_t count, int64_t n, int64_t lease_us, int64_t now,
                                             int64_t* reserved, int64_t* until,
                                             sluice_decision* decision, sluice_hold* hold);
/** As sluice_reserve(), as soon as there is enough, as sluice_wait() has it: `*id` 0: it is decided
 * or failed; else `callback` is called once, and `hold` names nothing yet. `reserved`: null, or the
 * units of all charges together. It is held from the moment that it gets them. */
SLUICE_C_API int32_t sluice_wait_reserve(sluice_limiter* limiter, const sluice_charge* charges,
                                         size_t count, int64_t ttl_us, int64_t deadline,
                                         sluice_reserve_callback callback, void* data, int64_t now,
                                         int64_t* reserved, int64_t* until,
                                         sluice_decision* decision, sluice_hold* hold,
                                         uint64_t* id);
/** The same by the policy. */
SLUICE_C_API int32_t sluice_wait_reserve_matching(
    sluice_limiter* limiter, const sluice_entry* entries, size_t count, int64_t cost,
    int64_t ttl_us, int64_t deadline, sluice_reserve_callback callback, void* data, int64_t now,
    int64_t* reserved, int64_t* until, sluice_decision* decision, sluice_hold* hold, uint64_t* id);
/** As sluice_acquire(), as soon as places are free; else as sluice_wait_reserve(). */
SLUICE_C_API int32_t sluice_wait_acquire(sluice_limiter* limiter, const sluice_charge* charges,
                                         size_t count, int64_t lease_us, int64_t deadline,
                                         sluice_reserve_callback callback, void* data, int64_t now,
                                         int64_t* reserved, int64_t* until,
                                         sluice_decision* decision, sluice_hold* hold,
                                         uint64_t* id);
/** The same by the policy. */
SLUICE_C_API int32_t sluice_wait_acquire_matching(
    sluice_limiter* limiter, const sluice_entry* entries, size_t count, int64_t n, int64_t lease_us,
    int64_t deadline, sluice_reserve_callback callback, void* data, int64_t now, int64_t* reserved,
    int64_t* until, sluice_decision* decision, sluice_hold* hold, uint64_t* id);
/** Takes more of each of the `count` charges, all or none, and sets the end to `ttl_us` after
 * `now`; 0: the ttl that it has. `reserved` as above, with all that is held. `decision` with
 * `allowed` 0 and without an error: it is as it was. */
SLUICE_C_API int32_t sluice_extend(sluice_limiter* limiter, const sluice_hold* hold,
                                   const int64_t* more, size_t count, int64_t ttl_us, int64_t now,
                                   int64_t* reserved, int64_t* until, sluice_decision* decision);
/** Sets the end to `ttl_us` after `now`; 0: the ttl that it has. `until` may be null. */
SLUICE_C_API int32_t sluice_renew(sluice_limiter* limiter, const sluice_hold* hold, int64_t ttl_us,
                                  int64_t now, int64_t* until);
/** Says what each of the `count` charges came to. `settlement` may be null; with
 * SLUICE_ALREADY_SETTLED it has `used`. */
SLUICE_C_API int32_t sluice_commit(sluice_limiter* limiter, const sluice_hold* hold,
                                   const int64_t* used, size_t count, int64_t now,
                                   sluice_settlement* settlement, sluice_decision* decision);
/** Gives all units back. `settlement` may be null. */
SLUICE_C_API int32_t sluice_release(sluice_limiter* limiter, const sluice_hold* hold, int64_t now,
                                    sluice_settlement* settlement, sluice_decision* decision);

#ifdef __cplusplus
}
#endif

#endif
