#include "manifest/registry/copy.h"

#include <gmock/gmock.h>

#include "libshard/base/text/text.h"
#include "manifest/registry/sign/signature_manifest.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CopyTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  Result<StoreReport> CopyTo(const Reference& from, const Reference& to,
                             const PutOptions& options = {}) {
    return Copy(from, to, options);
  }
  Error Refusal(const Reference& from, const Reference& to, const PutOptions& options = {}) {
    const auto report = Copy(from, to, options);
    return report ? Error{Code::kIo, "no error"} : report.error();
  }
  static std::vector<std::string> Tags(const StoreReport& report) {
    std::vector<std::string> tags;
    for (const StoreReport::Tag& tag : report.tags) tags.push_back(tag.tag);
    return tags;
  }
  std::map<std::string, std::string> Blobs(const std::string& layout) const {
    return tiny::Tree(dir_ / layout / "blobs");
  }
  // Puts a manifest with the signatures of `digest` into the layout; returns its tag.
  std::string Sign(const std::string& digest, const std::string& name = "layout",
                   const std::string& signature = "signature") const {
    auto layout = OciLayout::OpenOrMake(Path(name));
    EXPECT_TRUE(layout) << layout.error().message;
    const SignatureBlobs blobs = AddSignature(nullptr, "a payload of " + digest, signature);
    for (const TextBlob* one : {&blobs.payload, &blobs.config, &blobs.manifest})
      EXPECT_TRUE(layout->AddText(one->blob, one->text));
    const std::string tag = SignatureTag(digest);
    EXPECT_TRUE(layout->SetTags({{tag, blobs.manifest.blob, blobs.manifest.text}}));
    return tag;
  }
};

