// The C interface (include/sluice/sluice.h): each argument that is out of its range is refused, and
// each result is set whatever comes of the call.
#include <gtest/gtest.h>
#include <sluice/sluice.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace sluice::c_api_test {

constexpr int64_t now = 1'000'000;
constexpr sluice_limit two{2, 60'000'000, 0, SLUICE_FIXED_WINDOW, 0};
constexpr char policy[] =
    "rules: [{ name: r, match: { ip: \"*\" }, actor: ip, limit: { quota: 2, window: 1m } }]";

void ignore(void*, uint64_t, const sluice_decision*) {}

class CApi : public testing::Test {
 protected:
  CApi()
      : limiter_(sluice_create_from_text(policy, sizeof policy - 1, nullptr, nullptr, &error_)),
        by_(sluice_limits(limiter_, "c", &two, 1, &error_)) {
    EXPECT_NE(by_, nullptr) << error_.message;
  }
  ~CApi() override {
    sluice_handle_destroy(by_);
    sluice_destroy(limiter_);
  }
  CApi(const CApi&) = delete;
  CApi& operator=(const CApi&) = delete;

  int64_t left(const char* key, size_t bytes) {
    sluice_decision d{};
    EXPECT_EQ(sluice_peek(limiter_, by_, key, bytes, now, &d), SLUICE_OK);
    return d.remaining;
  }

  sluice_error error_{};
  sluice_limiter* const limiter_;
  sluice_handle* const by_;
};

TEST_F(CApi, Decides) {
  EXPECT_EQ(error_.code, SLUICE_OK);
  sluice_decision d;
  EXPECT_EQ(sluice_take(limiter_, by_, "k", 1, 2, now, &d), SLUICE_OK);
  EXPECT_EQ(d.allowed, 1);
  EXPECT_EQ(sluice_take(limiter_, by_, "k", 1, 1, now, &d), SLUICE_OK);
  EXPECT_EQ(d.allowed, 0);
  EXPECT_EQ(d.retry_after_us, 60'000'000);
  EXPECT_EQ(sluice_take(limiter_, by_, "k", 1, -1, now, nullptr), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_take(nullptr, by_, "k", 1, 1, 1, &d), SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_limits(limiter_, "c", &two, 0, &error_), nullptr);
  EXPECT_EQ(error_.code, SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::strlen(error_.message), 0u);
  EXPECT_EQ(sluice_create_from_text("rules: 1", 8, nullptr, nullptr, &error_), nullptr);
  EXPECT_EQ(error_.code, SLUICE_POLICY);
  EXPECT_STREQ(sluice_error_name(SLUICE_TIMED_OUT), "timed_out");
  EXPECT_STREQ(sluice_error_name(99), "unknown");
}

TEST_F(CApi, ANullKeyWithALengthIsRefused) {
  sluice_decision d{};
  const auto refused = [&](int32_t code) {
    return code == SLUICE_INVALID_ARGUMENT && d.error == SLUICE_INVALID_ARGUMENT && d.allowed == 0;
  };
  EXPECT_TRUE(refused(sluice_take(limiter_, by_, nullptr, 3, 1, now, &d)));
  EXPECT_TRUE(refused(sluice_peek(limiter_, by_, nullptr, 3, now, &d)));
  EXPECT_TRUE(refused(sluice_would_take(limiter_, by_, nullptr, 3, 1, now, &d)));
  EXPECT_TRUE(refused(sluice_put(limiter_, by_, nullptr, 3, 1, now, &d)));
  EXPECT_TRUE(refused(sluice_reset(limiter_, by_, nullptr, 3, now, &d)));
  EXPECT_TRUE(refused(sluice_charge_key(limiter_, by_, nullptr, 3, 1, now, &d)));
  EXPECT_EQ(left(nullptr, 0), 2);  // an empty key is a key
  EXPECT_EQ(sluice_take(limiter_, by_, nullptr, 0, 1, now, &d), SLUICE_OK);
  EXPECT_EQ(left("", 0), 1);
}

