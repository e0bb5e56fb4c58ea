// Distributions that contradict their manifest, or lack what is requested.
#include <gmock/gmock.h>

#include <algorithm>

#include "fixtures/temp_dir.h"
#include "libshard/format/gguf.h"
#include "tests/manifest/find_bundle.h"
#include "tests/runtime-shim/load/sample.h"

namespace moepack::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

void FlipBit(const fs::path& file, size_t at) {
  std::string bytes = fixtures::ReadFile(file);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
  fixtures::WriteFile(file, bytes);
}

LoadOptions ByFiles() {
  LoadOptions options;
  options.verify_files = true;
  return options;
}

// Each case with safetensors and with GGUF bundles.
class LoadDamage : public testing::TestWithParam<const char*> {
 protected:
  fs::path Split(const std::string& name, SplitOptions options = {},
                 const fs::path& source = tiny::kSource) {
    options.recipe = GetParam();
    WriteSplit(source, dir_ / name, options);
    return dir_ / name;
  }
  std::string File(const std::string& stem) const {
    return stem + (*GetParam() == '\0' ? ".safetensors" : ".gguf");
  }
  template <class Edit>
  static void EditManifest(const fs::path& split, const Edit& edit) {
    manifest::Manifest manifest = *manifest::ReadManifest(split.string());
    edit(manifest);
    fixtures::WriteFile(split / "distribution.json", WriteManifest(manifest));
  }
  static LoadOptions Overlay(const std::string& version) {
    LoadOptions options;
    options.overlay_version = version;
    return options;
  }
  fixtures::TempDir dir_;
};

TEST_P(LoadDamage, ATamperedPartIsRefusedByName) {
  const fs::path split = Split("split");
  const std::string file = File("groups/001/experts");
  const manifest::Manifest manifest = *manifest::ReadManifest(split.string());
  const manifest::TensorRecord& last = manifest::FindBundle(manifest, file)->tensors.back();
  FlipBit(split / file, last.offset + last.bytes - 1);
  Error error = Refusal(split);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message,
              HasSubstr(file + ": tensor \"" + last.name + "\": xxh3-128: expected " + last.xxh3));
  EXPECT_THAT(error.hint, HasSubstr("moepack verify"));
  error = Refusal(split, ByFiles());
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr(file + ": sha256: expected "));
  EXPECT_EQ(Load(split, Groups({0}))->sets.size(), 2u);  // only loaded bytes are read
  EXPECT_EQ(Load(split, Unverified())->sets.size(), 3u);
}

// The head of a GGUF distribution, and the assets of another, have no tensors.
TEST_P(LoadDamage, ComparesTheDigestOfAFileWithoutTensors) {
  const fs::path split = Split("split");
  const std::string file = *GetParam() == '\0' ? "assets/tokenizer.json" : "head/head.gguf";
  FlipBit(split / file, fs::file_size(split / file) / 2);
  const Error error = Refusal(split);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr(file + ": sha256: expected "));
}

TEST_P(LoadDamage, RefusesAPartOfTheWrongSizeBeforeReadingIt) {
  const fs::path split = Split("split"), file = split / File("overlays/one/experts");
  fixtures::WriteFile(file, fixtures::ReadFile(file) + "more");
  const Error error = Refusal(split);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, AllOf(HasSubstr(File("overlays/one/experts")), HasSubstr("size")));
}

TEST_P(LoadDamage, VersionsMustMatchPartitionAndOverlay) {
  const fs::path split = Split("split");
  EditManifest(split, [](manifest::Manifest& m) { m.versions.shard = "0123456789abcdef"; });
  EXPECT_THAT(Refusal(split).message, HasSubstr("distribution.json: versions: shard"));
  EditManifest(split, [](manifest::Manifest& m) {
    m.versions = manifest::ComputeVersions(m.versions.model, m.plan);
    m.versions.replica = "0123456789abcdef";
  });
  const Error error = Refusal(split);
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("versions: replica"));
}

TEST_P(LoadDamage, TheHeaderRevealsAPartOfAnotherPartition) {
  const fs::path split = Split("split"), other = Split("other", {.groups = 4});
  fs::copy_file(other / File("groups/001/experts"), split / File("groups/001/experts"),
                fs::copy_options::overwrite_existing);
  for (const bool verify : {true, false}) {
    LoadOptions options;
    options.verify = verify;
    const Error error = Refusal(split, options);
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message, HasSubstr(File("groups/001/experts")));
  }
}

