// Whole checkpoints against what llama.cpp's own converter makes of them: every key and the bytes
// of every tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/gguf_model.h"
#include "tests/libshard/golden_listing.h"

namespace shard {
namespace {

using testing::IsEmpty;

// As `quantize --recipe BF16` sets the types.
void UseBf16(GgufModel& model) {
  for (GgufTensor& tensor : model.tensors) {
    if (!tensor.fixed) tensor.type = quant::FindFormat("bf16");
  }
}

void Compare(const std::string& family) {
  const fs::path folder = golden::Folder(family, "model.safetensors.index.json");
  if (folder.empty()) GTEST_SKIP() << "no golden checkpoint " << family << " on this machine";
  const auto model = MoeModel::Open(folder);
  ASSERT_TRUE(model) << model.error().message;
  auto gguf = ToGguf(*model, {});
  ASSERT_TRUE(gguf) << gguf.error().message;
  UseBf16(*gguf);
  const Json listing = golden::Read(folder / "expected.gguf.json");
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv"), true), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model->checkpoint(), *gguf, listing.at("tensors")), IsEmpty());
  EXPECT_THAT(gguf->warnings, IsEmpty());
}

TEST(ConvertGolden, Qwen3MoeHasTheSameKeysAndBytes) { Compare("qwen3-moe"); }

TEST(ConvertGolden, MixtralHasTheSameKeysAndBytes) { Compare("mixtral"); }

}  // namespace
}  // namespace shard
