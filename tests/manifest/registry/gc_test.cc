#include "manifest/registry/gc.h"

#include <gmock/gmock.h>

#include <chrono>

#include "manifest/registry/sign/signature_manifest.h"
#include "manifest/registry/tag.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class GcTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  Result<GcReport> Collect(const GcOptions& options = {}) const {
    return CollectGarbage(Path("layout"), options);
  }
  // Nothing may be removed.
  Error Refusal() const {
    const auto before = tiny::Tree(dir_ / "layout/blobs");
    const auto report = Collect();
    EXPECT_TRUE(tiny::Tree(dir_ / "layout/blobs") == before);
    return report ? Error{Code::kInterrupted, "no error"} : report.error();
  }
  void RemoveTag(const std::string& tag, bool views = true) const {
    const auto removed = RemoveTags(Ref(tag), {.views = views});
    ASSERT_TRUE(removed) << removed.error().message;
  }
  // Adds an entry to index.json.
  void List(Json blob, const std::string& media_type) const {
    blob["mediaType"] = media_type;
    Json index = Read("layout/index.json");
    index["manifests"].push_back(blob);
    fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
  }
  // Adds what is stored of a signature, and returns the descriptor of its manifest.
  Json Sign(const std::string& digest) const {
    const SignatureBlobs blobs = AddSignature(nullptr, "signs " + digest, "a signature");
    AddBlob(blobs.payload.text);
    AddBlob(blobs.config.text);
    Json manifest = AddBlob(blobs.manifest.text);
    manifest["annotations"]["org.opencontainers.image.ref.name"] = SignatureTag(digest);
    List(manifest, kManifestType);
    return manifest;
  }
  bool IsThere(const Json& blob) const { return fs::exists(BlobPath(blob["digest"])); }
  void Age(const std::string& file, int days) const {
    fs::last_write_time(dir_ / file,
                        fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
  }
};

TEST_F(GcTest, KeepsWhatTagsReach) {
  const auto before = tiny::Tree(dir_ / "layout");
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->removed.empty());
  EXPECT_EQ(report->kept_blobs, tiny::Tree(dir_ / "layout/blobs").size());
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
}

TEST_F(GcTest, RemovesWhatNoTagReaches) {
  RemoveTag("v1", false);
  const auto without_set = Collect();
  ASSERT_TRUE(without_set) << without_set.error().message;
  EXPECT_EQ(without_set->removed.size(), 2u)
      << "only its manifest and config; the views use the files";
  EXPECT_TRUE(PullGroups({}, Ref("v1-g001")));
  RemoveTag("v1-g001");
  ASSERT_TRUE(Collect());
  EXPECT_FALSE(fs::exists(BlobPath(
      "sha256:" + Sha256Hex(fixtures::ReadFile(dir_ / "dist/groups/001/experts.safetensors")))));
  EXPECT_TRUE(PullGroups({}, Ref("v1-g000"), "node"));
  for (const char* tag : {"v1-g000", "v1-g002"}) RemoveTag(tag);
  ASSERT_TRUE(Collect());
  EXPECT_TRUE(fs::is_empty(dir_ / "layout/blobs/sha256"));
}

