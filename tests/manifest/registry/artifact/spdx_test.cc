#include "manifest/registry/artifact/spdx.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Spdx, SpellsTheHubsIdentifiersAsSpdxDoes) {
  EXPECT_THAT(SpdxNames({"apache-2.0", "", ""}), ElementsAre("Apache-2.0"));
  EXPECT_THAT(SpdxNames({"MIT", "", ""}), ElementsAre("MIT"));
  EXPECT_THAT(SpdxNames({"mit, cc-by-nc-sa-4.0", "", ""}), ElementsAre("MIT", "CC-BY-NC-SA-4.0"));
}

TEST(Spdx, UsesALicenseRefForUnlistedLicences) {
  EXPECT_THAT(SpdxNames({"llama3.1", "", ""}), ElementsAre("LicenseRef-llama3.1"));
  EXPECT_THAT(SpdxNames({"other", "Kimi K2 (modified MIT)", ""}),
              ElementsAre("LicenseRef-Kimi-K2--modified-MIT-"));
  EXPECT_THAT(SpdxNames({"other", "", "https://example.com"}), ElementsAre("LicenseRef-other"));
  EXPECT_THAT(SpdxNames({"", "own", ""}), ElementsAre("LicenseRef-own"));
}

TEST(Spdx, HasNoNameForAModelWithoutALicence) {
  EXPECT_THAT(SpdxNames({}), IsEmpty());
  EXPECT_THAT(SpdxNames({"", "", "https://example.com"}), IsEmpty());
}

}  // namespace
}  // namespace moepack::registry