// The same names, types and shapes: only the file's statement about its model distinguishes them.
TEST_P(LoadDamage, TheHeaderRevealsAPartOfAnotherModel) {
  fixtures::Options seed;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "a", seed));
  seed.seed = 2;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "b", seed));
  for (const char* revision : {"", "main"}) {
    const fs::path split =
        Split("split" + std::string(revision), {.revision = revision}, dir_ / "a");
    const fs::path other =
        Split("other" + std::string(revision), {.revision = revision}, dir_ / "b");
    fs::copy_file(other / File("groups/001/experts"), split / File("groups/001/experts"),
                  fs::copy_options::overwrite_existing);
    EXPECT_EQ(Refusal(split).code, Code::kMismatch);
    const Error error = Refusal(split, Unverified());
    EXPECT_EQ(error.code, Code::kMismatch);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(File("groups/001/experts")), HasSubstr("moepack.model: expected")));
  }
}

TEST_P(LoadDamage, AnErrorForAMissingGroupListsTheExistingOnes) {
  const fs::path split = Split("split", {.groups = 3});
  Error error = Refusal(split, Groups({7}));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("group: expected 0 to 2, found 7"));
  const fs::path some =
      Split("some", {.groups = 3, .parts = {"trunk,group:0,group:2,overlay,assets"}});
  error = Refusal(some, Groups({0, 1}));
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("group: expected one of 0,2, found 1"));
  EXPECT_THAT(error.hint, HasSubstr("shard-experts --only"));
  EXPECT_EQ(Refusal(some, Groups({0, 3})).code, Code::kInvalidArgument);
  const WeightsPtr weights = Load(some);
  EXPECT_EQ(weights->sets.size(), 3u);
  EXPECT_THAT(weights->notes, testing::Contains("group 1 is not in this distribution"));
}

TEST_P(LoadDamage, NamesPartsThatWereLeftOut) {
  const auto refusal = [&](const std::string& name, const std::string& parts) {
    const Error error = Refusal(Split(name, {.parts = {parts}}));
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.hint, HasSubstr("--only"));
    return error.message;
  };
  EXPECT_THAT(refusal("a", "trunk,group:0,group:1,assets"), HasSubstr("overlay one: expected"));
  EXPECT_THAT(refusal("b", "trunk,overlay,assets"), HasSubstr("groups: expected"));
  const std::string trunk = *GetParam() == '\0' ? "trunk: expected" : "head: expected";
  EXPECT_THAT(refusal("c", "group:0,group:1,overlay,assets"), HasSubstr(trunk));
  EXPECT_EQ(Load(dir_ / "a", Groups({}, false))->sets.size(), 2u);
}

TEST_P(LoadDamage, NamesAMissingFile) {
  const fs::path split = Split("split");
  fs::remove(split / File("groups/001/experts"));
  for (const bool verify : {true, false}) {
    LoadOptions options;
    options.verify = verify;
    const Error error = Refusal(split, options);
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message, HasSubstr(File("groups/001/experts")));
  }
}

TEST_P(LoadDamage, AnOverlayMustBeInTheManifest) {
  const fs::path split = Split("split");
  EXPECT_EQ(Load(split, Overlay("one"))->sets.size(), 3u);
  Error error = Refusal(split, Overlay("two"));
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr("overlay \"two\": expected in the manifest, found only "));
  EXPECT_EQ(error.hint, "");
  fs::create_directories(split / "overlays/two");
  ASSERT_TRUE(fixtures::WriteFile(split / "overlays/two/experts.gguf", "GGUF"));
  EXPECT_THAT(Refusal(split, Overlay("two")).hint, HasSubstr("the manifest is older"));
  EXPECT_EQ(Refusal(split, Overlay("../overlays/two")).hint, "");
  const fs::path plain = Split("plain", {.overlay = ""});
  EXPECT_EQ(Load(plain)->sets.size(), 2u);
  EXPECT_THAT(Refusal(plain, Overlay("two")).message, HasSubstr("in the manifest, found none"));
}

TEST_P(LoadDamage, ATamperedOverlayIsRefused) {
  const fs::path split = Split("split");
  const std::string file = File("overlays/one/experts");
  const manifest::Manifest manifest = *manifest::ReadManifest(split.string());
  FlipBit(split / file, manifest::FindBundle(manifest, file)->tensors.front().offset);
  EXPECT_EQ(Refusal(split, Overlay("one")).code, Code::kMismatch);
  EXPECT_EQ(Load(split, Groups({}, false))->sets.size(), 2u);
}

TEST_P(LoadDamage, DoesNotFollowALinkOutOfTheDistribution) {
  const fs::path split = Split("split"), file = split / File("trunk/trunk");
  fs::rename(file, dir_ / "outside");
  fs::create_symlink(dir_ / "outside", file);
  EXPECT_EQ(Refusal(split).code, Code::kCorrupt);
  EXPECT_EQ(Refusal(split, Unverified()).code, Code::kCorrupt);
}