TEST_F(GcTest, ADryRunRemovesNothingAndCountsTheSame) {
  RemoveTag("v1");
  const auto before = tiny::Tree(dir_ / "layout");
  const auto dry = Collect({.dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_TRUE(tiny::Tree(dir_ / "layout") == before);
  const auto real = Collect();
  ASSERT_TRUE(real);
  EXPECT_EQ(dry->removed_bytes(), real->removed_bytes());
  EXPECT_EQ(dry->freed_bytes(), real->freed_bytes());
  EXPECT_GT(real->removed_bytes(), 0u);
}

// The distribution's own file is another link to the bundle.
TEST_F(GcTest, RemovingALinkedBlobFreesNothing) {
  RemoveTag("v1");
  const auto report = Collect();
  ASSERT_TRUE(report);
  EXPECT_LT(report->freed_bytes(), report->removed_bytes());
  for (const GcReport::Removed& one : report->removed) EXPECT_TRUE(one.file.starts_with("blobs/"));
  EXPECT_TRUE(fs::exists(dir_ / "dist/trunk/trunk.safetensors"));
}

TEST_F(GcTest, KeepsForeignArtifacts) {
  Json inner = AddBlob("a layer of somebody");
  inner["mediaType"] = "x/layer";
  Json image = AddBlob(Json{{"schemaVersion", 2}, {"future", {{"things", {inner}}}}}.dump());
  image["mediaType"] = "application/vnd.future.manifest";
  const Json nested = AddBlob(Json{{"schemaVersion", 2}, {"manifests", {image}}}.dump());
  const Json text = AddBlob("<xml/>");
  const Json garbage = AddBlob("nobody names it");
  List(nested, kIndexType);
  List(text, "text/xml");
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  for (const Json& kept : {inner, image, nested, text}) EXPECT_TRUE(IsThere(kept)) << kept;
  EXPECT_FALSE(IsThere(garbage));
  EXPECT_EQ(report->removed.size(), 1u);
}

TEST_F(GcTest, AManifestThatCannotBeReadEndsTheRun) {
  AddBlob("nobody names it");
  const fs::path blob = BlobPath(digest_);
  const std::string bytes = fixtures::ReadFile(blob);
  fs::remove(blob);
  const Error absent = Refusal();
  EXPECT_EQ(absent.code, Code::kNotFound);
  EXPECT_THAT(absent.message, HasSubstr(digest_));
  EXPECT_THAT(absent.hint, HasSubstr("nothing was removed"));
  fixtures::WriteFile(blob, std::string(bytes.size(), ' '));
  EXPECT_EQ(Refusal().code, Code::kCorrupt);
  fs::remove(blob);
  fs::create_symlink(dir_ / "dist/README.md", blob);
  EXPECT_EQ(Refusal().code, Code::kCorrupt);
}

TEST_F(GcTest, AManifestWithDigestsOfAnotherKindEndsTheRun) {
  AddBlob("nobody names it");
  List(AddBlob(R"({"layers":[{"mediaType":"x","digest":"sha512:00","size":1}]})"), kManifestType);
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("digest: expected sha256: and 64 hexadecimal digits, found "
                                       "\"sha512:00\""));
}

// The subject of a manifest may be in another store.
TEST_F(GcTest, IgnoresAMissingSubject) {
  const Json subject = {
      {"mediaType", kManifestType}, {"digest", "sha256:" + std::string(64, '0')}, {"size", 1}};
  const Json about = AddBlob(Json{{"schemaVersion", 2}, {"subject", subject}}.dump());
  const Json garbage = AddBlob("nobody names it");
  List(about, kManifestType);
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(IsThere(about));
  EXPECT_FALSE(IsThere(garbage));
  EXPECT_EQ(report->removed.size(), 1u);
}

// A signature is kept for what it signs, which may be a signature, too.
TEST_F(GcTest, SignaturesDoNotOutliveWhatTheySign) {
  const std::string view = OciLayout::Open(Path("layout"))->FindTag("v1-g001")->digest;
  const Json of_set = Sign(digest_), of_view = Sign(view), of_signature = Sign(of_set["digest"]);
  const Json of_nothing = Sign("sha256:" + std::string(64, '0'));
  const auto first = Collect();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(first->signatures, ElementsAre("sha256-" + std::string(64, '0') + ".sig"));
  for (const Json& kept : {of_set, of_view, of_signature}) EXPECT_TRUE(IsThere(kept));
  EXPECT_FALSE(IsThere(of_nothing));
  RemoveTag("v1", false);
  const auto index = Read("layout/index.json");
  const auto dry = Collect({.dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(dry->signatures.size(), 2u);
  EXPECT_EQ(Read("layout/index.json"), index);
  const auto second = Collect();
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->signatures, dry->signatures);
  EXPECT_FALSE(IsThere(of_set) || IsThere(of_signature));
  EXPECT_TRUE(IsThere(of_view));
  const auto layout = OciLayout::Open(Path("layout"));
  EXPECT_FALSE(layout->FindTag(SignatureTag(digest_)));
  EXPECT_TRUE(layout->FindTag(SignatureTag(view)));
}

// Nothing needs them, so nothing is read from them.
TEST_F(GcTest, ACorruptSignatureOfWhatIsGoneIsRemoved) {
  const Json corrupt = Sign("sha256:" + std::string(64, '0'));
  fixtures::WriteFile(BlobPath(corrupt["digest"]), "other bytes");
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(IsThere(corrupt));
}

TEST_F(GcTest, LeavesLinksAndForeignFilesAlone) {
  const std::string digits(64, 'a');
  fs::create_symlink(dir_ / "dist/README.md", dir_ / ("layout/blobs/sha256/" + digits));
  fixtures::WriteFile(dir_ / "layout/blobs/sha256/notes.txt", "mine");
  fs::create_directories(dir_ / "layout/blobs/sha512");
  fixtures::WriteFile(dir_ / "layout/blobs/sha512/00", "another algorithm");
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->removed.empty());
  EXPECT_THAT(report->left_alone, ElementsAre("blobs/sha256/" + digits, "blobs/sha256/notes.txt"));
  EXPECT_TRUE(fs::exists(dir_ / "dist/README.md"));
  EXPECT_TRUE(fs::exists(dir_ / "layout/blobs/sha512/00"));
}

TEST_F(GcTest, RemovesOldPartialFiles) {
  for (const char* file : {"new.part", "new.cells", "old.part", "old.cells", "rest"})
    fixtures::WriteFile(dir_ / "layout/ingest" / file, "half");
  Age("layout/ingest/old.part", 8);
  Age("layout/ingest/old.cells", 8);
  const auto report = Collect();
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(tiny::Names(dir_ / "layout/ingest"), ElementsAre("new.cells", "new.part"));
  EXPECT_EQ(report->kept_partial, 2u);
  EXPECT_EQ(report->freed_bytes(), 12u);
  ASSERT_TRUE(Collect({.older_than = 0}));
  EXPECT_TRUE(fs::is_empty(dir_ / "layout/ingest"));
}

TEST_F(GcTest, RefusesToRunWhileAnotherProcessWrites) {
  const auto writing = OciLayout::OpenOrMake(Path("layout"));
  ASSERT_TRUE(writing);
  const auto refused = Collect();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr("another process is changing it"));
  EXPECT_TRUE(Collect({.dry_run = true}));
}

