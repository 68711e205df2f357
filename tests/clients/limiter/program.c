/* The C interface in a C program: takes three times from a limit of two units, waits for one more,
 * and is called when that is granted; reserves it, and gives it back. */
#include <sluice/sluice.h>
#include <stdio.h>
#include <string.h>

static void granted(void* data, uint64_t id, const sluice_decision* decision) {
  (void)id;
  *(int*)data += decision->allowed;
}

int main(void) {
  sluice_error error;
  const sluice_options options = {.size = sizeof options, .holds_max = 1};
  sluice_limiter* const limiter = sluice_create(&options, &error);
  const sluice_limit two = {2, 0, 0, SLUICE_FIXED_BUCKET, 0};
  sluice_handle* const by = sluice_limits(limiter, "c", &two, 1, &error);
  const int64_t now = sluice_now(limiter);
  const sluice_charge charge = {by, "k", 1, 1};
  sluice_decision d;
  uint64_t id = 0;
  int allowed = 0, called = 0;
  for (int i = 0; i < 3; ++i) {
    sluice_take(limiter, by, "k", 1, 1, now, &d);
    allowed += d.allowed;
  }
  sluice_wait(limiter, &charge, 1, now + 1000000, granted, &called, now, &d, &id);
  sluice_put(limiter, by, "k", 1, 1, now, NULL);
  sluice_run_due(limiter, now, NULL);
  sluice_hold hold;
  sluice_settlement settled = {0};
  sluice_put(limiter, by, "k", 1, 1, now, NULL);
  sluice_reserve(limiter, &charge, 1, 0, now, NULL, NULL, NULL, &hold);
  sluice_release(limiter, &hold, now, &settled, NULL);
  printf("%s: %d allowed, %d called\n", sluice_version(), allowed, called);
  sluice_handle_destroy(by);
  sluice_destroy(limiter);
  return allowed == 2 && id != 0 && called == 1 && settled.returned == 1 ? 0 : 1;
}
