// Replies of token servers; tests/remote/registry/registry_auth_test.cc tests the requests.
#include "manifest/registry/server/token_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using std::chrono::seconds;
using std::chrono::system_clock;
using testing::HasSubstr;
using testing::Not;

// 2026-11-23T06:00:00Z.
const system_clock::time_point kNow{seconds(1795413600)};

Token Parse(const std::string& text) {
  const Result<Token> token = ParseToken("auth", text, kNow);
  EXPECT_TRUE(token) << text << token.error().message;
  return token ? *token : Token{};
}

TEST(TokenServer, ReadsBothNamesOfAToken) {
  EXPECT_EQ(Parse("{\"token\":\"abc\",\"expires_in\":300}").text, "abc");
  EXPECT_EQ(Parse("{\"token\":\"abc\",\"expires_in\":300}").life, seconds(300));
  EXPECT_EQ(Parse("{\"access_token\":\"xyz\"}").text, "xyz");
  EXPECT_EQ(Parse("{\"token\":\"\",\"access_token\":\"xyz\"}").text, "xyz");
  EXPECT_EQ(Parse("{\"token\":\"abc\",\"access_token\":\"xyz\"}").text, "abc");
}

TEST(TokenServer, DefaultsToALifetimeOfAMinute) {
  for (const char* life : {"", ",\"expires_in\":null", ",\"expires_in\":\"300\"",
                           ",\"expires_in\":-1", ",\"expires_in\":1e3"})
    EXPECT_EQ(Parse(Cat("{\"token\":\"abc\"", life, "}")).life, seconds(60)) << life;
  EXPECT_EQ(Parse("{\"token\":\"abc\",\"expires_in\":0}").life, seconds(0));
  EXPECT_EQ(Parse("{\"token\":\"abc\",\"expires_in\":18446744073709551615}").life, seconds(86400));
}

TEST(TokenServer, ATokenIssuedEarlierHasAShorterLifetime) {
  const auto life = [](const std::string& issued) {
    return Parse(Cat("{\"token\":\"abc\",\"expires_in\":300,\"issued_at\":\"", issued, "\"}")).life;
  };
  EXPECT_EQ(life("2026-11-23T05:58:20Z"), seconds(200));
  EXPECT_EQ(life("2026-11-23T05:58:20.123456789Z"), seconds(200));
  EXPECT_EQ(life("2026-11-23T07:58:20+02:00"), seconds(200));
  EXPECT_EQ(life("2026-11-23T04:28:20-01:30"), seconds(200));
  EXPECT_EQ(life("2026-11-23T06:00:00Z"), seconds(300));
}

TEST(TokenServer, IgnoresAWrongClock) {
  for (const char* issued :
       {"2026-11-23T05:00:00Z", "2026-11-23T06:00:01Z", "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z", "yesterday", "", "2026-11-23T05:58:20", "2026-11-23T05:58:20+2:00",
        "2026-11-23T05:58:20Zx", "2026-11-23T05:58:20.Z+"})
    EXPECT_EQ(
        Parse(Cat("{\"token\":\"abc\",\"expires_in\":300,\"issued_at\":\"", issued, "\"}")).life,
        seconds(300))
        << issued;
}

TEST(TokenServer, RefusesAnInvalidTokenWithoutShowingIt) {
  for (const std::string& text :
       {std::string(), std::string("hunter2"), std::string("[\"hunter2\"]"), std::string("{}"),
        std::string("{\"token\":7,\"note\":\"hunter2\"}"),
        std::string("{\"token\":\"hunter2\\r\\nX: y\"}"), std::string("{\"token\":\"hunter2 x\"}"),
        std::string("{\"token\":\"hunter2\",\"token\":\"x\"}"),
        std::string("{\"token\":\"hunter2\\u00e9\"}"), std::string("{\"token\":\"hunter2\"} x"),
        Cat("{\"token\":\"", std::string(40000, 'x'), "\"}")}) {
    const Result<Token> token = ParseToken("auth.example: token for x", text, kNow);
    ASSERT_FALSE(token) << text;
    EXPECT_EQ(token.error().code, Code::kIo);
    EXPECT_THAT(token.error().message,
                HasSubstr("auth.example: token for x: expected JSON with \"token\" or"));
    EXPECT_THAT(token.error().message, Not(HasSubstr("hunter2")));
  }
}

}  // namespace
}  // namespace moepack::registry
