#include "manifest/registry/artifact/oci_manifest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kZeros = "sha256:" + std::string(64, '0');
const std::string kOnes = "sha256:" + std::string(64, '1');

OciManifest Sample() {
  OciManifest oci;
  oci.config = {kConfigType, kZeros, 2};
  oci.layers = {{kWeightType, kOnes, 5, {{kPathKey, "a/b"}, {kTitleKey, "a/b"}}}};
  oci.annotations = {{"org.moepack.schema", "1"}};
  return oci;
}

std::string ParseFailure(const std::string& text, Code code) {
  const auto oci = ParseOciManifest("it", text);
  if (oci) return "no error";
  EXPECT_EQ(oci.error().code, code) << oci.error().message;
  return oci.error().message;
}

TEST(OciManifest, IsOneLineWithKeysInAFixedOrder) {
  EXPECT_EQ(WriteOciManifest(Sample()),
            R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
            R"("artifactType":"application/vnd.cncf.model.manifest.v1+json",)"
            R"("config":{"mediaType":"application/vnd.cncf.model.config.v1+json",)"
            R"("digest":")" +
                kZeros +
                R"(","size":2},)"
                R"("layers":[{"mediaType":"application/vnd.cncf.model.weight.v1.raw",)"
                R"("digest":")" +
                kOnes +
                R"(","size":5,"annotations":)"
                R"({"org.cncf.model.filepath":"a/b","org.opencontainers.image.title":"a/b"}}],)"
                R"("annotations":{"org.moepack.schema":"1"}})");
}

TEST(OciManifest, ReadsWhatItWrote) {
  const std::string text = WriteOciManifest(Sample());
  const auto read = ParseOciManifest("it", text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(WriteOciManifest(*read), text);
  EXPECT_EQ(read->layer_bytes(), 5u);
}

// ORAS and CRI-O read the title, modctl and kit the path.
TEST(OciManifest, AcceptsATitleOrAPathAlone) {
  OciManifest oci = Sample();
  oci.layers[0].annotations = {{kTitleKey, "a/b"}};
  const auto read = ParseOciManifest("it", WriteOciManifest(oci));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->layers[0].path(), "a/b");
}

TEST(OciManifest, KeepsLayersThatAreNotFiles) {
  OciManifest oci = Sample();
  oci.layers.push_back({"application/x-other", kZeros, 1, {{"other", "value"}}});
  const auto read = ParseOciManifest("it", WriteOciManifest(oci));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->layers.size(), 2u);
  EXPECT_EQ(read->layers[1].path(), "");
}

TEST(OciManifest, RefusesPathsThatLeaveTheOutput) {
  const std::string paths[] = {"../x",
                               "/x",
                               "a//b",
                               "./a",
                               "a/../b",
                               "a\\b",
                               "a\nb",
                               "~/x",
                               "a\x7f",
                               std::string(1025, 'a'),
                               "a/" + std::string(256, 'b'),
                               "\xc2\x9b",
                               "\xe2\x80\xae",
                               "a/"};
  for (const std::string& path : paths) {
    OciManifest oci = Sample();
    oci.layers[0].annotations = {{kPathKey, path}};
    EXPECT_THAT(ParseFailure(WriteOciManifest(oci), Code::kCorrupt),
                HasSubstr("it: layer 0: path: expected one that stays inside the output, found "))
        << path;
  }
}

TEST(OciManifest, RefusesTwoLayersForOneFile) {
  // The path of the second layer, and what is wrong.
  const std::pair<const char*, const char*> rows[] = {
      {"a/b",
       "layer 1: path: expected one that no other layer has, found \"a/b\", which is also "
       "that of layer 0"},
      {"A/b",
       "layer 1: path: expected one that no other layer has, found \"A/b\", which is also "
       "that of layer 0"},
      {"a/b/c", "layer 0: path: expected a file, found \"a/b\", which is a directory of layer 1"},
      {"a", "layer 1: path: expected a file, found \"a\", which is a directory of layer 0"},
      {"A", "layer 1: path: expected a file, found \"A\", which is a directory of layer 0"}};
  for (const auto& [other, problem] : rows) {
    OciManifest oci = Sample();
    oci.layers.push_back({kWeightType, kZeros, 5, {{kPathKey, other}}});
    EXPECT_THAT(ParseFailure(WriteOciManifest(oci), Code::kCorrupt), HasSubstr(problem)) << other;
  }
}