TEST_F(CApi, ANullKeyAmongChargesIsRefused) {
  const std::array<sluice_charge, 2> charges{{{by_, "k", 1, 1}, {by_, nullptr, 3, 1}}};
  std::array<sluice_decision, 2> each{};
  sluice_decision d{};
  EXPECT_EQ(sluice_take_all(limiter_, charges.data(), 2, now, each.data(), &d),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_charge_all(limiter_, charges.data(), 2, now, each.data(), &d),
            SLUICE_INVALID_ARGUMENT);
  uint64_t id = 7;
  EXPECT_EQ(sluice_wait(limiter_, charges.data(), 2, now + 1, ignore, nullptr, now, &d, &id),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(left("k", 1), 2);
  // Each by itself: the others are taken.
  EXPECT_EQ(sluice_take_many(limiter_, charges.data(), 2, now, each.data()), SLUICE_OK);
  EXPECT_EQ(each[0].allowed, 1);
  EXPECT_EQ(each[1].error, SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(left("", 0), 2);
}

TEST_F(CApi, ANullTextOfADescriptorIsRefused) {
  sluice_decision d{};
  for (const sluice_entry& wrong :
       {sluice_entry{nullptr, 2, "1", 1}, sluice_entry{"ip", 2, nullptr, 1}}) {
    const auto refused = [&](int32_t code) {
      return code == SLUICE_INVALID_ARGUMENT && d.error == SLUICE_INVALID_ARGUMENT;
    };
    EXPECT_TRUE(refused(sluice_take_matching(limiter_, &wrong, 1, 1, now, &d)));
    EXPECT_TRUE(refused(sluice_peek_matching(limiter_, &wrong, 1, now, &d)));
    EXPECT_TRUE(refused(sluice_would_take_matching(limiter_, &wrong, 1, 1, now, &d)));
    EXPECT_TRUE(refused(sluice_put_matching(limiter_, &wrong, 1, 1, now, &d)));
    EXPECT_TRUE(refused(sluice_reset_matching(limiter_, &wrong, 1, now, &d)));
    EXPECT_TRUE(refused(sluice_charge_matching(limiter_, &wrong, 1, 1, now, &d)));
    uint64_t id = 7;
    EXPECT_TRUE(refused(
        sluice_wait_matching(limiter_, &wrong, 1, 1, now + 1, ignore, nullptr, now, &d, &id)));
    EXPECT_EQ(id, 0u);
  }
}

TEST_F(CApi, ANullTextOfAnActorIsRefused) {
  const char* const nothing[] = {nullptr};
  EXPECT_EQ(sluice_set_override(limiter_, "r", nothing, 1, &two, 1, now + 9, now, &error_),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_EQ(sluice_remove_override(limiter_, "r", nothing, 1, now, &error_),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error_.message).find("actor"), std::string::npos) << error_.message;
}

TEST_F(CApi, TheNumberOfAWaitIsSetWhateverComesOfIt) {
  const sluice_charge charge{by_, "k", 1, 1};
  const std::vector<sluice_charge> many(65, charge);
  sluice_decision d{};
  const auto id_of = [&](auto&& ask) {
    uint64_t id = 7;
    ask(&id);
    return id;
  };
  const auto wait = [&](sluice_limiter* limiter, const sluice_charge* charges, size_t count,
                        sluice_wait_callback callback) {
    return id_of([&](uint64_t* id) {
      sluice_wait(limiter, charges, count, now + 1, callback, nullptr, now, &d, id);
    });
  };
  EXPECT_EQ(wait(nullptr, &charge, 1, ignore), 0u);
  EXPECT_EQ(wait(limiter_, nullptr, 1, ignore), 0u);
  EXPECT_EQ(wait(limiter_, &charge, 1, nullptr), 0u);
  EXPECT_EQ(wait(limiter_, many.data(), many.size(), ignore), 0u);
  EXPECT_EQ(wait(limiter_, &charge, 1, ignore), 0u);  // granted at once
  EXPECT_EQ(wait(limiter_, &charge, 1, ignore), 0u);
  EXPECT_NE(wait(limiter_, &charge, 1, ignore), 0u);
  EXPECT_EQ(id_of([&](uint64_t* id) {
              sluice_wait_matching(nullptr, nullptr, 0, 1, now + 1, ignore, nullptr, now, &d, id);
            }),
            0u);
}

TEST_F(CApi, TheDecisionOfEachChargeIsSetWhateverComesOfThem) {
  const sluice_charge charge{by_, "k", 1, 1};
  const std::vector<sluice_charge> many(65, charge);
  std::vector<sluice_decision> each(many.size());
  const auto are_refused = [&](size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (each[i].allowed != 0 || each[i].error != SLUICE_INVALID_ARGUMENT) return false;
    return true;
  };
  const auto forget = [&] { each.assign(many.size(), {1, 1, 0, 0, 1, 1, 0, 0}); };
  for (auto* const decide : {sluice_take_all, sluice_charge_all}) {
    forget();
    EXPECT_EQ(decide(limiter_, many.data(), many.size(), now, each.data(), nullptr),
              SLUICE_INVALID_ARGUMENT);
    EXPECT_TRUE(are_refused(many.size()));
    forget();
    EXPECT_EQ(decide(nullptr, &charge, 1, now, each.data(), nullptr), SLUICE_INVALID_ARGUMENT);
    EXPECT_TRUE(are_refused(1));
  }
  EXPECT_EQ(left("k", 1), 2);
}

TEST_F(CApi, TheNextTimeIsSetWithoutALimiter) {
  int64_t next = 7;
  EXPECT_EQ(sluice_run_due(nullptr, now, &next), 0u);
  EXPECT_EQ(next, SLUICE_LATEST_TIME);
}

TEST_F(CApi, WindowsOfTheCalendarHaveNumbers) {
  const int32_t utc = sluice_calendar("month,month_day=9", &error_);
  EXPECT_GT(utc, 0) << error_.message;
  EXPECT_EQ(sluice_calendar("month@UTC,month_day=9", nullptr), utc);
  EXPECT_NE(sluice_calendar("month@UTC", nullptr), utc);
  char text[64];
  EXPECT_EQ(sluice_calendar_text(utc, text, sizeof text), 21u);
  EXPECT_STREQ(text, "month@UTC,month_day=9");
  EXPECT_EQ(sluice_calendar_text(utc, text, 6), 21u);
  EXPECT_STREQ(text, "month");
  EXPECT_EQ(sluice_calendar_text(utc, nullptr, 0), 21u);
  EXPECT_EQ(sluice_calendar_text(0, text, sizeof text), 0u);
  for (const char* wrong : {"", "30d", "month@Europe/Atlantis", "day@UTC,month_day=9"}) {
    EXPECT_EQ(sluice_calendar(wrong, &error_), 0) << wrong;
    EXPECT_EQ(error_.code, SLUICE_INVALID_ARGUMENT);
    EXPECT_STRNE(error_.message, "");
  }
  EXPECT_EQ(sluice_calendar(nullptr, &error_), 0);

  sluice_limit limit{};
  limit.quota = 3;
  limit.calendar = utc;
  sluice_handle* const by = sluice_limits(limiter_, "calendar", &limit, 1, &error_);
  ASSERT_NE(by, nullptr) << error_.message;
  // 2026-03-15T00:00:00Z, in the window from 03-09 to 04-09.
  const int64_t march = 1'773'532'800'000'000, day = 86'400'000'000;
  sluice_decision told{};
  EXPECT_EQ(sluice_take(limiter_, by, "k", 1, 2, march, &told), 0);
  EXPECT_EQ(told.allowed, 1);
  EXPECT_EQ(told.remaining, 1);
  EXPECT_EQ(told.reset_after_us, 25 * day);
  EXPECT_EQ(sluice_take(limiter_, by, "k", 1, 2, march, &told), 0);
  EXPECT_EQ(told.allowed, 0);
  EXPECT_EQ(sluice_take(limiter_, by, "k", 1, 2, march + 25 * day, &told), 0);
  EXPECT_EQ(told.allowed, 1);
  sluice_handle_destroy(by);
  limit.window_us = 1;
  EXPECT_EQ(sluice_limits(limiter_, "calendar", &limit, 1, &error_), nullptr);
  EXPECT_STREQ(error_.message, "limits[0]: a window of the calendar has no length; leave it 0");
}

TEST_F(CApi, WhatIsReservedMustBe0) {
  sluice_limit limit = two;
  limit.calendar = 1'000'000;  // a number that sluice_calendar() has not given
  EXPECT_EQ(sluice_limits(limiter_, "d", &limit, 1, &error_), nullptr);
  EXPECT_EQ(error_.code, SLUICE_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "limits[0].calendar must be 0 or a number of sluice_calendar()");
  const char* const actor[] = {"1"};
  EXPECT_EQ(sluice_set_override(limiter_, "r", actor, 1, &limit, 1, now + 9, now, &error_),
            SLUICE_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "limits[0].calendar must be 0 or a number of sluice_calendar()");

  sluice_options options{};
  options.size = sizeof options;
  options.reserved = 1;
  EXPECT_EQ(sluice_create(&options, &error_), nullptr);
  EXPECT_STREQ(error_.message, "sluice_options::reserved must be 0");
  EXPECT_EQ(sluice_create_from_text(policy, sizeof policy - 1, nullptr, &options, &error_),
            nullptr);
  EXPECT_EQ(sluice_create_from_file("/dev/null", &options, &error_), nullptr);
  EXPECT_EQ(error_.code, SLUICE_INVALID_ARGUMENT);
}

TEST_F(CApi, OptionsOfOtherVersions) {
  struct Later {
    sluice_options known;
    int64_t more;
  } later{};
  const auto is_made = [&](size_t size) {
    later.known.size = size;
    sluice_limiter* const made = sluice_create(&later.known, &error_);
    sluice_destroy(made);
    return made != nullptr;
  };
  EXPECT_TRUE(is_made(sizeof later));
  EXPECT_TRUE(is_made(sizeof later.known));
  later.more = 1;
  EXPECT_TRUE(is_made(sizeof later.known));
  EXPECT_FALSE(is_made(sizeof later));
  EXPECT_STREQ(error_.message,
               "sluice_options asks for what this version of the library does not have");
  // An earlier version ends before `sweep_thread`.
  later.known.reserved = 1;
  EXPECT_TRUE(is_made(offsetof(sluice_options, sweep_thread)));
  for (const size_t none : {size_t{0}, size_t{4}, SIZE_MAX}) {
    EXPECT_FALSE(is_made(none));
    EXPECT_STREQ(error_.message, "sluice_options::size must be sizeof(sluice_options)");
  }
}

}  // namespace sluice::c_api_test