INSTANTIATE_TEST_SUITE_P(Formats, LoadDamage, testing::Values("", "exact"), [](const auto& test) {
  return *test.param == '\0' ? "Safetensors" : "Gguf";
});

class LoadDamagedGguf : public testing::Test {
 protected:
  fixtures::TempDir dir_;
};

TEST_F(LoadDamagedGguf, TheHeaderRevealsAPartOfAnotherRecipe) {
  WriteSplit(tiny::kSource, dir_ / "a", {.recipe = "Q8_0"});
  WriteSplit(tiny::kSource, dir_ / "b", {.recipe = "Q4_K_M"});
  fs::copy_file(dir_ / "b/groups/001/experts.gguf", dir_ / "a/groups/001/experts.gguf",
                fs::copy_options::overwrite_existing);
  const Error error = Refusal(dir_ / "a", Unverified());
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("groups/001/experts.gguf"));
}

// None of it is loaded into memory, so only the digest of the file reveals it.
TEST_F(LoadDamagedGguf, OnlyTheFileDigestCoversBytesBetweenTensors) {
  const fs::path split = dir_ / "split";
  WriteSplit(tiny::kSource, split, {.recipe = "exact"});
  const std::string file = "groups/001/experts.gguf";
  const manifest::Manifest manifest = *manifest::ReadManifest(split.string());
  uint64_t start = UINT64_MAX;
  for (const auto& tensor : manifest::FindBundle(manifest, file)->tensors)
    start = std::min(start, tensor.offset);
  ASSERT_EQ(fixtures::ReadFile(split / file).at(start - 1), '\0');
  FlipBit(split / file, start - 1);
  EXPECT_EQ(Load(split)->sets.size(), 3u);
  EXPECT_THAT(Refusal(split, ByFiles()).message, HasSubstr(file + ": sha256: expected "));
}

TEST_F(LoadDamagedGguf, ExpertsMustMatchThePlan) {
  WriteSplit(tiny::kSource, dir_ / "a", {.recipe = "exact"});
  manifest::Manifest manifest = *manifest::ReadManifest((dir_ / "a").string());
  for (manifest::BundleRecord& bundle : manifest.bundles) {
    if (bundle.group != 1) continue;
    for (manifest::TensorRecord& tensor : bundle.tensors) {
      if (!tensor.expert_ids.empty()) tensor.expert_ids[0] = 0;
    }
  }
  fixtures::WriteFile(dir_ / "a/distribution.json", WriteManifest(manifest));
  const Error error = Refusal(dir_ / "a", Unverified());
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("as the plan says, found \"0,"));
}

// A file without tensors that claims to be the routers of this model.
TEST_F(LoadDamagedGguf, ARouterNeedsARowForEveryExpertOfThePlan) {
  WriteSplit(tiny::kSource, dir_ / "a", {.recipe = "exact"});
  manifest::Manifest manifest = *manifest::ReadManifest((dir_ / "a").string());
  GgufMetadata metadata;
  metadata.Set("moepack.model", GgufValue::String(manifest.versions.model));
  metadata.Set("moepack.role", GgufValue::String("routers"));
  fixtures::WriteFile(dir_ / "a/routers/routers.gguf", BuildGgufHeader(metadata, {}));
  for (manifest::BundleRecord& bundle : manifest.bundles) {
    if (bundle.role == Role::kRouters) bundle.tensors.clear();
  }
  fixtures::WriteFile(dir_ / "a/distribution.json", WriteManifest(manifest));
  const Error error = Refusal(dir_ / "a", Unverified());
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("router of layer 0: expected 16 rows as the plan has "
                                       "experts, found 0"));
}

TEST_F(LoadDamagedGguf, ATensorMayBeInOnlyOneFileOfAPart) {
  WriteSplit(tiny::kSource, dir_ / "a", {.recipe = "exact"});
  manifest::Manifest manifest = *manifest::ReadManifest((dir_ / "a").string());
  manifest::BundleRecord again = *FindBundle(manifest, "trunk/trunk.gguf");
  fs::copy_file(dir_ / "a/trunk/trunk.gguf", dir_ / "a/trunk/again.gguf");
  again.file = "trunk/again.gguf";
  manifest.bundles.push_back(again);
  fixtures::WriteFile(dir_ / "a/distribution.json", WriteManifest(manifest));
  const Error error = Refusal(dir_ / "a");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("expected once, found twice"));
}