TEST(OciManifest, RefusesLayersThatAreTooLargeTogether) {
  OciManifest oci = Sample();
  oci.layers = {{"x", kOnes, uint64_t{1} << 62}, {"x", kZeros, (uint64_t{1} << 62) - 1}};
  const auto largest = ParseOciManifest("it", WriteOciManifest(oci));
  ASSERT_TRUE(largest) << largest.error().message;
  EXPECT_EQ(largest->layer_bytes(), (uint64_t{1} << 63) - 1);
  oci.layers[1].size += 1;
  EXPECT_THAT(ParseFailure(WriteOciManifest(oci), Code::kCorrupt),
              HasSubstr("it: layer 1: size: expected at most 4611686018427387903 bytes after"));
}

struct BadText {
  const char* from;
  const char* to;
  Code code;
  const char* message;
};

TEST(OciManifest, RefusesOtherAndInvalidDocuments) {
  const std::string good = WriteOciManifest(Sample());
  const BadText cases[] = {
      {"\"schemaVersion\":2", "\"schemaVersion\":1", Code::kCorrupt, "schemaVersion: expected 2"},
      {"image.manifest.v1", "image.index.v1", Code::kUnsupported, "mediaType: expected "},
      {"cncf.model.manifest.v1", "x.manifest", Code::kUnsupported, "artifactType: expected "},
      {"cncf.model.config.v1", "oci.image.config.v1", Code::kUnsupported, "config: mediaType: "},
      {"sha256:1", "sha512:1", Code::kUnsupported, "layer 0: digest: expected sha256: and "},
      {"sha256:1", "sha256:x", Code::kCorrupt, "layer 0: digest: expected sha256: and "},
      {"sha256:1", "sha256:A", Code::kCorrupt, "layer 0: digest: expected sha256: and "},
      {"\"size\":5", "\"size\":-5", Code::kCorrupt, "layer 0: size: "},
      {"\"size\":5", "\"size\":9223372036854775808", Code::kCorrupt, "layer 0: size: expected "},
      {"\"size\":5", "\"size\":\"5\"", Code::kCorrupt, "layer 0: size: "},
      {"\"size\":5", "\"size\":5,\"size\":6", Code::kCorrupt, "size"},
      {"\"1\"}", "1}", Code::kCorrupt, "annotation \"org.moepack.schema\": expected text"},
      {"title\":\"a/b", "title\":\"a/c", Code::kCorrupt, "image.title: expected \"a/b\""},
      {"\"layers\":[", "\"layers\":[7,", Code::kCorrupt, "layer 0: expected an object, found 7"},
  };
  for (const BadText& one : cases) {
    std::string text = good;
    const size_t at = text.find(one.from);
    ASSERT_NE(at, text.npos) << one.from;
    text.replace(at, std::string(one.from).size(), one.to);
    EXPECT_THAT(ParseFailure(text, one.code), HasSubstr(one.message)) << one.to;
  }
}

TEST(OciManifest, RefusesDocumentsThatAreTooLargeOrTooDeep) {
  EXPECT_THAT(ParseFailure(std::string(kMaxOciManifest + 1, ' '), Code::kCorrupt),
              HasSubstr("manifest size: expected at most 4194304 bytes, found 4194305"));
  EXPECT_NE(ParseFailure(std::string(1000, '['), Code::kCorrupt), "no error");
  std::string many = "[0";
  for (size_t i = 0; i < 300000; ++i) many += ",0";
  EXPECT_THAT(ParseFailure(many + "]", Code::kCorrupt), HasSubstr("expected at most"));
  EXPECT_THAT(ParseFailure("[]", Code::kCorrupt), HasSubstr("expected an object"));
}

}  // namespace
}  // namespace moepack::registry
