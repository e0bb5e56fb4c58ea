#include "manifest/registry/artifact/reference.h"

#include <gmock/gmock.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;
using RefKind = Reference::Kind;

const std::string kDigest = "sha256:" + std::string(64, 'a');

struct GoodReference {
  const char* text;
  const char* place;
  const char* tag;
  bool pinned = false;
  RefKind kind = RefKind::kLayout;
};

TEST(Reference, ReadsPlaceTagAndDigest) {
  const GoodReference cases[] = {
      {"layout:models", "models", ""},
      {"layout:models:v1", "models", "v1"},
      {"layout:/a/b:v1-g000", "/a/b", "v1-g000"},
      {"layout:models@", "models", "", true},
      {"layout:models:v1@", "models", "v1", true},
      // Before the last component, ':' and '@' are ordinary characters, and a trailing '/' has the
      // same effect.
      {"layout:a:b@c/models:v1", "a:b@c/models", "v1"},
      {"layout:a:b/", "a:b/", ""},
      {"layout:a@b/:v1", "a@b/", "v1"},
      {"layout:.", ".", ""},
      {"layout://models:v1", "//models", "v1"},
      {"layout+https://host:8443/a:b/models:v1", "https://host:8443/a:b/models", "v1", false,
       RefKind::kWebLayout},
      {"layout+http://127.0.0.1:8000/models/@", "http://127.0.0.1:8000/models/", "", true,
       RefKind::kWebLayout},
      {"oci://registry.example/team/model:v1", "registry.example/team/model", "v1", false,
       RefKind::kServer},
      {"oci://localhost:5000/a-b/c__d.e@", "localhost:5000/a-b/c__d.e", "", true, RefKind::kServer},
      {"oci://[::1]:5000/model:v1@", "[::1]:5000/model", "v1", true, RefKind::kServer},
      {"hf://owner/model@main/q4", "hf://owner/model@main/q4", "", false, RefKind::kFiles},
      {"https://host/models:v1", "https://host/models:v1", "", false, RefKind::kFiles},
      {"models:v1", "models:v1", "", false, RefKind::kFiles},
  };
  for (const GoodReference& one : cases) {
    const auto read = ParseReference(one.text + (one.pinned ? kDigest : ""));
    ASSERT_TRUE(read) << one.text << ": " << read.error().message;
    EXPECT_EQ(read->place, one.place) << one.text;
    EXPECT_EQ(read->kind, one.kind) << one.text;
    EXPECT_EQ(read->tag, one.tag) << one.text;
    EXPECT_EQ(read->digest, one.pinned ? kDigest : "") << one.text;
  }
}

TEST(Reference, ReadsBackWhatItPrints) {
  for (const char* directory : {"models", "a:b/c", "a/b:c", "a@b", "a:b/"}) {
    for (const char* tag : {"", "v1"}) {
      const std::string text = ReferenceText({RefKind::kLayout, directory, tag, kDigest});
      const auto read = ParseReference(text);
      ASSERT_TRUE(read) << text << ": " << read.error().message;
      EXPECT_EQ(ReferenceText(*read), text);
      EXPECT_THAT(read->place, testing::StartsWith(directory)) << text;
      EXPECT_EQ(read->tag, tag) << text;
    }
  }
  for (const char* text : {"oci://host:5000/a/b:v1", "layout+https://host/models:v1",
                           "layout+http://localhost/models", "hf://owner/model@main"})
    EXPECT_EQ(ReferenceText(*ParseReference(text)), text);
  EXPECT_EQ(ReferenceText(ParseReference("oci://host:5000/a:v1")->With("v2", kDigest)),
            "oci://host:5000/a:v2@" + kDigest);
}

TEST(Reference, DefaultsToTheTagLatest) {
  EXPECT_EQ(ParseReference("layout:models")->tag_or_default(), "latest");
  EXPECT_EQ(ParseReference("layout:models:v1")->tag_or_default(), "v1");
}

struct BadReference {
  std::string text;
  Code code;
  const char* message;
};

