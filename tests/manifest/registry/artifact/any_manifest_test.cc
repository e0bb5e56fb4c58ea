#include "manifest/registry/artifact/any_manifest.h"

#include <gmock/gmock.h>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kConfig = "sha256:" + std::string(64, 'c');
const std::string kLayer = "sha256:" + std::string(64, 'a');
const std::string kOther = "sha256:" + std::string(64, 'b');

std::string Descriptor(const std::string& type, const std::string& digest) {
  return R"({"mediaType":")" + type + R"(","digest":")" + digest + R"(","size":7})";
}
std::string AnyText(const std::string& more = "") {
  return R"({"schemaVersion":2,)" + more + R"("config":)" + Descriptor("x/config", kConfig) +
         R"(,"layers":[)" + Descriptor("x/layer", kLayer) + "]}";
}
Error Failure(const std::string& text) {
  const auto any = ParseAnyManifest("it", text);
  return any ? Error{Code::kIo, "no error"} : any.error();
}

TEST(AnyManifest, ReadsConfigAndLayersOfAnyArtifact) {
  const auto any = ParseAnyManifest("it", AnyText(R"("artifactType":"x/y",)"));
  ASSERT_TRUE(any) << any.error().message;
  EXPECT_EQ(any->artifact_type, "x/y");
  EXPECT_EQ(any->media_type, "");
  EXPECT_EQ(any->config.digest, kConfig);
  ASSERT_EQ(any->layers.size(), 1u);
  EXPECT_EQ(any->layers[0].size, 7u);
}

TEST(ManifestTypeOf, TakesWhatTheDocumentStatesOrItsForm) {
  EXPECT_EQ(*ManifestTypeOf("it", AnyText()), kManifestType);
  EXPECT_EQ(*ManifestTypeOf("it", R"({"schemaVersion":2,"manifests":[]})"), kIndexType);
  for (const char* type : {kManifestType, kIndexType, kDockerManifestType, kDockerListType})
    EXPECT_EQ(*ManifestTypeOf("it", AnyText(Cat(R"("mediaType":")", type, "\","))), type);
}

TEST(ManifestTypeOf, RefusesEverythingElse) {
  for (const std::string& text :
       {std::string("{}"), std::string("[]"), std::string("GGUF"), std::string(),
        std::string(R"({"layers":[]})"), AnyText(R"("mediaType":"application/json",)")}) {
    const auto type = ManifestTypeOf("it", text);
    ASSERT_FALSE(type) << text;
    EXPECT_EQ(type.error().code, Code::kCorrupt) << text;
    EXPECT_THAT(type.error().message, HasSubstr("it: expected a manifest or an index, found "));
    EXPECT_THAT(type.error().hint, HasSubstr("moepack ls"));
  }
}

TEST(AnyManifest, RefusesAnIndexWithAHint) {
  for (const char* text :
       {R"({"schemaVersion":2,"manifests":[]})",
        R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json"})"}) {
    EXPECT_EQ(Failure(text).code, Code::kUnsupported);
    EXPECT_THAT(Failure(text).message, HasSubstr("found an index"));
    EXPECT_THAT(Failure(text).hint, HasSubstr("by its digest"));
  }
}

TEST(AnyManifest, RefusesLayersThatAreTooLargeTogether) {
  const std::string layer =
      Cat(R"({"mediaType":"x","size":4611686018427387904,"digest":")", kLayer, "\"}");
  std::string text = AnyText();
  const size_t list = text.find("\"layers\":[") + 10;
  text.replace(list, text.find(']') - list, Cat(layer, ",", layer));
  EXPECT_EQ(Failure(text).code, Code::kCorrupt);
  EXPECT_THAT(Failure(text).message, HasSubstr("layer 1: size: expected at most "));
}

TEST(AnyManifest, ValidatesEveryFieldThatItReads) {
  std::string sha512 = AnyText();
  sha512.replace(sha512.find("sha256:a"), 6, "sha512");
  const std::tuple<std::string, Code, const char*> cases[] = {
      {"[]", Code::kCorrupt, "expected an object"},
      {R"({"schemaVersion":1})", Code::kCorrupt, "schemaVersion: expected 2"},
      {R"({"schemaVersion":2,"layers":[]})", Code::kUnsupported, "with config and layers"},
      {sha512, Code::kUnsupported, "layer 0: digest: expected sha256:"},
      {std::string(kMaxOciManifest + 1, ' '), Code::kCorrupt, "size: expected at most 4194304"},
      {std::string(1000, '['), Code::kCorrupt, "it"},
  };
  for (const auto& [text, code, message] : cases) {
    EXPECT_EQ(Failure(text).code, code) << text.substr(0, 80);
    EXPECT_THAT(Failure(text).message, HasSubstr(message));
  }
}

TEST(NamedBlobs, FindsEveryDescriptorAtAnyDepth) {
  const std::string text = R"({"manifests":[)" + Descriptor("x/unknown", kOther) +
                           R"(],"subject":)" + Descriptor(kManifestType, kConfig) +
                           R"(,"future":{"deep":[{"more":)" + Descriptor("x/y", kLayer) + "}]}}";
  const auto named = FindNamedBlobs("it", text);
  ASSERT_TRUE(named) << named.error().message;
  ASSERT_EQ(named->size(), 3u);
  EXPECT_EQ((*named)[0].kind, NamedBlob::Kind::kManifest);
  EXPECT_EQ((*named)[1].kind, NamedBlob::Kind::kSubject);
  EXPECT_EQ((*named)[2].kind, NamedBlob::Kind::kBlob);
  EXPECT_EQ((*named)[2].blob.digest, kLayer);
}

// A digest in an annotation is not a reference: a node view does not keep its set.
TEST(NamedBlobs, DoesNotTreatAnnotationsAsDescriptors) {
  const auto named =
      FindNamedBlobs("it", AnyText(R"("annotations":{"org.moepack.view.of":")" + kOther + "\"},"));
  ASSERT_TRUE(named);
  EXPECT_EQ(named->size(), 2u);
}

TEST(NamedBlobs, RefusesDigestsOfUnsupportedAlgorithms) {
  const auto named =
      FindNamedBlobs("it", R"({"x":{"digest":"sha512:)" + std::string(128, '0') + "\"}}");
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, Code::kUnsupported);
  EXPECT_EQ(FindNamedBlobs("it", R"({"x":{"digest":"sha256:no"}})").error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::registry
