#include "manifest/registry/server/challenge.h"

#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using Scheme = Challenge::Scheme;

Challenge OnlyOne(std::string_view text) {
  const std::vector<Challenge> all = ParseChallenges(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.empty() ? Challenge{} : all[0];
}

TEST(Challenge, ReadsTheChallengesOfRegistries) {
  const Challenge hub = OnlyOne(
      "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\","
      "scope=\"repository:library/x:pull,push\"");
  EXPECT_EQ(hub.scheme, Scheme::kBearer);
  EXPECT_EQ(hub.realm, "https://auth.docker.io/token");
  EXPECT_EQ(hub.service, "registry.docker.io");
  EXPECT_EQ(hub.scope, "repository:library/x:pull,push");
  const Challenge basic = OnlyOne("Basic realm=\"Registry Realm\"");
  EXPECT_EQ(basic.scheme, Scheme::kBasic);
  EXPECT_EQ(basic.realm, "Registry Realm");
}

TEST(Challenge, IgnoresCaseAndBlanks) {
  const Challenge one =
      OnlyOne("  ,, bEARer\tREALM = \"https://a/t\" , , Service =x ,scope = \"a b\" ,");
  EXPECT_EQ(one.scheme, Scheme::kBearer);
  EXPECT_EQ(one.name, "bEARer");
  EXPECT_EQ(one.realm, "https://a/t");
  EXPECT_EQ(one.service, "x");
  EXPECT_EQ(one.scope, "a b");
}

TEST(Challenge, SeparatesSeveralChallengesInOneField) {
  const std::vector<Challenge> all = ParseChallenges(
      "Negotiate dG9rZW4=, Newauth realm=\"apps, \\\"quoted\\\"\", type=1, title=\"a\", "
      "Basic realm=simple, NTLM, Bearer realm=https://a/t?x=1,service=s");
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].name, "Negotiate");
  EXPECT_EQ(all[1].realm, "apps, \"quoted\"");
  EXPECT_EQ(all[2].scheme, Scheme::kBasic);
  EXPECT_EQ(all[2].realm, "simple");
  EXPECT_EQ(all[3].name, "NTLM");
  EXPECT_EQ(all[4].scheme, Scheme::kBearer);
  EXPECT_EQ(all[4].realm, "https://a/t?x=1");
  EXPECT_EQ(all[4].service, "s");
}

TEST(Challenge, ReadsSeveralFieldsInOrder) {
  const std::vector<Challenge> all = ChallengesOf({{"www-authenticate", "Basic realm=\"a\""},
                                                   {"server", "Bearer realm=\"no\""},
                                                   {"www-authenticate", "Bearer realm=\"b\""}});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].realm, "a");
  EXPECT_EQ(all[1].realm, "b");
}

TEST(Challenge, UsesTheFirstOfARepeatedParameter) {
  EXPECT_EQ(OnlyOne("Bearer realm=\"https://a\",realm=\"https://evil\"").realm, "https://a");
}

TEST(Challenge, StopsAtInvalidText) {
  for (const char* text : {"", " , ,", "\"", "=x", "\x01\x02", ",=,=,", "\xff\xfe"})
    EXPECT_TRUE(ParseChallenges(text).empty()) << text;
  EXPECT_EQ(OnlyOne("Bearer realm=\"never ends").realm, "");
  EXPECT_EQ(OnlyOne("Bearer realm=\"ends in a backslash\\").realm, "");
  EXPECT_EQ(OnlyOne("Bearer realm=").realm, "");
  EXPECT_EQ(OnlyOne("Bearer realm=\"a\" \x01 service=\"b\"").service, "");
}

TEST(Challenge, LimitsChallengesAndParameters) {
  std::string schemes, parameters = "Bearer realm=\"r\"";
  for (int i = 0; i < 5000; ++i) {
    schemes += Cat("S", i, ", ");
    parameters += Cat(",p", i, "=x");
  }
  EXPECT_EQ(ParseChallenges(schemes).size(), 16u);
  const std::vector<Challenge> all = ParseChallenges(parameters);
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].realm, "r");
  EXPECT_LE(all.size(), 16u);
  remote::HttpFields fields;
  for (int i = 0; i < 100; ++i) fields.emplace_back("www-authenticate", "Basic realm=x");
  EXPECT_EQ(ChallengesOf(fields).size(), 16u);
}

// Every prefix, and every prefix with a changed byte, is read to its end.
TEST(Challenge, ReadsDamagedChallengesSafely) {
  const std::string good = "Bearer realm=\"https://a/\\\"t\", service=s, Basic abc==, X y=z";
  for (size_t size = 0; size <= good.size(); ++size) {
    for (const char c : {'"', '\\', '=', ',', ' ', '\0', '\x80'}) {
      std::string text = good.substr(0, size);
      if (!text.empty()) text[size / 2] = c;
      EXPECT_LE(ParseChallenges(text).size(), 16u);
    }
  }
}

}  // namespace
}  // namespace moepack::registry
