#include "libshard/remote/http/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::remote {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RemoteUrl, ParsesAnAddress) {
  const Url url = ParseUrl("https://Me:se%20cret@Example.org:8443/a/./b/../c%20d?x=1#y").value();
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "example.org");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/a/c%20d");
  EXPECT_EQ(url.query, "x=1");
  EXPECT_EQ(url.user, "Me");
  EXPECT_EQ(url.password, "se cret");
  EXPECT_EQ(url.Text(), "https://example.org:8443/a/c%20d?x=1");
  EXPECT_EQ(ParseUrl("http://[::1]:80").value().Text(), "http://[::1]/");
}

TEST(RemoteUrl, ShowsNoSecrets) {
  const Url url = ParseUrl("https://me:secret@host/a?X-Amz-Signature=secret").value();
  EXPECT_EQ(url.Shown(), "https://host/a");
}

TEST(RemoteUrl, RefusesAnInvalidAddressWithoutRepeatingIt) {
  for (const char* text :
       {"", "host/path", "ftp://u:secret@host/", "https://", "https://u:secret@",
        "https://u:secret@host:0/", "https://u:secret@host:99999/", "https://u:secret@ho st/",
        "https://u:secret@[::1/", "https://h\xC3\xBC/"}) {
    const auto url = ParseUrl(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, Code::kInvalidArgument) << text;
    EXPECT_THAT(url.error().message, Not(HasSubstr("secret")));
  }
}

TEST(RemoteUrl, OnlyThisMachineIsLoopback) {
  for (const char* text : {"http://127.0.0.1/", "http://127.8.9.1:1/", "http://localhost/",
                           "http://LOCALHOST/", "http://[::1]:5/", "http://127.1/"})
    EXPECT_TRUE(ParseUrl(text).value().IsLoopback()) << text;
  for (const char* text : {"http://127.0.0.1.evil.org/", "http://128.0.0.1/", "http://host/",
                           "http://localhost.evil.org/", "http://127.0.0.999/"})
    EXPECT_FALSE(ParseUrl(text).value().IsLoopback()) << text;
}

TEST(RemoteUrl, ResolvesLocationsAsTheStandardSays) {
  const Url base = ParseUrl("https://me:pw@host/a/b?q").value();
  EXPECT_EQ(ResolveLocation(base, "/c?d").value().Text(), "https://host/c?d");
  EXPECT_EQ(ResolveLocation(base, "c").value().Text(), "https://host/a/c");
  EXPECT_EQ(ResolveLocation(base, "../../c").value().Text(), "https://host/c");
  EXPECT_EQ(ResolveLocation(base, "?x").value().Text(), "https://host/a/b?x");
  EXPECT_EQ(ResolveLocation(base, "//cdn/c").value().Text(), "https://cdn/c");
  EXPECT_EQ(ResolveLocation(base, "http://cdn/c").value().Text(), "http://cdn/c");
  EXPECT_EQ(ResolveLocation(base, "/c:d").value().Text(), "https://host/c:d");
  EXPECT_FALSE(ResolveLocation(base, "file:///etc/passwd"));
}

TEST(RemoteUrl, EncodesAndDecodesFileNames) {
  EXPECT_EQ(EncodePath("a b/\xC3\xBC+%?#"), "a%20b/%C3%BC%2B%25%3F%23");
  EXPECT_EQ(EncodeComponent("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(DecodePercent(EncodePath("a b/\xC3\xBC+%?#")), "a b/\xC3\xBC+%?#");
  EXPECT_EQ(DecodePercent("100%"), "100%");
  EXPECT_EQ(Below(ParseUrl("https://host/a?secret").value(), "b c").Text(), "https://host/a/b%20c");
}

TEST(RemoteUrl, FindsTheNextPageInALinkField) {
  EXPECT_EQ(NextPage("<https://a.test/x?cursor=1>; rel=\"next\""), "https://a.test/x?cursor=1");
  EXPECT_EQ(NextPage("</a>; rel=\"prev\", </b?n=2&last=c>; rel=\"next\""), "/b?n=2&last=c");
  EXPECT_EQ(NextPage("</a,b>; rel=\"prev\",</c?ids=1,2>;rel=\"next\",</d>; rel=\"last\""),
            "/c?ids=1,2");
  EXPECT_EQ(NextPage("</a>; rel=\"prev\""), std::nullopt);
  EXPECT_EQ(NextPage("</a; rel=\"next\""), std::nullopt);
  EXPECT_EQ(NextPage(">/a<; rel=\"next\""), std::nullopt);
  EXPECT_EQ(NextPage(""), std::nullopt);
}

}  // namespace
}  // namespace moepack::remote
