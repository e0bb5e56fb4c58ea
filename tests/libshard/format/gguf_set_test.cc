// Sets whose parts do not match are fixtures/bad/*/gguf_part_*.
#include "libshard/format/gguf_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/gguf_writer.h"
#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using fixtures::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void Touch(const fs::path& path) { ASSERT_TRUE(fixtures::WriteFile(path, "x")); }

TEST(GgufSet, ReadsTheNamesOfParts) {
  const auto part = ParseGgufPartName("My-Model-Q4_K_M-00002-of-00013.gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->prefix, "My-Model-Q4_K_M");
  EXPECT_EQ(part->index, 1u);
  EXPECT_EQ(part->count, 13u);
  EXPECT_EQ(GgufPartFileName("m", 1, 13), "m-00002-of-00013.gguf");
}

TEST(GgufSet, OtherNamesAreNotParts) {
  for (const char* name :
       {"model.gguf", "m-1-of-2.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf",
        "-00001-of-00002.gguf", "m-00001-of-00002.bin", "m-0001-of-00002.gguf",
        "m-00001-of-000002.gguf", "m00001-of-00002.gguf", "m-0000x-of-00002.gguf",
        "m-00001-or-00002.gguf", "m-00001-of-99999.gguf", ".gguf", ""}) {
    EXPECT_FALSE(ParseGgufPartName(name)) << name;
  }
}

TEST(GgufSet, FindsTheWholeSetFromAnyPart) {
  EXPECT_THAT(GgufPartsOf("m-00002-of-00002.gguf"),
              ElementsAre("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"));
  EXPECT_THAT(GgufPartsOf("m.gguf"), ElementsAre("m.gguf"));
}

TEST(GgufSet, ADirectoryHoldsAtMostOneModel) {
  const TempDir dir;
  EXPECT_THAT(*FindGgufModel(LocalTree(dir.path())), IsEmpty());
  Touch(dir / "m-00002-of-00003.gguf");
  Touch(dir / "notes.txt");
  EXPECT_EQ(FindGgufModel(LocalTree(dir.path()))->size(), 3u);
  EXPECT_EQ(CheckGgufPartsPresent(LocalTree(dir.path()), *FindGgufModel(LocalTree(dir.path())))
                .error()
                .code,
            Code::kNotFound);
  Touch(dir / "m-00001-of-00002.gguf");
  const auto two = FindGgufModel(LocalTree(dir.path()));
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().code, Code::kInvalidArgument);
  EXPECT_THAT(two.error().message, HasSubstr("\"m in 2 parts\", \"m in 3 parts\""));
}

TEST(GgufSet, ListsOnlySomeOfManyModels) {
  const TempDir dir;
  for (int i = 0; i < 20; ++i) Touch(dir / Cat("model", i, ".gguf"));
  const auto many = FindGgufModel(LocalTree(dir.path()));
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message, HasSubstr("found 20"));
  EXPECT_THAT(many.error().message, HasSubstr(", ..."));
}

// Three parts of 1, 2 and 0 tensors, valid unless changed.
struct ThreeParts {
  ThreeParts() {
    for (uint16_t i = 0; i < 3; ++i) metadata[i].Set(kSplitNoKey, GgufValue::U16(i));
    metadata[0].Set("general.architecture", GgufValue::String("llama"));
    metadata[0].Set(kSplitCountKey, GgufValue::U16(3));
    metadata[0].Set(kSplitTensorsKey, GgufValue::I32(3));
  }
  std::string Problem() const {
    std::vector<GgufPart> parts;
    for (uint16_t i = 0; i < 3; ++i) {
      parts.push_back({.path = GgufPartFileName("m", i, 3), .metadata = &metadata[i]});
    }
    parts[0].tensors = 1;
    parts[1].tensors = 2;
    const Status status = CheckGgufSet(parts);
    return status ? "" : status.error().message;
  }
  GgufMetadata metadata[3];
};

TEST(GgufSet, LaterPartsNeedOnlyTheirNumber) {
  ThreeParts parts;
  EXPECT_EQ(parts.Problem(), "");
  parts.metadata[1].Set("general.architecture", GgufValue::String("llama"));
  parts.metadata[1].Set(kSplitCountKey, GgufValue::U16(3));
  parts.metadata[2].Set(kSplitTensorsKey, GgufValue::I32(3));
  parts.metadata[2].Set("anything", GgufValue::String("else"));
  EXPECT_EQ(parts.Problem(), "");
}

TEST(GgufSet, RequiresTheExactValueTypes) {
  ThreeParts parts;
  parts.metadata[0].Set(kSplitCountKey, GgufValue::U32(3));
  EXPECT_EQ(parts.Problem(),
            "m-00001-of-00003.gguf: key split.count: expected 3 (u16), found 3 (u32)");
  ThreeParts tensors;
  tensors.metadata[0].Set(kSplitTensorsKey, GgufValue::U32(3));
  EXPECT_THAT(tensors.Problem(), HasSubstr("expected 3 (i32), found 3 (u32)"));
  ThreeParts text;
  text.metadata[2].Set(kSplitNoKey, GgufValue::String("2"));
  EXPECT_THAT(text.Problem(), HasSubstr("expected 2 (u16), found string"));
}

TEST(GgufSet, FindsAContradictionInALaterPart) {
  ThreeParts count, model, missing;
  count.metadata[2].Set(kSplitCountKey, GgufValue::U16(4));
  EXPECT_THAT(count.Problem(), HasSubstr("m-00003-of-00003.gguf: key split.count"));
  model.metadata[1].Set("general.architecture", GgufValue::String("qwen3moe"));
  EXPECT_THAT(model.Problem(), HasSubstr("expected \"llama\" as in m-00001-of-00003.gguf"));
  missing.metadata[1].Remove(kSplitNoKey);
  EXPECT_THAT(missing.Problem(), HasSubstr("key split.no: expected 1 (u16), found none"));
}

TEST(GgufSet, AcceptsASingleFileWithTheKeysOfASetOfOne) {
  GgufMetadata metadata;
  const auto problem = [&] {
    const Status status = CheckGgufSet({{.path = "m.gguf", .metadata = &metadata, .tensors = 5}});
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(problem(), "");
  metadata.Set(kSplitCountKey, GgufValue::U16(1));
  metadata.Set(kSplitNoKey, GgufValue::U16(0));
  EXPECT_EQ(problem(), "");
  metadata.Set(kSplitCountKey, GgufValue::U16(2));
  EXPECT_THAT(problem(), HasSubstr("m.gguf: key split.count"));
}

}  // namespace
}  // namespace moepack
