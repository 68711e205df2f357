// Where zone data come from: a folder, $TZDIR, the system's, a copy in the program; names.
#include "base/zone_data.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "testing/zone_folder.h"

namespace sluice::base::zone_data_test {
namespace {

using Names = std::vector<std::string>;

class Folder : public tests::ZoneFolder {
 public:
  Folder() {
    put("tzdata.zi", "# version 1999x\nR C 1 2\nZ Europe/Berlin 1 - CET\n");
    put("UTC", "TZif of utc");
    for (const char* name : {"Europe/Berlin", "America/Berlin", "Atlantic/Jan_Mayen"})
      put(name, "TZif of berlin");
    for (const char* none : {"posix/UTC", "right/Europe/Berlin", "zone.tab", "a.b/UTC"})
      put(none, "TZif of berlin");
    put("Europe/Text", "no zone");
  }
};

TEST(ZoneData, AFolderThatIsNamed) {
  const Folder folder;
  const ZoneData data = ZoneData::find(folder.path());
  ASSERT_TRUE(data.has_data());
  EXPECT_EQ(data.version(), "1999x");
  EXPECT_EQ(data.text(), "1999x, " + folder.path());
  EXPECT_EQ(data.read("Europe/Berlin"), "TZif of berlin");
  for (const char* none : {"Europe/Text", "Europe", "Europe/Paris", "", "/UTC", "../UTC", "UTC/",
                           "Europe//Berlin", "posix/UTC", "tzdata.zi"})
    EXPECT_EQ(data.read(none), "") << none;
  EXPECT_EQ(data.names(), (Names{"America/Berlin", "Atlantic/Jan_Mayen", "Europe/Berlin", "UTC"}));
  EXPECT_EQ(ZoneData::find(folder.path() + "/").names(), data.names());
}

TEST(ZoneData, AFolderWithoutDataIsNotReplaced) {
  const tests::ZoneFolder empty;
  EXPECT_FALSE(ZoneData::find(empty.path()).has_data());
  EXPECT_EQ(ZoneData::find(empty.path()).text(), "none");
}

TEST(ZoneData, NamesLikeIt) {
  const Folder folder;
  const ZoneData data = ZoneData::find(folder.path());
  EXPECT_EQ(data.names_near("europe/berlin").front(), "Europe/Berlin");
  EXPECT_EQ(data.names_near("Berlin"), (Names{"America/Berlin", "Europe/Berlin"}));
  EXPECT_EQ(data.names_near("Europe/Berln").front(), "Europe/Berlin");
  EXPECT_EQ(data.names_near("Jan_Mayen"), Names{"Atlantic/Jan_Mayen"});
  EXPECT_EQ(data.names_near("Qqqq"), Names{});
  EXPECT_EQ(data.names_near(std::string(1000, 'x')), Names{});
}

// $TZDIR goes before the system's folder; one without data is passed over.
TEST(ZoneData, TheEnvironmentNamesAFolder) {
  const Folder folder;
  const tests::ZoneFolder empty;
  ASSERT_EQ(::setenv("TZDIR", folder.path().c_str(), 1), 0);
  EXPECT_EQ(ZoneData::find({}).version(), "1999x");
  // Empty, nowhere, a file, a folder without data, one whose UTC is no zone: the system's.
  const tests::ZoneFolder broken;
  broken.put("UTC", "no zone");
  broken.put("Europe/Berlin", "TZif of berlin");
  for (const std::string& none : {std::string(), std::string("/nowhere"), folder.path() + "/UTC",
                                  empty.path(), broken.path()}) {
    ASSERT_EQ(::setenv("TZDIR", none.c_str(), 1), 0);
    EXPECT_TRUE(ZoneData::find({}).text().ends_with(", system")) << none;
  }
  ASSERT_EQ(::unsetenv("TZDIR"), 0);
}

TEST(ZoneData, SoundNames) {
  for (const char* name : {"UTC", "Etc/GMT+1", "Etc/GMT-14", "America/Argentina/Buenos_Aires",
                           "America/Port-au-Prince", "GB-Eire", "NZ-CHAT"})
    EXPECT_TRUE(sound_zone_name(name)) << name;
  for (const std::string name :
       {"", "a b", "a.b", "a\\b", "Europe/", "/x", "a//b", "right/UTC", "posix/UTC", "\n", "ä"})
    EXPECT_FALSE(sound_zone_name(name)) << name;
  EXPECT_TRUE(sound_zone_name(std::string(64, 'a')));
  EXPECT_FALSE(sound_zone_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace sluice::base::zone_data_test
