// The ids of charges, so that a charge that is sent again is answered as the first time and counted
// once. One memory for a server, shared by its workers and by all protocols whose charges may have
// ids: a client may send a charge again over another protocol. Any thread.
//
//   under way    the first request has no answer yet; never forgotten for lack of room
//   remembered   for Bounds::remember from its answer on. Past Bounds::bytes the oldest are
//                forgotten first: those of the user that adds one if it holds more than its part,
//                else those of all. What is forgotten is unknown: a charge that is sent again after
//                that is counted again.
//   failed       a charge that was not decided (Claim dropped) is unknown at once
//
// The memory is that of a process: a restart forgets it, and no other server knows it. A store on
// disk or in Redis keeps ids beside it, with what they charged (request::Group::id).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "limit/limit.h"
#include "request/request.h"

namespace sluice::request {

// 16 to 64 of `A-Z a-z 0-9 _ -`.
inline constexpr size_t charge_id_bytes_min = 16, charge_id_bytes_max = 64;
bool is_charge_id(std::string_view id);

// What a charge asks for, as a number that is the same over each protocol: its subjects in order,
// their entries in any order, and their units.
//
// The number is a hash of 64 bits that anybody can compute, so two contents with one number can be
// made. The second of them, under an id of the same user, is answered as the first and not counted:
// its sender could as well not have sent it. So no digest that withstands this is needed, and the
// libraries that other programs link need no cryptography.
class ChargeContent {
 public:
  // Begins the next subject: one of entries, or the counter `key` with limits of its own.
  void add_entries(std::vector<Entry> entries, int64_t n);
  void add_key(std::string_view key, int64_t n);
  // Of the key. `overdraft`: as limit::Overdrafts has it.
  void add_limit(const limit::Limit& limit, bool counts, int64_t overdraft);

  uint64_t digest() const;

 private:
  void add_number(int64_t number);
  void add_text(std::string_view text);

  std::string text_;
};

class ChargeIds {
 public:
  struct Bounds {
    base::Duration remember = base::seconds(600);
    size_t bytes = size_t{64} << 20;
    size_t user_part = 8;  // a user may use the bytes divided by this; without users all of them
  };

  ChargeIds();
  explicit ChargeIds(const Bounds& bounds);
  ~ChargeIds();
  ChargeIds(const ChargeIds&) = delete;
  ChargeIds& operator=(const ChargeIds&) = delete;

  // An id whose first request is under way. Belongs to that request; the memory outlives it.
  class Claim {
   public:
    Claim() = default;
    Claim(Claim&& other) noexcept
        : ids_(std::exchange(other.ids_, nullptr)), entry_(std::exchange(other.entry_, nullptr)) {}
    Claim& operator=(Claim&& other) noexcept {
      drop();
      ids_ = std::exchange(other.ids_, nullptr);
      entry_ = std::exchange(other.entry_, nullptr);
      return *this;
    }
    ~Claim() { drop(); }

    explicit operator bool() const { return ids_ != nullptr; }
    // Remembers the answer. `now`: monotonic.
    void finish(std::string answer, base::Time now);
    // Forgets the id: the charge was not decided, and may be sent again.
    void drop();

   private:
    friend class ChargeIds;
    Claim(ChargeIds& ids, void* entry) : ids_(&ids), entry_(entry) {}

    ChargeIds* ids_ = nullptr;
    void* entry_ = nullptr;
  };

  enum class Found : uint8_t {
    unknown,        // nothing of the id is known
    first,          // by `claim` alone: it was unknown, and `claim` names it now
    under_way,      // the first request has no answer yet
    remembered,     // `answer` is that of the first request
    other_content,  // the id was used with another content
    full,           // by `claim` alone: charges under way take all room
  };

  // Looks the id up, and claims it if it is unknown. `user`: empty if the server has no users.
  // `now`: monotonic.
  Found claim(std::string_view user, std::string_view id, uint64_t content, base::Time now,
              Claim& claim);
  // Looks it up. `answer` is set if it is remembered.
  Found find(std::string_view user, std::string_view id, uint64_t content, base::Time now,
             std::string& answer) const;

  struct Figures {
    size_t remembered = 0, under_way = 0, bytes = 0;
    uint64_t repeated = 0;   // lookups by `find` that found an answer
    uint64_t forgotten = 0;  // ids that were forgotten before their time
  };
  Figures figures() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace sluice::request