TEST(Reference, RefusesInvalidReferences) {
  const BadReference cases[] = {
      {"oci://user:secret@host/x:v1", Code::kInvalidArgument, "found one with a user or password"},
      {"layout+https://u:secret@host/x", Code::kInvalidArgument, "found one with a user"},
      {"layout+https://host/x?token=secret", Code::kInvalidArgument, "found one with '?' or '#'"},
      {"layout+https:///x", Code::kInvalidArgument, "host: expected a name"},
      {"oci://models/x:v1", Code::kInvalidArgument, "host: expected a name with '.' or ':' in it"},
      {"oci://host.example", Code::kInvalidArgument, "repository: expected lower-case letters"},
      {"oci://host.example/Models", Code::kInvalidArgument, "repository: expected lower-case"},
      {"oci://host.example/a//b", Code::kInvalidArgument, "repository: expected lower-case"},
      {"oci://host.example/a___b", Code::kInvalidArgument, "repository: expected lower-case"},
      {"oci://host.example/../b", Code::kInvalidArgument, "repository: expected lower-case"},
      {"https://host/dist/?token=secret", Code::kInvalidArgument, "found one with '?'"},
      {"HTTPS://host/dist/?token=secret", Code::kInvalidArgument, "found one with '?'"},
      {"ftp://user:secret@host/x", Code::kUnsupported, "found ftp://..."},
      {"FTP://user:secret@host/x", Code::kUnsupported, "found FTP://..."},
      {"OCI://user:secret@localhost:1/y", Code::kUnsupported, "found OCI://..."},
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

TEST(Reference, SaysThatASchemeIsInLowerCase) {
  EXPECT_EQ(ParseReference("OCI://localhost:1/y").error().hint,
            "write the scheme in lower case: oci://");
  EXPECT_EQ(ParseReference("Layout+HTTPS://host/models:v1").error().hint,
            "write the scheme in lower case: layout+https://");
  EXPECT_THAT(ParseReference("FTP://host/y").error().hint, HasSubstr("hf://, https:// and s3://"));
}

TEST(Reference, KnowsHowDockerAndSkopeoNameAPlace) {
  EXPECT_EQ(MeantReference("localhost:5055/a:v1"), "oci://localhost:5055/a:v1");
  EXPECT_EQ(MeantReference("ghcr.io/team/model"), "oci://ghcr.io/team/model");
  EXPECT_EQ(MeantReference("docker://localhost:5055/a:v1"), "oci://localhost:5055/a:v1");
  EXPECT_EQ(MeantReference("[::1]:5000/a@" + kDigest), "oci://[::1]:5000/a@" + kDigest);
  EXPECT_EQ(MeantReference("oci:models:v1"), "layout:models:v1");
  for (const char* other :
       {"models:v1", "models/a:v1", "./a.b/c", "../a", "/srv/a.b/c", "a.b/C", "docker://alpine",
        "docker://user:secret@host.example/a", "user:secret@host.example/a", "ftp://host/x", ""})
    EXPECT_EQ(MeantReference(other), "") << other;
  EXPECT_EQ(ParseReference("docker://localhost:5055/a:v1").error().hint,
            "write oci://localhost:5055/a:v1");
  EXPECT_THAT(ParseReference("docker://user:secret@host.example/a").error().hint,
              testing::Not(HasSubstr("secret")));
  EXPECT_EQ(MeantReference("DOCKER://localhost:5055/a:v1"), "oci://localhost:5055/a:v1");
}

TEST(Reference, SaysWhatIsWrongWithANameAsDockerTakesIt) {
  EXPECT_THAT(ParseReference("docker://busybox").error().hint,
              HasSubstr("write oci://host[:port]/repository[:tag]; host: expected a name with"));
  EXPECT_THAT(ParseReference("docker://localhost:5055/A:v1").error().hint,
              HasSubstr("repository[:tag]; repository: expected lower-case letters and digits"));
  EXPECT_EQ(ParseReference("DOCKER://localhost:5055/a:v1").error().hint,
            "write oci://localhost:5055/a:v1");
}

TEST(Reference, SaysThatSkopeoCopiesWhatOnlyItReads) {
  for (const std::string name : {"oci-archive:l:v1", "dir:l", "docker-archive:l",
                                 "docker-daemon:l:v1", "containers-storage:l"}) {
    EXPECT_EQ(MeantReference(name), "") << name;
    EXPECT_EQ(MeantReferenceHint(name), "copy it to a layout or a registry first, `skopeo copy " +
                                            name + " oci:models:v1`, and name layout:models:v1");
  }
  EXPECT_EQ(MeantReferenceHint("models:v1"), "");
}

TEST(Reference, RefusesAnEmptyReference) {
  const auto read = ParseReference("");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kInvalidArgument);
  EXPECT_THAT(read.error().message, HasSubstr("expected oci://host/repository"));
}

TEST(Reference, AcceptsTagsThatRegistriesAccept) {
  for (const char* good : {"v1", "_x", "0", "A.b-c_d"}) EXPECT_TRUE(IsTag(good)) << good;
  for (const char* bad : {"", ".x", "-x", "a b", "a/b", "a:b", "\xc3\xa4"})
    EXPECT_FALSE(IsTag(bad)) << bad;
  EXPECT_TRUE(IsTag(std::string(128, 'a')));
  EXPECT_FALSE(IsTag(std::string(129, 'a')));
}

}  // namespace
}  // namespace moepack::registry