TEST_F(LoadDamagedGguf, ANodeWithAnInvalidFileIsRefused) {
  WriteGguf(tiny::kSource, dir_ / "gguf", "exact");
  for (const char* text : {"[]", "{}", R"({"group": 1, "versions": []})"}) {
    fixtures::WriteFile(dir_ / "gguf/moepack_node.json", text);
    const Error error = Refusal(dir_ / "gguf");
    EXPECT_EQ(error.code, Code::kCorrupt) << text;
    EXPECT_THAT(error.message, HasSubstr("moepack_node.json"));
  }
}

class LoadDamagedSafetensors : public LoadDamagedGguf {};

TEST_F(LoadDamagedSafetensors, ATamperedAssetIsRefused) {
  WriteSplit(tiny::kSource, dir_ / "a");
  fixtures::WriteFile(dir_ / "a/assets/config.json",
                      fixtures::ReadFile(dir_ / "a/assets/config.json") + " ");
  EXPECT_THAT(Refusal(dir_ / "a").message, HasSubstr("assets/config.json: size"));
}

TEST_F(LoadDamagedSafetensors, ADistributionWithoutItsConfigIsRefused) {
  WriteSplit(tiny::kSource, dir_ / "a", {.parts = {"trunk,group:0,group:1,overlay"}});
  const Error error = Refusal(dir_ / "a");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.hint, HasSubstr("--only assets"));
  LoadOptions options;
  options.model.config_file = (tiny::kSource / "config.json").string();
  const WeightsPtr weights = Load(dir_ / "a", options);  // only for token ids
  ASSERT_TRUE(weights->no_tokenizer);
  EXPECT_THAT(weights->no_tokenizer->message,
              StartsWith((dir_ / "a/assets/tokenizer.json").string() + ": expected the tokenizer"));
}

TEST_F(LoadDamagedSafetensors, ExpertsMustMatchThePlan) {
  WriteSplit(tiny::kSource, dir_ / "a", {.overlay = ""});
  manifest::Manifest manifest = *manifest::ReadManifest((dir_ / "a").string());
  std::swap(manifest.plan.groups[0].owned[0], manifest.plan.groups[1].owned[0]);
  manifest.versions = manifest::ComputeVersions(manifest.versions.model, manifest.plan);
  fixtures::WriteFile(dir_ / "a/distribution.json", WriteManifest(manifest));
  EXPECT_EQ(Refusal(dir_ / "a").code, Code::kMismatch);
}

// Every expert has a type that is not read. The first that is found to have it may lie in a group
// that is not loaded.
TEST_F(LoadDamagedSafetensors, ATensorOfAnUnreadableTypeIsNamedWithItsOwnFile) {
  fixtures::Options sizes;
  sizes.shards = 1;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "model", sizes));
  std::vector<fixtures::RawTensor> tensors;
  for (const fixtures::TensorHead& head :
       fixtures::DescribeCheckpoint("qwen3-moe", sizes).tensors) {
    const bool expert = head.name.find(".experts.") != std::string::npos;
    tensors.push_back({head.name, expert ? "F8_E5M2" : head.dtype, head.shape,
                       std::string(expert ? head.bytes / 2 : head.bytes, '\0')});
  }
  ASSERT_TRUE(fixtures::WriteSafetensors(dir_ / "model/model.safetensors", tensors));
  WriteSplit(dir_ / "model", dir_ / "a", {.overlay = ""});
  for (const uint32_t group : {0u, 1u}) {
    const Error error = Refusal(dir_ / "a", Groups({group}));
    EXPECT_EQ(error.code, Code::kUnsupported);
    EXPECT_THAT(error.message, HasSubstr("found F8_E5M2"));
    EXPECT_EQ(error.hint, "");  // none about writing another format
    const std::string before = ": tensor \"";
    const size_t at = error.message.find(before);
    ASSERT_NE(at, std::string::npos) << error.message;
    const fs::path file = error.message.substr(0, at);
    ASSERT_TRUE(fs::is_regular_file(file)) << error.message;
    const size_t name = at + before.size();
    const std::string tensor = error.message.substr(name, error.message.find('"', name) - name);
    EXPECT_THAT(fixtures::ReadFile(file), HasSubstr('"' + tensor + '"')) << error.message;
  }
}

TEST_F(LoadDamagedSafetensors, MessagesNameTheDistributionAndNotItsRestoredCheckpoint) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("dbrx", dir_ / "dbrx"));
  WriteSplit(dir_ / "dbrx", dir_ / "a");
  const Error error = Refusal(dir_ / "a");
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, StartsWith((dir_ / "a").string() + ": "));
}

}  // namespace
}  // namespace moepack::runtime
