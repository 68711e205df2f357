/// @file
/// sluice's engine inside a program: rate limits and quotas decided in nanoseconds, without a
/// server. C++17 or later; link `sluice-limiter`.
///
/// - **Threads.** Every member function of a limiter may be called by any number of threads at a
///   time, but for its destructor and for move. A limiter has no thread of its own unless
///   options::sweep_thread asks for one, no log, no network and no global state.
/// - **Time.** Microseconds since the Unix epoch, given with each call, or read from the limiter's
///   clock where a call is made without it. From 0 to `latest_time`. Time may step back; a decision
///   is made at the time that comes with it.
/// - **Units.** A cost is a number of units, 0 or more. A refusal takes nothing, except from limits
///   with `over: count` in a policy.
/// - **Keys.** Any bytes, at most `key_bytes_max`. They are copied where they are kept.
/// - **Errors.** Values (sluice/result.h). Nothing throws, but for copies of std::string and
///   std::function that the caller makes, and key_of(), which makes a string. A decision with an
///   error is not allowed and has taken nothing; where memory runs out, what was done is told as
///   done, and each wait has its answer still. Of reservations alone errc::no_memory may come after
///   units were taken or given back, where the system (not the table of counters) has none left.
/// - **Memory.** Counters hold at most options::memory_bytes. Past it a new counter takes the place
///   of one that equals a fresh one, or fails with errc::no_memory; existing counters continue.
///   Reservations hold what options::holds_max says. Different lists of limits and rule names are
///   known at most options::limits_max at a time; what no handle, rule, override or counter names
///   any more is forgotten. All of it is freed with the limiter.
/// - **fork().** A child has a copy of the counters, independent from then on. It may use and
///   destroy a limiter if no other thread was inside a call of it when fork() was called; else it
///   must not touch it. A sweep thread does not exist in the child: call sweep() there.
/// - **dlclose().** Destroy every limiter and handle before the library is unloaded. It stays
/// loaded
///   where a thread that has reserved has not ended before.
#ifndef SLUICE_LIMITER_H
#define SLUICE_LIMITER_H

#include <sluice/result.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Marks what the library exports.
#define SLUICE_API __attribute__((visibility("default")))

