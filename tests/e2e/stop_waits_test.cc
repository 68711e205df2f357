// The end of the real server while requests wait for units: each gets an answer, and so do those
// that were sent behind it.
#include <gtest/gtest.h>

#include "tests/support/stopped_waits.h"

namespace sluice::tests {
namespace {

TEST(StopWithWaits, AnswersThemAndWhatIsBehindThemWithCountersInMemory) {
  const Folder folder;
  StoppedWaits(folder, "").expect_answers();
}

TEST(StopWithWaits, AnswersThemAndWhatIsBehindThemWithCountersOnDisk) {
  const Folder folder;
  StoppedWaits(folder, "store: { path: data }\n").expect_answers();
  const Folder synced;
  StoppedWaits(synced, "store: { path: data, durability: always }\n").expect_answers();
}

}  // namespace
}  // namespace sluice::tests
