// Imports of counters into a store that may have some already (disk/importer.h).
#include "disk/importer.h"

#include <gtest/gtest.h>

#include "disk/folder_test.h"
#include "disk/tools.h"

namespace sluice::disk {
namespace {

constexpr int64_t import_now_us = 1'700'000'000'000'000;
using Added = Importer::Added;

class ImporterTest : public testing::Test {
 protected:
  ImporterTest() {
    request::Space like;
    like.keep_fresh_for = base::seconds(5);
    space_ = spaces_.intern("new:", "", like);
  }
  std::unique_ptr<Importer> open() {
    std::unique_ptr<Importer> importer;
    EXPECT_TRUE(succeeds(Importer::open(folder_.path(), base::Time{import_now_us}, spaces_),
                         importer, problem_))
        << problem_;
    return importer;
  }
  Added add(Importer& importer, const std::string& key, int64_t left_us) {
    Added added{};
    EXPECT_TRUE(succeeds(importer.add(*space_, limits_, key, {import_now_us + left_us, 7}), added,
                         problem_))
        << problem_;
    return added;
  }
  KeptByKey kept() {
    KeptByKey all;
    EXPECT_TRUE(succeeds(dump(folder_.path(), spaces_, collect(all)), problem_)) << problem_;
    return all;
  }

  Folder folder_;
  request::Spaces spaces_;
  std::string problem_;
  const request::Space* space_ = nullptr;
  const limit::Limit limit_{limit::Algorithm::token_bucket, 2, base::seconds(1), 10};
  const uint32_t limits_ = spaces_.intern_limits({&limit_, 1});
};

TEST_F(ImporterTest, KeepsCountersThatTheStoreHas) {
  {
    const auto importer = open();
    EXPECT_EQ(add(*importer, "a", 1'000'000), Added::yes);
    EXPECT_EQ(add(*importer, "b", INT64_MAX - import_now_us), Added::yes);
    EXPECT_TRUE(succeeds(importer->finish(), problem_)) << problem_;
  }
  const KeptByKey before = kept();
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before.at({space_, "a"}),
            (Kept{{{import_now_us + 1'000'000, 7}}, limits_, import_now_us + 6'000'000}));
  EXPECT_EQ(before.at({space_, "b"}).forget_us, INT64_MAX);
  {
    const auto importer = open();
    EXPECT_EQ(add(*importer, "a", 9'000'000), Added::there);
    EXPECT_EQ(add(*importer, "c", 1), Added::yes);
    EXPECT_TRUE(succeeds(importer->finish(), problem_)) << problem_;
  }
  const KeptByKey after = kept();
  EXPECT_EQ(after.size(), 3u);
  EXPECT_EQ(after.at({space_, "a"}), before.at({space_, "a"}));
}

TEST_F(ImporterTest, CommitsNothingBeforeItIsFinished) {
  {
    const auto importer = open();
    EXPECT_EQ(add(*importer, "a", 1'000'000), Added::yes);
    // An importer holds the directory's lock as long as it exists.
    request::Spaces other;
    const auto again = Importer::open(folder_.path(), base::Time{import_now_us}, other);
    ASSERT_FALSE(again);
    EXPECT_NE(again.problem().text.find("in use"), std::string::npos) << again.problem().text;
  }
  EXPECT_EQ(kept().size(), 0u);
}

}  // namespace
}  // namespace sluice::disk
