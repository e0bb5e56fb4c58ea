// The statements of a distribution about a source that was read from another machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/digest.h"
#include "manifest/write/merge_parts.h"
#include "tests/libshard/pack/far_source.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

const std::string kCommit(40, 'c');

class WriteFromAfar : public testing::Test {
 protected:
  // The tiny model on another machine that publishes the digests `published` for its files; ""
  // stands for the real ones.
  WriteFromAfar() { Serve(); }
  void Serve(const std::map<std::string, std::string>& published = {}) {
    tree_ = std::make_shared<MemoryTree>("hf://owner/tiny");
    for (const auto& entry : fs::directory_iterator(tiny::kSource)) {
      const std::string name = entry.path().filename(), bytes = fixtures::ReadFile(entry.path());
      Origin origin{"hf://owner/tiny@c/" + name, kCommit, "", Sha256Hex(bytes)};
      if (published.contains(name)) origin.sha256 = published.at(name);
      tree_->Add(name, std::make_shared<const FarSource>(name, bytes, origin));
    }
  }
  Result<WriteReport> Write(const std::string& name, const WriteOptions& options = tiny::Only()) {
    SHARD_TRY(MoeModel model, MoeModel::Open(Source{"hf://owner/tiny", tree_, ""}, {}));
    return WriteDistribution(model, tiny::Plan(model), (dir_ / name).string(), options);
  }
  std::string Note(const std::string& name, const VerifyOptions& options = {}) {
    const auto report = VerifyDistribution((dir_ / name).string(), options);
    EXPECT_TRUE(report && report->passed());
    if (!report) return "";
    for (const Finding& finding : report->findings)
      if (finding.rule == "source-origin") return finding.message;
    return "none";
  }

  fixtures::TempDir dir_;
  std::shared_ptr<MemoryTree> tree_;
};

TEST_F(WriteFromAfar, TheManifestRecordsAddressCommitAndPublishedDigest) {
  const auto report = Write("out");
  ASSERT_TRUE(report) << report.error().message;
  const SourceRecord& source = report->manifest.model.source[0];
  ASSERT_TRUE(source.origin);
  EXPECT_EQ(source.origin->url, "hf://owner/tiny@c/model-00001-of-00003.safetensors");
  EXPECT_EQ(source.origin->commit, kCommit);
  EXPECT_EQ(source.origin->sha256, Sha256Hex(fixtures::ReadFile(tiny::kSource / source.file)));
  EXPECT_FALSE(source.whole);
  const std::string text = fixtures::ReadFile(dir_ / "out" / kManifestFile);
  EXPECT_THAT(text, HasSubstr("\"commit\": \"" + kCommit + "\", \"published_sha256\": \""));
  EXPECT_THAT(text, HasSubstr("\"verified\": \"transport\""));
  EXPECT_EQ(WriteManifest(*ParseManifest("m", text)), text);
  EXPECT_THAT(Note("out"), HasSubstr("3 of 3 source files came over a network"));
  EXPECT_THAT(Note("out"), HasSubstr("3 verified by transport only"));
}

TEST_F(WriteFromAfar, OnlyTheOriginDiffersFromABuildOfLocalFiles) {
  ASSERT_TRUE(Write("far"));
  ASSERT_TRUE(tiny::Write(dir_ / "near"));
  auto far = tiny::Tree(dir_ / "far"), near = tiny::Tree(dir_ / "near");
  EXPECT_NE(far.at(kManifestFile), near.at(kManifestFile));
  Manifest manifest = *ReadManifest((dir_ / "far").string());
  for (SourceRecord& source : manifest.model.source) source.origin.reset();
  far[kManifestFile] = WriteManifest(manifest);
  for (auto* files : {&far, &near}) files->erase("README.md");  // it names the source
  EXPECT_TRUE(far == near);
  EXPECT_EQ(Note("near"), "none");
}

TEST_F(WriteFromAfar, VerifySourceChecksEveryWholeFile) {
  WriteOptions options = tiny::Only();
  options.verify_source = true;
  const auto report = Write("out", options);
  ASSERT_TRUE(report) << report.error().message;
  for (const SourceRecord& source : report->manifest.model.source)
    EXPECT_TRUE(source.whole) << source.file;
  EXPECT_THAT(fixtures::ReadFile(dir_ / "out" / kManifestFile),
              HasSubstr("\"verified\": \"whole\""));
  EXPECT_THAT(Note("out"), HasSubstr("all were read whole and have the published SHA-256"));
}