TEST_F(CopyTest, ASetIsCopiedWithItsViewsByteForByte) {
  const auto report = CopyTo(Ref(), Ref("", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->digest(), digest_);
  EXPECT_THAT(Tags(*report), ElementsAre("v1", "v1-g000", "v1-g001", "v1-g002"));
  EXPECT_TRUE(Blobs("other") == Blobs("layout"));
  const Json before = Read("layout/index.json")["manifests"];
  const Json copied = Read("other/index.json");
  for (const Json& entry : copied["manifests"])
    EXPECT_NE(std::find(before.begin(), before.end(), entry), before.end()) << entry;
  const auto pulled = PullGroups({1}, Ref("v1", "other"));
  EXPECT_TRUE(pulled) << pulled.error().message;
}

TEST_F(CopyTest, AnotherTagRenamesTheViews) {
  const auto report = CopyTo(Ref(), Ref("stable", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Tags(*report), ElementsAre("stable", "stable-g000", "stable-g001", "stable-g002"));
  const auto again = CopyTo(Ref("stable", "other"), Ref("", "third"), {.views = false});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_THAT(Tags(*again), ElementsAre("stable"));
  EXPECT_EQ(again->digest(), digest_);
}

TEST_F(CopyTest, AViewIsCopiedAlone) {
  const auto report = CopyTo(Ref("v1-g001"), Ref("node", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Tags(*report), ElementsAre("node"));
  EXPECT_LT(Blobs("other").size(), Blobs("layout").size());
  EXPECT_TRUE(PullGroups({}, Ref("node", "other")));
}

TEST_F(CopyTest, CopiesSignaturesWithoutAKey) {
  const std::string tag = Sign(digest_);
  const std::string view = Sign(Read("layout/index.json")["manifests"][1]["digest"]);
  const auto report = CopyTo(Ref(), Ref("v2", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(Tags(*report), testing::IsSupersetOf({tag, view}));
  EXPECT_TRUE(Blobs("other") == Blobs("layout"));
  const Json copied = Read("other/index.json");
  for (const Json& entry : copied["manifests"]) {
    const std::string name = entry["annotations"]["org.opencontainers.image.ref.name"];
    EXPECT_EQ(entry.contains("artifactType"), !IsSignatureTag(name)) << entry;
  }
  const auto without = CopyTo(Ref(), Ref("v1", "third"), {.signatures = false});
  ASSERT_TRUE(without);
  EXPECT_EQ(without->tags.size(), 4u);
}

// Both signed the same manifest, each in their own store.
TEST_F(CopyTest, KeepsSignaturesThatTheTargetHas) {
  ASSERT_TRUE(CopyTo(Ref(), Ref("v1", "other")));
  const std::string tag = Sign(digest_), theirs = Sign(digest_, "other", "another signature");
  ASSERT_EQ(tag, theirs);
  const auto signatures = [&] {
    const auto layout = OciLayout::Open(Path("other"));
    const auto text = layout->ReadManifest(*layout->FindTag(tag));
    std::vector<std::string> all;
    for (const StoredSignature& one : SignaturesOf(*ParseSignatureManifest("it", *text))) {
      EXPECT_TRUE(layout->CheckBlob(one.payload));
      all.push_back(*one.signature);
    }
    EXPECT_TRUE(layout->CheckBlob(ParseSignatureManifest("it", *text)->config));
    return all;
  };
  for (const bool force : {false, true, false}) {
    const auto report = CopyTo(Ref(), Ref("v1", "other"), {.force = force});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(signatures(), ElementsAre("another signature", "signature"));
  }
  const auto again = CopyTo(Ref(), Ref("v1", "other"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->added_bytes(), 0u);
}

TEST_F(CopyTest, ASecondRunWritesNothing) {
  ASSERT_TRUE(CopyTo(Ref(), Ref("v1", "other")));
  const auto before = tiny::Tree(dir_ / "other");
  const auto again = CopyTo(Ref(), Ref("v1", "other"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->added_bytes(), 0u);
  EXPECT_TRUE(tiny::Tree(dir_ / "other") == before);
}

TEST_F(CopyTest, ADryRunWritesNothingAndCountsTheSameBytes) {
  const auto dry = CopyTo(Ref(), Ref("v1", "other"), {.dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_FALSE(fs::exists(dir_ / "other"));
  const auto real = CopyTo(Ref(), Ref("v1", "other"));
  ASSERT_TRUE(real);
  EXPECT_EQ(dry->added_bytes(), real->added_bytes());
  EXPECT_EQ(CopyTo(Ref(), Ref("v1", "other"), {.dry_run = true})->there_bytes(),
            real->added_bytes());
}

TEST_F(CopyTest, CopiesADistributionDirectoryAsItWouldBePublished) {
  const Reference files{Reference::Kind::kFiles, Path("dist"), "", ""};
  const auto report = CopyTo(files, Ref("v1", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->digest(), digest_);
  EXPECT_THAT(Tags(*report), ElementsAre("v1"));
  EXPECT_EQ(fs::hard_link_count(dir_ / "dist/assets/config.json"), 1u) << "people edit it";
  EXPECT_EQ(Refusal(files, Ref("v1", "dist/layout")).code, Code::kInvalidArgument);
}

TEST_F(CopyTest, MovesATagOnlyOnRequest) {
  ASSERT_TRUE(CopyTo(Ref("v1-g000"), Ref("v1", "other")));
  const Error error = Refusal(Ref(), Ref("v1", "other"));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("tag \"v1\": expected " + digest_));
  EXPECT_THAT(error.hint, HasSubstr("--force"));
  EXPECT_TRUE(CopyTo(Ref(), Ref("v1", "other"), {.force = true}));
  EXPECT_EQ(OciLayout::Open(Path("other"))->FindTag("v1")->digest, digest_);
}

TEST_F(CopyTest, NamesAMissingBlobAndCopiesNothing) {
  fs::remove(BlobPath(DigestOfLayer("groups/001/experts.safetensors")));
  const Error error = Refusal(Ref(), Ref("v1", "other"));
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("found none of groups/001/experts.safetensors"));
  EXPECT_EQ(error.hint,
            "a node view that is whole can be copied: " + ReferenceText(Ref("v1-g000")));
  EXPECT_FALSE(fs::exists(dir_ / "other"));
  EXPECT_TRUE(CopyTo(Ref("v1-g000"), Ref("v1", "other")));
}

TEST_F(CopyTest, DoesNotReadBlobsThatTheTargetHas) {
  ASSERT_TRUE(CopyTo(Ref(), Ref("v1", "other")));
  fs::remove(BlobPath(DigestOfLayer("groups/001/experts.safetensors")));
  const auto report = CopyTo(Ref(), Ref("v2", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->digest(), digest_);
  EXPECT_THAT(Tags(*report), ElementsAre("v2", "v2-g000", "v2-g001", "v2-g002"));
  EXPECT_EQ(report->added_bytes(), 0u);
  const auto pulled = PullGroups({1}, Ref("v2", "other"));
  EXPECT_TRUE(pulled) << pulled.error().message;
}

TEST_F(CopyTest, ADamagedBlobEndsTheRunAndNoTagIsSet) {
  const fs::path blob = BlobPath(DigestOfLayer("trunk/trunk.safetensors"));
  std::string bytes = fixtures::ReadFile(blob);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fs::remove(blob);
  fixtures::WriteFile(blob, bytes);
  const Error error = Refusal(Ref(), Ref("v1", "other"));
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("sha256: expected "));
  EXPECT_THAT(error.hint, HasSubstr("publish the distribution to it again"));
  EXPECT_TRUE(Read("other/index.json")["manifests"].empty());
}

TEST_F(CopyTest, AnIndexIsRefused) {
  Json index = Read("layout/index.json");
  index["manifests"][0]["mediaType"] = kIndexType;
  index["manifests"][0].update(AddBlob(R"({"schemaVersion":2,"manifests":[]})"));
  fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
  const Error error = Refusal(Ref(), Ref("v1", "other"));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.hint, HasSubstr("name one of its manifests by its digest"));
}

TEST_F(CopyTest, CopiesForeignImages) {
  Json image = {{"schemaVersion", 2}};
  image["config"] = AddBlob("{}");
  image["config"]["mediaType"] = kImageConfigType;
  Json layer = AddBlob("a layer");
  layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar";
  image["layers"] = Json::array({layer});
  const Json blob = AddBlob(image.dump());
  const auto report = CopyTo(Ref().With("", blob["digest"]), Ref("image", "other"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(blob["digest"], report->digest());
  EXPECT_EQ(Blobs("other").size(), 3u);
}

TEST_F(CopyTest, RefusesUnclearTargets) {
  const Reference pinned = Ref().With("", digest_);
  EXPECT_THAT(Refusal(pinned, Ref("", "other")).message, HasSubstr("expected a tag to copy to"));
  EXPECT_EQ(Refusal(Ref(), pinned).code, Code::kInvalidArgument);
  EXPECT_EQ(Refusal(Ref("v9"), Ref("", "other")).code, Code::kNotFound);
  EXPECT_EQ(
      Refusal(Ref(), {Reference::Kind::kFiles, Path("other"), "", ""}, {.dry_run = true}).code,
      Code::kInvalidArgument);
  EXPECT_THAT(Refusal(Ref(), Ref(std::string(128, 'v'), "other")).hint, HasSubstr("--no-views"));
}

}  // namespace
}  // namespace moepack::registry
