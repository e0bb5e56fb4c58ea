// Distributions that several machines made, each from the refit of its own groups.
#include <gmock/gmock.h>

#include "manifest/write/join_parts.h"
#include "tests/manifest/document/refitted_tiny.h"
#include "tests/manifest/write/join_sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

// The three groups of tiny-moe are refitted alike, wherever that is.
class JoinRefitParts : public JoinTest {
 protected:
  // From the store of these groups, or of all if there are none.
  void WriteRefitted(const std::string& name, const std::vector<uint32_t>& groups,
                     const std::vector<std::string>& parts,
                     const std::string& instructions = "none") {
    StoreOptions store = tiny::Changed();
    if (!groups.empty()) {
      const MoeModel model = tiny::Model();
      store.part = SamplePart(tiny::Plan(model), groups);
      store.part->instructions = instructions;
    }
    const auto written = tiny::WriteRefitted(dir_ / name, store, "", tiny::PlanOptions(), parts);
    ASSERT_TRUE(written) << written.error().message;
  }
  Manifest Read(const std::string& name) { return *ReadManifest((dir_ / name).string()); }
};

TEST_F(JoinRefitParts, MakeWhatOneRunMakesFromTheWholeStore) {
  WriteRefitted("whole", {}, {});
  WriteRefitted("a", {0}, {"trunk", "group:0"});
  WriteRefitted("b", {1, 2}, {"group:1", "assets"});
  WriteRefitted("c", {2}, {"group:2", "overlay"});
  EXPECT_NE(Read("a").versions.refit, Read("whole").versions.refit);
  const auto joined = Join({"c", "a", "b"});
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
}

TEST_F(JoinRefitParts, NeedTheRefitOfEveryGroup) {
  WriteRefitted("a", {0}, {"trunk", "group:0"});
  WriteRefitted("b", {1}, {"group:1", "assets"});
  const Error error = Refusal({"a", "b"});
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("a: refit: expected all groups in the parts together, found "
                                       "none of group 2 in layer 0"));
}

// One machine may write the parts of its node one after the other.
TEST_F(JoinRefitParts, OfOneStoreMakeWhatOneRunMakesFromIt) {
  WriteRefitted("once", {0}, {"trunk", "group:0", "assets"});
  WriteRefitted("a", {0}, {"trunk"});
  WriteRefitted("b", {0}, {"group:0", "assets"});
  ASSERT_TRUE(Join({"a", "b"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "once"));
  WriteRefitted("whole", {}, {});
  WriteRefitted("c", {1, 2}, {"group:1", "group:2", "overlay"});
  ASSERT_TRUE(Join({"out", "c"}, "all"));
  EXPECT_TRUE(tiny::Tree(dir_ / "all") == tiny::Tree(dir_ / "whole"));
}

// Their stores could not be joined either.
TEST_F(JoinRefitParts, OfMachinesThatRoundDifferentlyAreRefused) {
  WriteRefitted("a", {0, 1}, {"trunk", "group:0"});
  WriteRefitted("b", {2}, {"group:2"}, "wide");
  const Error error = Refusal({"a", "b"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("b: parameter instructions: expected none, found wide"));
  EXPECT_THAT(error.hint, HasSubstr("expected as in " + (dir_ / "a").string()));
}

TEST_F(JoinRefitParts, DoNotFitWhatWasMadeFromAWholeRefit) {
  WriteRefitted("a", {0}, {"trunk", "group:0"});
  WriteRefitted("b", {}, {"group:1", "group:2"});
  for (const char* first : {"a", "b"}) {
    const Error error = Refusal({first, *first == 'a' ? "b" : "a"});
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message, HasSubstr("distribution.json: versions.refit: expected \""));
    EXPECT_THAT(error.hint, HasSubstr("`moepack join` makes one store of all parts"));
  }
}

TEST_F(JoinRefitParts, AreNotAddedToADistributionOfAnotherPart) {
  WriteRefitted("a", {0}, {"trunk", "group:0"});
  fs::rename(tiny::StoreOf(dir_ / "a"), dir_ / "first");
  const auto before = tiny::Tree(dir_ / "a");
  StoreOptions store = tiny::Changed();
  const MoeModel model = tiny::Model();
  store.part = SamplePart(tiny::Plan(model), {1});
  const auto added = tiny::WriteRefitted(dir_ / "a", store, "", tiny::PlanOptions(), {"group:1"});
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("versions of the distribution there: expected"));
  EXPECT_THAT(added.error().hint, HasSubstr("goes to directories of its own, for `moepack join`"));
  EXPECT_TRUE(tiny::Tree(dir_ / "a") == before);
}

}  // namespace
}  // namespace moepack::manifest
