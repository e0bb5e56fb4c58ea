// Quantized sources through the packing run: the files of a distribution, made in pieces and for
// several outputs at once, hold what the rows give when they are made all at once.
#include "libshard/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/pack/slice_gguf.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack {
namespace {

struct Case {
  const char* name;
  const char* family;
  const char* recipe;
};

constexpr Case kCases[] = {
    {"Fp8", "deepseek-v3", "Q4_K_M"},
    {"Int4", "kimi-k2.5", "Q4_0"},
    {"Mxfp4", "gpt-oss", "MXFP4_MOE"},
    {"Transposed", "llama-4", "Q8_0"},
    {"ReorderedHeads", "qwen3.5-moe", "Q4_K_M"},
};

// The part of `made` that belongs to the experts of an output tensor.
std::string PartOf(const std::string& made, const GgufTensor& tensor, const OutputTensor& out) {
  if (tensor.expert_count == 0) return made;
  const size_t size = made.size() / tensor.expert_count;
  std::string part;
  for (const uint32_t id : out.expert_ids) part += made.substr(id * size, size);
  return part;
}

class ConvertPack : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const fs::path folder = golden::Folder(GetParam().family, "config.json");
    if (folder.empty()) GTEST_SKIP() << "no golden checkpoint on this machine";
    auto model = MoeModel::Open(folder);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    QuantizeOptions options;
    options.recipe.recipe = GetParam().recipe;
    auto typed = PrepareGguf(*model_, options);
    ASSERT_TRUE(typed) << typed.error().message;
    gguf_ = std::move(typed->model);
  }

  void Compare(const std::vector<OutputFile>& files) const {
    PackOptions options;
    options.memory = 1;  // the smallest pieces
    options.jobs = 3;
    const auto digests = DigestOutputs(model_->checkpoint().files(), files, options);
    ASSERT_TRUE(digests) << digests.error().message;
    std::map<std::string, std::pair<const GgufTensor*, std::string>> made;
    for (const GgufTensor& tensor : gguf_.tensors) {
      made[tensor.name] = {&tensor, golden::MadeBytes(model_->checkpoint(), tensor)};
    }
    size_t compared = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      for (size_t j = 0; j < files[i].tensors.size(); ++j, ++compared) {
        const OutputTensor& out = files[i].tensors[j];
        const auto& [tensor, bytes] = made.at(out.entry.name);
        const std::string part = PartOf(bytes, *tensor, out);
        EXPECT_EQ(Xxh3Hex(std::as_bytes(std::span(part))), (*digests)[i].tensors[j])
            << files[i].path << ": " << out.entry.name;
      }
    }
    EXPECT_GT(compared, 0u);
  }

  std::optional<MoeModel> model_;
  GgufModel gguf_;
};

TEST_P(ConvertPack, MakesTheWholeModel) {
  const auto files = WholeGguf(gguf_, {.stem = "m"});
  ASSERT_TRUE(files) << files.error().message;
  Compare(*files);
}

TEST_P(ConvertPack, MakesTheExpertsOfEveryGroup) {
  PlanOptions options;
  options.groups = 2;
  const auto plan = MakePlan(*model_, options);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto files = SliceGguf({gguf_, "0123456789abcdef", {}}, *plan, {});
  ASSERT_TRUE(files) << files.error().message;
  Compare(*files);
}

INSTANTIATE_TEST_SUITE_P(Golden, ConvertPack, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace moepack