TEST_F(WriteFromAfar, AFileThatDiffersFromThePublishedOneEndsTheRun) {
  const std::string file = "model-00002-of-00003.safetensors", other(64, 'a');
  Serve({{file, other}});
  WriteOptions options = tiny::Only();
  for (bool WriteOptions::*digest : {&WriteOptions::verify_source, &WriteOptions::hash_source}) {
    options.verify_source = options.hash_source = false;
    options.*digest = true;
    const auto report = Write("out", options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kCorrupt);
    EXPECT_THAT(report.error().message,
                HasSubstr(file + ": SHA-256: expected " + other + " as published, found "));
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  }
}

TEST_F(WriteFromAfar, AnAssetThatDiffersFromThePublishedOneEndsTheRun) {
  Serve({{"tokenizer.json", std::string(64, 'a')}});
  const auto report = Write("out");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kCorrupt);
  EXPECT_THAT(report.error().message, HasSubstr("tokenizer.json: SHA-256: expected aaaa"));
}

TEST_F(WriteFromAfar, VerifySourceIsRefusedWithoutPublishedDigests) {
  WriteOptions options = tiny::Only();
  options.verify_source = true;
  const auto near = tiny::Write(dir_ / "near", options);
  ASSERT_FALSE(near);
  EXPECT_EQ(near.error().code, Code::kUnsupported);
  EXPECT_THAT(near.error().message, HasSubstr("expected a published SHA-256, found none"));
  EXPECT_THAT(near.error().hint, HasSubstr("--hash-source"));
  Serve({{"model-00003-of-00003.safetensors", ""}});
  const auto far = Write("far", options);
  ASSERT_FALSE(far);
  EXPECT_THAT(far.error().message, HasSubstr("model-00003-of-00003.safetensors: expected a publ"));
}

TEST_F(WriteFromAfar, VerificationComparesThePublishedDigests) {
  ASSERT_TRUE(Write("out"));
  const std::string file = "model-00002-of-00003.safetensors";
  Manifest manifest = *ReadManifest((dir_ / "out").string());
  VerifyOptions options;
  options.against = tiny::kSource.string();
  EXPECT_TRUE(Verify(dir_ / "out", options).passed()) << "the files themselves are hashed";
  manifest.model.source[1].origin->sha256 = std::string(64, 'a');
  fixtures::WriteFile(dir_ / "out" / kManifestFile, WriteManifest(manifest));
  EXPECT_THAT(TextOf(Verify(dir_ / "out", options)),
              HasSubstr("source file \"" + file + "\": published_sha256: expected "));
  options.against_source = Source{"hf://owner/tiny", tree_, ""};
  EXPECT_THAT(TextOf(Verify(dir_ / "out", options)),
              HasSubstr("source file \"" + file + "\": published_sha256: expected "));
}

class OriginClaims : public WriteFromAfar {
 protected:
  std::vector<std::string> Claims(const VerifyOptions& options) {
    const auto report = VerifyDistribution((dir_ / "out").string(), options);
    EXPECT_TRUE(report && report->passed());
    std::vector<std::string> claims;
    for (const Finding& finding : report->findings) {
      if (finding.severity != Severity::kClaim) continue;
      EXPECT_EQ(finding.rule, "source-claims");
      claims.push_back(finding.message);
    }
    return claims;
  }
  void Change(const std::function<void(Origin&)>& change) {
    Manifest manifest = *ReadManifest((dir_ / "out").string());
    for (SourceRecord& source : manifest.model.source) change(*source.origin);
    fixtures::WriteFile(dir_ / "out" / kManifestFile, WriteManifest(manifest));
  }
};

