/* The C interface over a directory: takes one unit of a limit of two in each run, and commits.
 *
 *   durable_program DIRECTORY [null]      prints what remains, or the error
 *
 * With `null` it is opened without a directory.
 */
#include <sluice/sluice_durable.h>
#include <stdio.h>
#include <string.h>

static void tell(void* data, const char* text) {
  ++*(int*)data;
  fprintf(stderr, "%s\n", text);
}

int main(int count, char** words) {
  int told = 0;
  sluice_error error;
  const sluice_limit two = {2, 0, 0, SLUICE_FIXED_BUCKET, 0};
  sluice_durable_options where;
  sluice_durable* durable;
  sluice_limiter* limiter;
  sluice_handle* by;
  sluice_decision d;
  if (count < 2) return 2;
  memset(&where, 0, sizeof where);
  where.size = sizeof where;
  where.directory = count > 2 ? NULL : words[1];
  where.tell = tell;
  where.tell_data = &told;
  if (sluice_durable_open(NULL, NULL, &error) != NULL || error.code != SLUICE_INVALID_ARGUMENT) return 1;
  if (sluice_durable_commit(NULL, NULL) != SLUICE_INVALID_ARGUMENT) return 1;
  if (sluice_durable_limiter(NULL) != NULL) return 1;
  sluice_durable_close(NULL);
  durable = sluice_durable_open(&where, NULL, &error);
  if (durable == NULL) {
    printf("%s: %s\n", sluice_error_name(error.code), error.message);
    return 3;
  }
  limiter = sluice_durable_limiter(durable);
  by = sluice_limits(limiter, "c", &two, 1, &error);
  sluice_take(limiter, by, "k", 1, 1, sluice_now(limiter), &d);
  if (sluice_durable_commit(durable, &error) != SLUICE_OK) return 1;
  printf("%s, %d left\n", d.allowed ? "taken" : "denied", (int)d.remaining);
  sluice_handle_destroy(by);
  sluice_durable_close(durable);
  return told == 0 ? 0 : 1;
}
