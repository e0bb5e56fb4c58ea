#include "libshard/base/files/lfs_pointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/model/model.h"

namespace moepack {
namespace {

using testing::HasSubstr;

const char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 4997741608\n";

TEST(LfsPointer, IsReportedWithItsSizeAndHowToFetchIt) {
  const Status status = CheckNoLfsPointer("a/tokenizer.model", std::string_view(kPointer));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kNotFound);
  EXPECT_EQ(status.error().message,
            "a/tokenizer.model: expected the file itself, found a Git LFS pointer to 5.00 GB");
  EXPECT_THAT(status.error().hint, HasSubstr("git lfs pull"));
  EXPECT_TRUE(CheckNoLfsPointer("a", std::string_view("version 2")));
}

TEST(LfsPointer, IsRecognizedByEveryReaderOfTextsAndShards) {
  const fixtures::TempDir dir;
  for (const char* name : {"tokenizer.model", "tokenizer.json", "config.json"}) {
    ASSERT_TRUE(fixtures::WriteFile(dir / name, kPointer));
    const auto text = ReadTextFile(dir / name, 1 << 20);
    ASSERT_FALSE(text) << name;
    EXPECT_THAT(text.error().message, HasSubstr("Git LFS pointer to 5.00 GB"));
  }
  for (const char* name : {"model.safetensors", "model.gguf", "model.safetensors.index.json"}) {
    ASSERT_TRUE(fixtures::WriteFile(dir / name, kPointer));
    const auto model = MoeModel::Open(dir / name);
    ASSERT_FALSE(model) << name;
    EXPECT_THAT(model.error().message, HasSubstr("Git LFS pointer to 5.00 GB"));
  }
}

}  // namespace
}  // namespace moepack
