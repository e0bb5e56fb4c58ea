#include "manifest/registry/artifact/reference.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kDigest = "sha256:" + std::string(64, 'a');

struct GoodReference {
  const char* text;
  const char* directory;
  const char* tag;
  bool pinned = false;
};

TEST(Reference, ReadsDirectoryTagAndDigest) {
  const GoodReference cases[] = {
      {"layout:models", "models", ""},
      {"layout:models:v1", "models", "v1"},
      {"layout:/a/b:v1-g000", "/a/b", "v1-g000"},
      {"layout:models@", "models", "", true},
      {"layout:models:v1@", "models", "v1", true},
      // Before the last component ':' and '@' are ordinary, and '/' at the end makes it so.
      {"layout:a:b@c/models:v1", "a:b@c/models", "v1"},
      {"layout:a:b/", "a:b/", ""},
      {"layout:a@b/:v1", "a@b/", "v1"},
      {"layout:.", ".", ""},
      {"layout://models:v1", "//models", "v1"},
  };
  for (const GoodReference& one : cases) {
    const auto read = ParseReference(one.text + (one.pinned ? kDigest : ""));
    ASSERT_TRUE(read) << one.text << ": " << read.error().message;
    EXPECT_EQ(read->directory, one.directory) << one.text;
    EXPECT_EQ(read->tag, one.tag) << one.text;
    EXPECT_EQ(read->digest, one.pinned ? kDigest : "") << one.text;
  }
}

TEST(Reference, WhatIsPrintedIsReadBack) {
  for (const char* directory : {"models", "a:b/c", "a/b:c", "a@b", "a:b/"}) {
    for (const char* tag : {"", "v1"}) {
      const std::string text = ReferenceText(directory, tag, kDigest);
      const auto read = ParseReference(text);
      ASSERT_TRUE(read) << text << ": " << read.error().message;
      EXPECT_EQ(ReferenceText(read->directory, read->tag, read->digest), text);
      EXPECT_THAT(read->directory, testing::StartsWith(directory)) << text;
      EXPECT_EQ(read->tag, tag) << text;
    }
  }
}

TEST(Reference, WithoutATagTheTagIsLatest) {
  EXPECT_EQ(ParseReference("layout:models")->tag_or_default(), "latest");
  EXPECT_EQ(ParseReference("layout:models:v1")->tag_or_default(), "v1");
}

struct BadReference {
  std::string text;
  Code code;
  const char* message;
};

TEST(Reference, RefusesWhatItDoesNotUnderstand) {
  const BadReference cases[] = {
      {"oci://user:secret@host/x:v1", Code::kUnsupported, "found oci://..."},
      {"layout+https://host/x?token=secret", Code::kUnsupported, "found layout+https://..."},
      {"models:v1", Code::kInvalidArgument, "expected layout:DIR[:tag][@sha256:...], found"},
      {"layout:", Code::kInvalidArgument, "directory: expected a path"},
      {"layout::v1", Code::kInvalidArgument, "directory: expected a path"},
      {"layout:models:", Code::kInvalidArgument, "tag: expected"},
      {"layout:models:-v1", Code::kInvalidArgument, "tag: expected"},
      {"layout:models:a:b", Code::kInvalidArgument, "tag: expected"},
      {"layout:models:" + std::string(129, 'a'), Code::kInvalidArgument, "tag: expected"},
      {"layout:models@sha256:12", Code::kInvalidArgument, "digest: expected"},
      {"layout:models@sha512:" + std::string(128, 'a'), Code::kInvalidArgument, "digest: expected"},
      {"layout:models@sha256:" + std::string(64, 'A'), Code::kInvalidArgument, "digest: expected"},
  };
  for (const BadReference& one : cases) {
    const auto read = ParseReference(one.text);
    ASSERT_FALSE(read) << one.text;
    EXPECT_EQ(read.error().code, one.code) << one.text;
    EXPECT_THAT(read.error().message, HasSubstr(one.message));
    EXPECT_THAT(read.error().message, testing::Not(HasSubstr("secret")));
    EXPECT_NE(read.error().hint, "") << one.text;
  }
}

TEST(Reference, TagsAreThoseOfRegistries) {
  for (const char* good : {"v1", "_x", "0", "A.b-c_d"}) EXPECT_TRUE(IsTag(good)) << good;
  for (const char* bad : {"", ".x", "-x", "a b", "a/b", "a:b", "\xc3\xa4"})
    EXPECT_FALSE(IsTag(bad)) << bad;
  EXPECT_TRUE(IsTag(std::string(128, 'a')));
  EXPECT_FALSE(IsTag(std::string(129, 'a')));
}

}  // namespace
}  // namespace moepack::registry
