// Whole files of llama.cpp's own converter, read and compared with listings made by another reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/format/gguf.h"
#include "libshard/model/model.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack {
namespace {

using testing::IsEmpty;

class GgufGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = golden::Folder(GetParam(), "gguf/expected.gguf");
    if (folder_.empty()) GTEST_SKIP() << "shared/golden/convert is not here";
    Result<MoeModel> model = MoeModel::Open(folder_ / "gguf/expected.gguf");
    ASSERT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    listing_ = golden::Read(folder_ / "expected.gguf.json");
  }
  std::string Bytes(const TensorEntry& entry) const {
    std::string bytes(entry.bytes, '\0');
    const auto file = InputFile::Open(model_->checkpoint().files()[entry.file].path);
    EXPECT_TRUE(file->ReadAt(entry.offset, std::as_writable_bytes(std::span(bytes))));
    return bytes;
  }

  fs::path folder_;
  std::optional<MoeModel> model_;
  Json listing_;
};

TEST_P(GgufGolden, HasTheKeysOfTheListing) {
  EXPECT_THAT(golden::CompareKeys(model_->checkpoint().metadata(), listing_.at("kv"), true),
              IsEmpty());
}

TEST_P(GgufGolden, HasTheTensorsOfTheListing) {
  const std::vector<TensorEntry>& tensors = model_->checkpoint().tensors();
  const Json& list = listing_.at("tensors");
  ASSERT_EQ(tensors.size(), list.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<uint64_t> dims = tensors[i].shape;
    std::reverse(dims.begin(), dims.end());
    EXPECT_EQ(list[i].at("name"), tensors[i].name);
    EXPECT_EQ(dims, list[i].at("dims").get<std::vector<uint64_t>>()) << tensors[i].name;
    EXPECT_EQ(tensors[i].dtype, Lower(list[i].at("type").get<std::string>())) << tensors[i].name;
    EXPECT_EQ(list[i].at("sha256"), Sha256Hex(Bytes(tensors[i]))) << tensors[i].name;
  }
}

TEST_P(GgufGolden, TheHeaderIsWrittenAgainByteByByte) {
  const Checkpoint& checkpoint = model_->checkpoint();
  const SourceFile& file = checkpoint.files().front();
  const std::string header = BuildGgufHeader(checkpoint.metadata(), checkpoint.tensors(), 32);
  EXPECT_EQ(header.size(), file.data_start);
  EXPECT_EQ(Sha256Hex(header), file.header_sha256);
}

INSTANTIATE_TEST_SUITE_P(Files, GgufGolden, testing::Values("gpt-oss", "deepseek-v3"),
                         [](const auto& one) {
                           std::string name = one.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moepack