namespace sluice {

/// A length of time.
using duration = std::chrono::microseconds;
/// Microseconds since the Unix epoch.
using time_point = std::chrono::time_point<std::chrono::system_clock, duration>;

/// "There is no such moment": no wait helps, or a counter never resets.
inline constexpr duration never = duration::max();
/// The latest time that a call may be made at; and the time of what never ends.
inline constexpr time_point latest_time{duration{std::int64_t{1} << 61}};
/// The longest key, in bytes.
inline constexpr std::size_t key_bytes_max = 65'535;
/// The most charges of one take_all().
inline constexpr std::size_t charges_max = 64;
/// The most limits of one counter.
inline constexpr std::size_t limits_per_counter_max = 8;
/// The largest quota and burst.
inline constexpr std::int64_t quota_max = (std::int64_t{1} << 53) - 1;
/// The longest window.
inline constexpr duration window_max{std::int64_t{100} * 366 * 86'400 * 1'000'000};

/// The most that options::holds_max may be.
inline constexpr std::size_t holds_most = 100'000'000;
/// The longest that a reservation may be held at a time.
inline constexpr duration hold_ttl_max = std::chrono::hours(24);

/// How a limit counts (docs/algorithms.md). The numbers are part of the ABI.
enum class algorithm : unsigned char {
  token_bucket = 0,    ///< `quota` units per `window` come back continuously, up to `burst`
  fixed_window = 1,    ///< `quota` units per window that opens with its first unit
  aligned_window = 2,  ///< `quota` units per window of the clock
  sliding_window = 3,  ///< two windows of the clock, the older one weighted
  sliding_log = 4,     ///< the times of units, exact while few enough are stored
  fixed_bucket = 5,    ///< `quota` units that come back only by put(); `window` is 0
  /// places: `quota` units out at a time, each back by put() or release(), or after `window`
  concurrency = 6,
};

/// A limit in code.
struct limit_spec {
  std::int64_t quota = 0;  ///< 1 to quota_max
  duration window{};       ///< 1 us to window_max; 0 for a fixed_bucket
  /// how it counts
  sluice::algorithm algorithm = sluice::algorithm::token_bucket;
  std::int64_t burst = 0;  ///< of a token_bucket: its size, 1 to quota_max; 0: the quota
  /// In place of `window`, which is 0 then: a window of the calendar, as "month@Europe/Berlin" or
  /// "month@Asia/Tokyo,month_day=15,starts_at=06:00" (docs/algorithms.md, the members of policies);
  /// empty: none. Its algorithm is aligned_window, also if it is left as it is. Zones are those of
  /// $TZDIR or /usr/share/zoneinfo, read when one is first named and at each reload; UTC is always
  /// there. A process knows 8,192 different ones at most.
  std::string calendar{};
  /// the most units that charge() leaves owed, 0 to quota_max: what goes beyond is not counted;
  /// quota_max: no such bound. Not of an override, whose limits keep that of the rule
  std::int64_t overdraft = quota_max;
};

/// What was decided. Of several limits the tightest one's numbers: of a refusal the one with the
/// longest wait, else the one with the least left; of a charge the one that takes longest until it
/// grants one unit.
struct decision {
  bool allowed = false;        ///< taken (take, charge), or it would be (peek, would_take)
  bool matched = false;        ///< a limit applied; false: no rule applies, and it is allowed
  bool over = false;           ///< of a charge: a limit is in debt
  errc error = errc::ok;       ///< not ok: not allowed, nothing was taken, the numbers are void
  std::int64_t limit = 0;      ///< the most that `remaining` can be
  std::int64_t remaining = 0;  ///< units left; below 0: the debt, units used beyond the limit
  /// until the same could be allowed, and of a charge until one unit could; 0: it is; `never`: no
  /// wait helps
  duration retry_after{};
  duration reset_after{};  ///< until the counter is as a fresh one; `never`: it never is
  /// of a charge: the units that all its limits counted, less than the cost where the overdraft of
  /// one left no room; of several charges the sum. 0 without a counter, and of all else
  std::int64_t charged = 0;

  /// Is it allowed, there, or done?
  explicit operator bool() const noexcept { return allowed; }
};

/// Elements side by side, looked at and not owned: a vector, an array, or a list in braces, which
/// lives to the end of the call.
template <class T>
class view {
 public:
  constexpr view() noexcept = default;
  /// Of elements that live as long as it is used.
  constexpr view(const T* data, std::size_t size) noexcept : data_(data), size_(size) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // it lives as long as the call, see above
#endif
  /// Of elements that live as long as it is used.
  constexpr view(std::initializer_list<T> all) noexcept : data_(all.begin()), size_(all.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  /// Of anything with data() and size(): std::vector, std::array, std::span.
  template <class Container, class = decltype(std::declval<const Container&>().data())>
  constexpr view(const Container& all) noexcept : data_(all.data()), size_(all.size()) {}

  /// The first element.
  constexpr const T* data() const noexcept {
    return data_;
  }
  /// How many there are.
  constexpr std::size_t size() const noexcept {
    return size_;
  }
  /// The first element.
  constexpr const T* begin() const noexcept {
    return data_;
  }
  /// Behind the last element.
  constexpr const T* end() const noexcept {
    return data_ + size_;
  }
  /// The element of that number, below size().
  constexpr const T& operator[](std::size_t i) const noexcept {
    return data_[i];
  }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

namespace detail {
class core;
class terms;
}  // namespace detail
class durable;

/// A rule or a list of limits, resolved once, by which decisions are made without a lookup. Copies
/// are cheap and name the same. A rule's handle follows reloads and overrides. It may outlive its
/// limiter, and is of no use then. Any thread may use a handle that no other thread changes.
class SLUICE_API handle {
 public:
  handle() noexcept = default;
  /// Another one of the same.
  handle(const handle& other) noexcept;
  /// Another one of the same.
  handle(handle&& other) noexcept : terms_(std::exchange(other.terms_, nullptr)) {}
  /// Takes the other one's place.
  handle& operator=(handle other) noexcept {
    std::swap(terms_, other.terms_);
    return *this;
  }
  ~handle();

  /// Is it bound to a rule or to limits?
  explicit operator bool() const noexcept { return terms_ != nullptr; }

 private:
  friend class limiter;
  friend class detail::core;
  explicit handle(detail::terms* its_terms) noexcept : terms_(its_terms) {}
  detail::terms* terms_ = nullptr;
};

/// A cost against one key of a handle.
struct charge {
  /// whose limits hold
  const handle* by = nullptr;
  /// the name
  std::string_view key;
  /// units, 0 or more
  std::int64_t cost = 1;
};

/// One key=value pair of a descriptor, on which the rules of a policy match.
struct entry {
  /// the name
  std::string_view key;
  /// the value
  std::string_view value;
};

/// Names a reservation, or places: 128 random bits, so a caller that knows it may settle it. All 0
/// name none. A plain value, which may be written down and used by any thread; it is of use to its
/// limiter alone, or to the next one that opens its directory (sluice/durable.h).
struct hold {
  std::uint64_t high = 0;  ///< the first 64 bits
  std::uint64_t low = 0;   ///< the other ones

  /// Does it name one?
  explicit operator bool() const noexcept { return (high | low) != 0; }
  /// Do both name the same?
  friend bool operator==(const hold& a, const hold& b) noexcept {
    return a.high == b.high && a.low == b.low;
  }
  /// Do they name different ones?
  friend bool operator!=(const hold& a, const hold& b) noexcept { return !(a == b); }
};

/// What reserve(), acquire(), extend() or renew() came to. Without an error and not allowed, it was
/// refused, and nothing has changed.
struct reservation {
  decision now{};           ///< as of take(); of renew() without numbers
  hold id{};                ///< names it; none: nothing is held
  time_point until{};       ///< its end; not of one that was refused
  std::int64_t reserved{};  ///< units that are held, of all charges together
};

/// What commit() or release() came to.
struct settlement {
  /// `limit`, `remaining` and `over` of the counter that takes longest until it grants a unit, as
  /// after charge(); its times are 0. Without a counter `matched` is false.
  decision now{};
  std::int64_t used = 0;      ///< units that it is committed with, of all charges together
  std::int64_t returned = 0;  ///< units that went back, the same
  std::int64_t charged = 0;   ///< units beyond what was reserved, counted now, the same
  bool late = false;          ///< of commit(): its end had passed, or it was released
  bool repeated = false;      ///< of commit(): it was done before; this is its answer
};

/// Names a wait; 0 names none.
using wait_id = std::uint64_t;

/// What a wait came to at once. `id` not 0: it is not decided yet, and its callback will be called.
struct waiting {
  decision now;    ///< of id 0 the answer; else the refusal as of now
  wait_id id = 0;  ///< for cancel()
};

/// The end of a wait: granted (`allowed`), or its error: errc::timed_out; after a change of rules
/// or overrides errc::unknown_rule, or errc::no_memory where it could not be matched again.
using wait_callback = std::function<void(wait_id, const decision&)>;

/// What a reserve or an acquire that waits came to at once. `id` not 0: it is not decided yet, and
/// its callback will be called.
struct reserving {
  reservation now;  ///< of id 0 the answer; else the refusal as of now
  wait_id id = 0;   ///< for cancel()
};

/// The end of such a wait: held from now on (`now.allowed`), or its error, as of wait_callback.
using reserve_callback = std::function<void(wait_id, const reservation&)>;

/// What run_due() did.
struct due {
  std::size_t called = 0;         ///< callbacks
  time_point next = latest_time;  ///< when it has to be called again; latest_time: when woken
};

/// What came of reading a policy.
struct policy_report {
  /// how many it has
  std::size_t rules = 0;
  std::vector<std::string> warnings;  ///< "file:line:column: warning: ..."
};

/// Limits that replace a rule's for one actor or a pattern of actors.
struct override_spec {
  std::string rule;  ///< the rule's name
  /// a value for each entry of the rule's actor: a text, in which `*` is any text, a network as
  /// "cidr(10.0.0.0/8)", a list as "[alice, bob]", or "exact(TEXT)" for a text taken literally
  std::vector<std::string> actor;
  std::vector<limit_spec> limits;  ///< all that hold in place of the rule's
  time_point until = latest_time;  ///< it applies before that time
};

/// Numbers of a limiter, each as of some moment during the call.
struct limiter_stats {
  std::uint64_t counters = 0;      ///< that are held
  std::uint64_t memory_bytes = 0;  ///< of counters
  /// the bound of `memory_bytes`
  std::uint64_t memory_bytes_max = 0;
  std::uint64_t swept = 0;    ///< counters that were forgotten as they equalled fresh ones
  std::uint64_t refused = 0;  ///< decisions that failed for want of memory
  std::uint64_t waiting = 0;  ///< waits that have no answer
  std::uint64_t limits = 0;   ///< different lists of limits that are known
  /// reservations, and places that were acquired, which are not settled and have not ended
  std::uint64_t holds = 0;
};

/// How a limiter is made.
struct options {
  /// The bound of memory for counters, 16 MiB to 16 GiB: some 53 bytes each with a key of 16 bytes.
  /// Address space is reserved for it; memory is used as counters come.
  std::size_t memory_bytes = std::size_t{64} << 20;
  /// Waits at a time, at most; past it wait() is refused with errc::too_many_waiting.
  std::size_t waiting_max = 262'144;
  /// Different lists of limits and families of counters that are known at a time, at most.
  std::size_t limits_max = 500'000;
  /// Read where a call is made without a time, and by the sweep thread; empty: the system's clock,
  /// which does not follow steps back. Called by any thread, never under a lock; must not throw.
  std::function<time_point()> clock;
  /// Called when run_due() has something to do sooner than it returned: by any thread, possibly
  /// while it decides, so it must not block, throw, or call the limiter. Not again before
  /// run_due().
  std::function<void()> wake;
  /// A thread that calls sweep() as long as the limiter lives.
  bool sweep_thread = false;
  /// Reservations and places that were acquired at a time, at most holds_most; as many are
  /// remembered that are settled, and all together take 512 bytes each on average. Past it
  /// reserve() fails with errc::too_many_holds. 0: there are none, and no memory is used for them.
  std::size_t holds_max = 0;
  /// How long a reservation is held that does not say so itself, 1 us to hold_ttl_max.
  duration hold_ttl = std::chrono::seconds(60);
  /// How long a reservation is known once it is settled or has ended, 1 us to hold_ttl_max.
  duration hold_remember = std::chrono::minutes(10);
};

/// Rate limits and quotas. See the top of this file for what holds for all functions.
class SLUICE_API limiter {
 public:
  /// One without a policy: limits come from code, or by reload later.
  static result<limiter> create(options how = {});
  /// With the `rules:` of a YAML file (docs/policy.md). Its other keys are the server's.
  static result<limiter> from_policy_file(const std::string& path, options how = {});
  /// With the `rules:` of a text. `name` is what messages call it.
  static result<limiter> from_policy_text(std::string_view text, options how = {},
                                          std::string_view name = "policy");

  /// The other one is empty from here on: errc::invalid_argument.
  limiter(limiter&&) noexcept;
  /// Takes the other one's place.
  limiter& operator=(limiter&&) noexcept;
  /// No thread may be in a call. Callbacks of waits that have no answer are not called.
  ~limiter();

  /// The rule of that name; errc::unknown_rule: there is none.
  result<handle> find(std::string_view rule) const noexcept;
  /// Limits in code, 1 to limits_per_counter_max, that share one counter for each key. Counters
  /// belong to `name` and the algorithms: other numbers change the limits of the same counters, as
  /// a reload does, and what was used stays used.
  result<handle> limits(std::string_view name, view<limit_spec> all) noexcept;

  /// Takes the cost, if all limits of the handle allow it. The key of a rule's handle is the value
  /// of its actor; of several values key_of(), of none "".
  decision take(const handle& by, std::string_view key, std::int64_t cost, time_point now) noexcept;
  /// The same at the time of the limiter's clock.
  decision take(const handle& by, std::string_view key, std::int64_t cost = 1) noexcept {
    return take(by, key, cost, now());
  }
  /// What is left, as of `now`; changes nothing, and is allowed even where nothing is left.
  decision peek(const handle& by, std::string_view key, time_point now) noexcept;
  /// What take() would answer; changes nothing.
  decision would_take(const handle& by, std::string_view key, std::int64_t cost,
                      time_point now) noexcept;
  /// Gives units back, to as many as were used. Waits may be granted by it.
  decision put(const handle& by, std::string_view key, std::int64_t units, time_point now) noexcept;
  /// Makes the counter as a fresh one.
  decision reset(const handle& by, std::string_view key, time_point now) noexcept;

  /// Takes all charges, or none if one of them does not fit. Charges of one counter count as their
  /// sum. At most charges_max. `each`: null, or room for a decision for each charge.
  decision take_all(view<struct charge> charges, time_point now, decision* each = nullptr) noexcept;
  /// Takes each charge by itself, in order; `each` has a decision for each. Memory for up to 16 of
  /// them is fetched at a time, so this is faster than one by one where counters are many.
  void take_many(view<struct charge> charges, decision* each, time_point now) noexcept;

  /// Counts units that were used already: takes the cost from all limits of the handle, whatever is
  /// left, and is never refused. A limit that lacks units is in debt then (`over`): it refuses,
  /// also would_take() of 0 units, until it has them again. At most 2^53 - 1 units count as used,
  /// and no more than the limit's overdraft is owed (decision::charged).
  decision charge(const handle& by, std::string_view key, std::int64_t cost,
                  time_point now) noexcept;
  /// Charges all of them. At most charges_max. `each`: null, or room for a decision for each.
  decision charge_all(view<struct charge> charges, time_point now,
                      decision* each = nullptr) noexcept;

  /// Takes by the rules of the policy that the descriptor meets, in their order, all or nothing.
  /// Shadow rules are charged and have no say. At most 256 entries.
  decision take(view<entry> descriptor, std::int64_t cost, time_point now) noexcept;
  /// The same without taking.
  decision peek(view<entry> descriptor, time_point now) noexcept;
  /// What take() would answer.
  decision would_take(view<entry> descriptor, std::int64_t cost, time_point now) noexcept;
  /// Counts units that were used already, by every rule by which a take is charged if all of them
  /// allow it. Where no rule with a counter applies, nothing is counted.
  decision charge(view<entry> descriptor, std::int64_t cost, time_point now) noexcept;
  /// Gives units back.
  decision put(view<entry> descriptor, std::int64_t units, time_point now) noexcept;
  /// Makes the counters as fresh ones.
  decision reset(view<entry> descriptor, time_point now) noexcept;

  /// Takes all charges, or none, as take_all() does, for a while: until commit() says what they
  /// came to, release() gives them back, or the end comes, `ttl` after `now`. Limits see the units
  /// as used. The first decision at or after the end finds them given back, or used where a rule
  /// says `on_expiry: keep`; no call is needed for that. Needs options::holds_max.
  ///
  /// `ttl`: up to hold_ttl_max; 0: options::hold_ttl. A longer one than the `max_ttl` of a rule (10
  /// minutes unless it says otherwise) is cut, see reservation::until. Where a rule says
  /// `max_fraction`, each of its costs is cut to that part of the limit. `each`: null, or room for
  /// the units of each charge that are held. Costs are at most quota_max. Where no rule with a
  /// counter applies, nothing is held under the name.
  reservation reserve(view<struct charge> charges, duration ttl, time_point now,
                      std::int64_t* each = nullptr) noexcept;
  /// The same of the rules of the policy that the descriptor meets: a reservation of one charge.
  /// The overrides that apply now hold for it.
  reservation reserve(view<entry> descriptor, std::int64_t cost, duration ttl,
                      time_point now) noexcept;
  /// Takes places, n of each charge, all or none: units of limits of algorithm::concurrency, of
  /// which at most `quota` are out at a time. They are free again at release(), or when their lease
  /// ends: a holder that works on past that end is one too many, so renew() at a third of the
  /// lease, and stop the work when it says errc::hold_ended. Of other limits beside them, as a
  /// rate, units are taken for good. Needs options::holds_max.
  ///
  /// `lease`: up to hold_ttl_max; 0: as long as the limits say, the shortest of them. A longer one
  /// than the `max_lease` of a rule, or the `window` of a limit in code, is cut, see
  /// reservation::until. `each`: as of reserve(). A refusal's retry_after is the time until enough
  /// leases end if none is renewed. errc::no_places: no limit that applies has places, and nothing
  /// was taken. renew(), extend(), release() go by the name; commit() of a place that has ended is
  /// errc::hold_ended, and else gives it back whole.
  reservation acquire(view<struct charge> charges, duration lease, time_point now,
                      std::int64_t* each = nullptr) noexcept;
  /// The same of the rules of the policy that the descriptor meets: n places.
  reservation acquire(view<entry> descriptor, std::int64_t n, duration lease,
                      time_point now) noexcept;
  /// Takes more: one number for each charge, 0 to quota_max, all or none; and sets the end to `ttl`
  /// after `now`, 0: the ttl that it has. Refused, it is as it was. errc::already_settled,
  /// errc::hold_ended, errc::no_such_hold: it is not held any more, and nothing has changed.
  /// errc::invalid_argument: there are not as many numbers as charges. `each`: as of reserve().
  reservation extend(const hold& its, view<std::int64_t> more, duration ttl, time_point now,
                     std::int64_t* each = nullptr) noexcept;
  /// Sets the end to `ttl` after `now`, also to an earlier one; 0: the ttl that it has. Errors as
  /// of extend().
  reservation renew(const hold& its, duration ttl, time_point now) noexcept;
  /// Says what each charge came to: one number each, 0 to quota_max. Units that were not used go
  /// back to the window that they were taken from, and what is used beyond is charged now, as by
  /// charge(). A reservation that was released, or whose end gave its units back, is charged all of
  /// it (`late`), unless a rule says `late_commit: ignore`: errc::hold_ended. The same commit again
  /// has the same answer (`repeated`), other numbers are errc::already_settled.
  /// errc::no_such_hold: it was never made, or is forgotten; use charge().
  settlement commit(const hold& its, view<std::int64_t> used, time_point now) noexcept;
  /// Gives all units back. Of one that has been released, or has ended, `returned` is 0; of one
  /// that was committed it is errc::already_settled.
  settlement release(const hold& its, time_point now) noexcept;

  /// Takes as soon as there is enough, first come first served for each counter; units that earlier
  /// waits need are not there for later ones, nor for take(). Answers at once if it fits, if it can
  /// never fit, or with an error. Else `callback` is called once, by a thread in run_due(), holding
  /// no lock; it may call every function of the limiter, and destroy it. The wait ends with
  /// errc::timed_out at the first run_due() at or after `deadline`.
  waiting wait(const handle& by, std::string_view key, std::int64_t cost, time_point deadline,
               wait_callback callback, time_point now) noexcept;
  /// The same for several charges, all or nothing.
  waiting wait_all(view<struct charge> charges, time_point deadline, wait_callback callback,
                   time_point now) noexcept;
  /// The same by the policy.
  waiting wait(view<entry> descriptor, std::int64_t cost, time_point deadline,
               wait_callback callback, time_point now) noexcept;
  /// As reserve(), as soon as there is enough: in one queue with waits, and with what holds for
  /// them. It is held from the moment that it gets its units, for its `ttl`.
  reserving wait_reserve(view<struct charge> charges, duration ttl, time_point deadline,
                         reserve_callback callback, time_point now) noexcept;
  /// The same by the policy.
  reserving wait_reserve(view<entry> descriptor, std::int64_t cost, duration ttl,
                         time_point deadline, reserve_callback callback, time_point now) noexcept;
  /// As acquire(), as soon as places are free: released, put back, or at the end of their lease.
  reserving wait_acquire(view<struct charge> charges, duration lease, time_point deadline,
                         reserve_callback callback, time_point now) noexcept;
  /// The same by the policy.
  reserving wait_acquire(view<entry> descriptor, std::int64_t n, duration lease,
                         time_point deadline, reserve_callback callback, time_point now) noexcept;
  /// Ends a wait without its callback. False: it has its answer, and the callback was or will be
  /// called.
  bool cancel(wait_id id, time_point now) noexcept;
  /// Ends reservations whose end has come, answers waits that are due, and calls their callbacks.
  /// An exception of a callback is swallowed.
  due run_due(time_point now) noexcept;
  /// The same at the time of the limiter's clock.
  due run_due() noexcept { return run_due(now()); }

  /// Puts other rules in force, at once for all threads. Counters stay; rules are the same if name
  /// and actor are. An error leaves the rules as they are. Decisions of other threads are held up
  /// while pointers are exchanged. What waits is matched by the new rules in its order.
  result<policy_report> reload_text(std::string_view text, time_point now,
                                    std::string_view name = "policy") noexcept;
  /// The same of a file.
  result<policy_report> reload_file(const std::string& path, time_point now) noexcept;

  /// Puts limits in place of a rule's for an actor; replaces what the same rule and actor had.
  result<void> set_override(const override_spec& one, time_point now) noexcept;
  /// errc::not_found: there is none.
  result<void> remove_override(std::string_view rule, const std::vector<std::string>& actor,
                               time_point now) noexcept;
  /// All that are set and have not ended, by rule and actor.
  result<std::vector<override_spec>> overrides(time_point now) const noexcept;

  /// Forgets counters that equal fresh ones, limits that nothing names, and overrides that have
  /// ended; ends reservations. Looks at `steps` places of the table, each with a counter on
  /// average, and goes on there next time. `now` must not be later than that of any decision still
  /// to be made.
  void sweep(std::size_t steps, time_point now) noexcept;

  /// What it holds, and has done.
  limiter_stats stats() const noexcept;
  /// The limiter's clock.
  time_point now() const noexcept;
  /// The key of an actor with several values.
  static std::string key_of(view<std::string_view> values);

 private:
  friend class durable;
  explicit limiter(std::shared_ptr<detail::core> its_core) noexcept;
  std::shared_ptr<detail::core> core_;
};

}  // namespace sluice

#endif
