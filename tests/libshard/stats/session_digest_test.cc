#include "libshard/stats/session_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<uint32_t> kOne = {1, 2, 3}, kOther = {1, 2, 4};

TEST(SessionDigest, IsTheStartOfTheSha256OfTheIds) {
  // As sha256sum prints it of the twelve bytes 1 0 0 0 2 0 0 0 3 0 0 0.
  EXPECT_EQ(SessionDigest(kOne), "4636993d3e1da4e9");
  EXPECT_NE(SessionDigest(kOther), SessionDigest(kOne));
  EXPECT_TRUE(IsSessionDigest(SessionDigest(kOther)));
  EXPECT_FALSE(IsSessionDigest("4636993D3e1da4e9"));
  EXPECT_FALSE(IsSessionDigest("4636993d3e1da4e"));
}

TEST(SessionDigest, SessionsOfAnyTypeAreNamedInTheirOrder) {
  struct Session {
    std::vector<uint32_t> tokens;
  };
  const std::vector<Session> sessions = {{{1, 2}}, {{3}}};
  EXPECT_EQ(SessionDigests(sessions),
            (std::vector<std::string>{SessionDigest(sessions[0].tokens),
                                      SessionDigest(sessions[1].tokens)}));
  EXPECT_TRUE(SessionDigests(std::vector<Session>()).empty());
}

TEST(SessionDigest, ThoseThatAreKnownAreCounted) {
  EXPECT_EQ(CountKnown({"b", "c", "b"}, {"d", "b", "a"}), 2u);
  EXPECT_EQ(CountKnown({"b"}, {}), 0u);
}

TEST(SessionDigest, ListsAreOneTextInDocuments) {
  const std::vector<std::string> digests = {SessionDigest(kOne), SessionDigest(kOther)};
  const Json document = {{"texts", FormatDigests(digests)}, {"wrong", "0123"}};
  const JsonFields fields(document, "x");
  EXPECT_EQ(DigestsField(fields, "texts").value(), digests);
  EXPECT_THAT(DigestsField(fields, "absent").value(), ElementsAre());
  EXPECT_THAT(DigestsField(fields, "wrong").error().message,
              HasSubstr("x: wrong: expected digests of 16 hexadecimal digits"));
}

}  // namespace
}  // namespace moepack
