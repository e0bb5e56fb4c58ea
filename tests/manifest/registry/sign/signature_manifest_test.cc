#include "manifest/registry/sign/signature_manifest.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/simple_signing.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kHex = std::string(64, '1');

OciManifest Parsed(const std::string& text) {
  auto oci = ParseSignatureManifest("it", text);
  if (!oci) throw std::runtime_error(oci.error().message);
  return *std::move(oci);
}

TEST(SignatureManifest, DerivesTagsFromDigests) {
  EXPECT_EQ(SignatureTag("sha256:" + kHex), "sha256-" + kHex + ".sig");
  EXPECT_TRUE(IsTag(SignatureTag("sha256:" + kHex)));
  EXPECT_TRUE(IsSignatureTag("sha256-" + kHex + ".sig"));
  for (const std::string& other :
       std::vector<std::string>{"", "v1", "sha256-.sig", "sha256-" + kHex, "sha256-x.sig",
                                "sha256-" + kHex + "0.sig", kHex + ".sig", "sha256.sig"})
    EXPECT_FALSE(IsSignatureTag(other)) << other;
}

// Other programs read it: the order of keys is ours, the members are cosign's.
TEST(SignatureManifest, IsAnImageWhoseLayersAreThePayloads) {
  const SignatureBlobs blobs = AddSignature(nullptr, "payload", "\x01\x02\xff");
  const std::string payload = "sha256:" + Sha256Hex(std::string_view("payload"));
  EXPECT_EQ(blobs.payload.blob.digest, payload);
  EXPECT_EQ(blobs.payload.text, "payload");
  EXPECT_EQ(blobs.config.text, R"({"architecture":"","os":"","config":{},"rootfs":)"
                               R"({"type":"layers","diff_ids":[")" +
                                   payload + R"("]}})");
  EXPECT_EQ(
      blobs.manifest.text,
      R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",)"
      R"("config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:)" +
          Sha256Hex(blobs.config.text) + R"(","size":)" + std::to_string(blobs.config.text.size()) +
          R"(},"layers":[{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json",)"
          R"("digest":")" +
          payload + R"(","size":7,"annotations":{"dev.cosignproject.cosign/signature":"AQL/"}}]})");
  EXPECT_EQ(blobs.manifest.blob.digest, "sha256:" + Sha256Hex(blobs.manifest.text));
  EXPECT_EQ(blobs.manifest.blob.media_type, kManifestType);
}

TEST(SignatureManifest, AppendsASecondSignature) {
  const SignatureBlobs first = AddSignature(nullptr, "payload", "one");
  const OciManifest there = Parsed(first.manifest.text);
  const SignatureBlobs second = AddSignature(&there, "payload", "two");
  const auto all = SignaturesOf(Parsed(second.manifest.text));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].signature, "one");
  EXPECT_EQ(all[1].signature, "two");
  EXPECT_EQ(all[0].payload.digest, all[1].payload.digest);
  const auto config = nlohmann::json::parse(second.config.text);
  EXPECT_EQ(config["rootfs"]["diff_ids"].size(), 2u);
}

// A certificate, a log entry, a layer of another kind: cosign keeps such things there.
TEST(SignatureManifest, KeepsForeignLayersAndAnnotations) {
  OciManifest oci = Parsed(AddSignature(nullptr, "payload", "one").manifest.text);
  oci.layers[0].annotations["dev.sigstore.cosign/bundle"] = "{}";
  oci.layers.push_back({"application/x-other", "sha256:" + kHex, 3, {}});
  oci.annotations["mine"] = "here";
  oci.artifact_type = "application/vnd.dev.cosign.artifact.sig.v1+json";
  const OciManifest there = Parsed(WriteOciManifest(oci));
  const OciManifest after = Parsed(AddSignature(&there, "payload", "two").manifest.text);
  EXPECT_EQ(after.artifact_type, oci.artifact_type);
  EXPECT_EQ(after.annotations.at("mine"), "here");
  ASSERT_EQ(after.layers.size(), 3u);
  EXPECT_EQ(after.layers[0].annotations.at("dev.sigstore.cosign/bundle"), "{}");
  EXPECT_EQ(SignaturesOf(after).size(), 2u);
}

TEST(SignatureManifest, ASignatureThatIsNotBase64HasNoBytes) {
  OciManifest oci = Parsed(AddSignature(nullptr, "payload", "one").manifest.text);
  for (const char* text : {"b25", "b25l=", "****", " b25l"}) {
    oci.layers[0].annotations[kSignatureKey] = text;
    const auto all = SignaturesOf(Parsed(WriteOciManifest(oci)));
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].signature, std::nullopt) << text;
  }
  oci.layers[0].annotations.clear();
  EXPECT_TRUE(SignaturesOf(oci).empty());
}

struct BadManifest {
  const char* from;
  const char* to;
  Code code;
  const char* message;
};

TEST(SignatureManifest, RefusesOtherManifests) {
  const std::string good = AddSignature(nullptr, "payload", "one").manifest.text;
  const BadManifest cases[] = {
      {"oci.image.config", "cncf.model.config", Code::kUnsupported, "it: config: mediaType: "},
      {"image.manifest", "image.index", Code::kUnsupported, "it: mediaType: expected "},
      {"\"schemaVersion\":2", "\"schemaVersion\":1", Code::kCorrupt, "schemaVersion: expected 2"},
      {"\"size\":7", "\"size\":-7", Code::kCorrupt, "layer 0: size"},
      {"\"layers\":[", "\"layers\":[7,", Code::kCorrupt, "layer 0: expected an object"},
      {"\"b25l\"", "7", Code::kCorrupt, "annotation \"dev.cosignproject.cosign/signature\""},
  };
  for (const BadManifest& one : cases) {
    std::string text = good;
    const size_t at = text.find(one.from);
    ASSERT_NE(at, text.npos) << one.from;
    text.replace(at, std::string(one.from).size(), one.to);
    const auto oci = ParseSignatureManifest("it", text);
    ASSERT_FALSE(oci) << text;
    EXPECT_EQ(oci.error().code, one.code) << oci.error().message;
    EXPECT_THAT(oci.error().message, HasSubstr(one.message));
  }
}

TEST(SignatureManifest, HasAtMostAHundredSignatures) {
  OciManifest oci = Parsed(AddSignature(nullptr, "payload", "one").manifest.text);
  oci.layers.resize(kMaxSignatures, oci.layers[0]);
  EXPECT_EQ(SignaturesOf(Parsed(WriteOciManifest(oci))).size(), 100u);
  oci.layers.push_back(oci.layers[0]);
  const auto parsed = ParseSignatureManifest("it", WriteOciManifest(oci));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "it: signatures: expected at most 100, found 101");
}

}  // namespace
}  // namespace moepack::registry