TEST_F(OriginClaims, NameAnOriginThatTheSourceDoesNotProve) {
  WriteOptions written = tiny::Only();
  written.verify_source = true;
  ASSERT_TRUE(Write("out", written));
  VerifyOptions options;
  options.against_source = Source{"hf://owner/tiny", tree_, ""};
  options.against = "hf://owner/tiny";
  // The same source proves it, and only what no source says is left.
  ASSERT_EQ(Claims(options).size(), 1u);
  EXPECT_THAT(Claims(options)[0],
              HasSubstr("the source cannot prove these statements of the writer: "));
  EXPECT_THAT(Claims(options)[0], HasSubstr("tool.version"));
  // Files of this machine may have come from anywhere.
  VerifyOptions local;
  local.against = tiny::kSource.string();
  ASSERT_EQ(Claims(local).size(), 2u);
  EXPECT_THAT(Claims(local)[0],
              HasSubstr("source file \"model-00001-of-00003.safetensors\" and 2 more: url "
                        "\"hf://owner/tiny@c/model-00001-of-00003.safetensors\", commit " +
                        kCommit +
                        ", verified whole: expected a source from there, found files of "
                        "this machine"));
  for (const auto& change : std::vector<std::function<void(Origin&)>>{
           [](Origin& origin) { origin.url = "https://example.org/other"; },
           [](Origin& origin) { origin.commit = std::string(40, 'd'); }}) {
    Change(change);
    ASSERT_EQ(Claims(options).size(), 2u);
    EXPECT_THAT(Claims(options)[0], HasSubstr("and 2 more: url "));
    EXPECT_THAT(Claims(options)[0], HasSubstr(", found \"hf://owner/tiny@c\", commit " + kCommit));
  }
}

std::vector<SourceRecord> RecordOf(std::optional<Origin> origin, std::string sha256 = "",
                                   bool whole = false) {
  return {{"f", 1, std::string(64, 'a'), std::move(sha256), std::move(origin), whole}};
}

TEST(MergeSourceRecords, TheResultDoesNotDependOnTheOrder) {
  const std::string a(64, 'a');
  const Origin hub{"hf://owner/m@c/f", kCommit, "", a}, mirror{"https://host/f", "", "ETag 1", a};
  for (const auto& [first, second] :
       {std::pair{RecordOf(hub), RecordOf(mirror)}, {RecordOf(mirror), RecordOf(hub)}}) {
    std::vector<SourceRecord> merged = first;
    ASSERT_TRUE(MergeSourceRecords("x", second, merged));
    EXPECT_EQ(merged[0].origin, hub);
  }
}

TEST(MergeSourceRecords, RefusesPartsOfIncomparableSources) {
  const std::string a(64, 'a');
  const Origin one{"https://host/f", "", "ETag \"1\"", ""}, changed{one.url, "", "ETag \"2\"", ""},
      other{"https://other/f", "", "ETag \"1\"", ""};
  for (const Origin& second : {changed, other}) {
    std::vector<SourceRecord> merged = RecordOf(one);
    const Status status = MergeSourceRecords("x", RecordOf(second), merged);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kMismatch);
    EXPECT_THAT(status.error().message,
                HasSubstr("expected \"https://host/f\" with ETag \"1\", found \"" + second.url));
    EXPECT_THAT(status.error().hint, HasSubstr("--hash-source"));
    std::vector<SourceRecord> hashed = RecordOf(one, a);
    EXPECT_TRUE(MergeSourceRecords("x", RecordOf(second, a), hashed));
  }
  std::vector<SourceRecord> same = RecordOf(one);
  EXPECT_TRUE(MergeSourceRecords("x", RecordOf(one), same));
  EXPECT_TRUE(MergeSourceRecords("x", RecordOf(std::nullopt), same));
}

TEST(MergeSourceRecords, AFileIsVerifiedOnlyIfEveryPartVerifiedIt) {
  const std::string a(64, 'a');
  const Origin hub{"hf://owner/m@c/f", kCommit, "", a};
  std::vector<SourceRecord> both = RecordOf(hub, a, true);
  ASSERT_TRUE(MergeSourceRecords("x", RecordOf(hub, a, true), both));
  EXPECT_TRUE(both[0].whole);
  for (const auto& second : {RecordOf(hub), RecordOf(std::nullopt), RecordOf(hub, a)}) {
    std::vector<SourceRecord> merged = RecordOf(hub, a, true);
    ASSERT_TRUE(MergeSourceRecords("x", second, merged));
    EXPECT_FALSE(merged[0].whole);
    EXPECT_EQ(merged[0].sha256, a);
  }
}

TEST(MergeSourceRecords, RefusesOtherPublishedDigestsAsOtherWeights) {
  const std::string a(64, 'a'), b(64, 'b');
  std::vector<SourceRecord> merged = RecordOf(Origin{"https://a/f", "", "", a});
  const Status status = MergeSourceRecords("x", RecordOf(Origin{"https://b/f", "", "", b}), merged);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kMismatch);
  EXPECT_THAT(status.error().message, HasSubstr("SHA-256: expected " + a + ", found " + b));
}

}  // namespace
}  // namespace moepack::manifest