TEST_F(GcTest, RefusesToRunTwiceAtOnce) {
  const Json garbage = AddBlob("nobody names it");
  {
    const auto first = OciLayout::OpenLocked(Path("layout"));
    ASSERT_TRUE(first) << first.error().message;
    const auto second = OciLayout::OpenLocked(Path("layout"));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kIo);
    const Error error = Refusal();
    EXPECT_EQ(error.code, Code::kIo);
    EXPECT_THAT(error.message, HasSubstr("another process is changing it"));
    EXPECT_THAT(error.hint, HasSubstr("wait for it"));
  }
  const auto later = Collect();
  ASSERT_TRUE(later) << later.error().message;
  EXPECT_FALSE(IsThere(garbage));
}

TEST_F(GcTest, DoesNotTurnOtherDirectoriesIntoALayout) {
  fs::create_directories(dir_ / "empty");
  EXPECT_EQ(CollectGarbage(Path("empty"), {}).error().code, Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(dir_ / "empty"));
  EXPECT_EQ(CollectGarbage(Path("absent"), {}).error().code, Code::kNotFound);
}

// The worst moment: the pull has checked every blob, but read none yet.
TEST_F(GcTest, APullThatLosesItsBlobsFailsAndLeavesNothing) {
  PullOptions options;
  options.planned = [&](const PullReport&) {
    RemoveTag("v1");
    EXPECT_TRUE(Collect());
  };
  const auto pulled = PullGroups({1}, Ref(), "out", options);
  ASSERT_FALSE(pulled);
  EXPECT_EQ(pulled.error().code, Code::kNotFound);
  EXPECT_THAT(pulled.error().message, HasSubstr("found no such blob"));
  EXPECT_THAT(pulled.error().hint, HasSubstr("publish the distribution to it again"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

}  // namespace
}  // namespace moepack::registry
