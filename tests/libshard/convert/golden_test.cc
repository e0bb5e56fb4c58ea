// Whole checkpoints against the output of llama.cpp's own converter: every key and the bytes of
// every tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "libshard/convert/gguf_model.h"
#include "libshard/convert/model_card.h"
#include "libshard/recipe/recipe.h"
#include "tests/libshard/convert/golden_cases.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Sets the types as `quantize --recipe` BF16, F32 or Q8_0 does: MXFP4 is kept.
void UseType(const char* type, GgufModel& model) {
  if (*type == '\0') return;
  for (GgufTensor& tensor : model.tensors) {
    if (!tensor.fixed && tensor.stored->name != "mxfp4") tensor.type = quant::FindFormat(type);
  }
}

class ConvertGolden : public testing::TestWithParam<golden::ConvertedCase> {};

TEST_P(ConvertGolden, HasTheKeysAndBytesOfLlamaCppsConverter) {
  const golden::ConvertedCase& expected = GetParam();
  const fs::path folder = golden::Folder(expected.family, "tokenizer_config.json");
  if (folder.empty()) {
    GTEST_SKIP() << "no golden checkpoint " << expected.family << " on this machine";
  }
  const auto model = MoeModel::Open(folder);
  ASSERT_TRUE(model) << model.error().message;
  ConvertOptions options;
  options.mtp = expected.mtp;
  options.pre = expected.pre;
  auto gguf = ToGguf(*model, options);
  ASSERT_TRUE(gguf) << gguf.error().message;
  UseType(expected.type, *gguf);
  Json listing = golden::Read(folder / expected.listing);
  golden::LeaveOut(expected.without, listing.at("kv"));
  for (const Json& entry : listing.at("kv")) {
    if (entry.at("key") != "general.name") continue;
    EXPECT_EQ(entry.at("value"), TitleOf(folder.filename().string())) << "with --model-id";
  }
  EXPECT_THAT(golden::CompareKeys(gguf->metadata, listing.at("kv"), true), IsEmpty());
  EXPECT_THAT(golden::CompareTensors(model->checkpoint(), *gguf, listing.at("tensors")), IsEmpty());
  std::vector<testing::Matcher<std::string>> warnings;
  for (const char* part : {expected.warning, expected.another}) {
    if (*part != '\0') warnings.push_back(HasSubstr(part));
  }
  EXPECT_THAT(gguf->warnings, testing::ElementsAreArray(warnings));
}

INSTANTIATE_TEST_SUITE_P(Listings, ConvertGolden, testing::ValuesIn(golden::kConverted),
                         [](const auto& one) {
                           return golden::CaseName(one.param.family, one.param.listing);
                         });

// "family/listing" of every case; a duplicate case stands for two listings.
std::multiset<std::string> Cases() {
  std::multiset<std::string> cases;
  const auto add = [&](const auto& table) {
    for (const auto& one : table) cases.insert(Cat(one.family, "/", one.listing));
  };
  add(golden::kConverted);
  add(golden::kQuantized);
  return cases;
}

// The listings are in the tree even if the other checkpoints are not; newer ones are only there.
TEST(GoldenListings, AreAllComparedBySomeTest) {
  const fs::path own = fs::path(MOEPACK_SOURCE_DIR) / "fixtures/golden/convert";
  const auto beside = [](const char* family) {
    return golden::Folder(family, "tokenizer_config.json").parent_path();  // may be ""
  };
  for (const fs::path& root : {own, beside("deepseek-v3")}) {
    if (root.empty()) continue;
    std::multiset<std::string> found;
    for (const auto& file : fs::recursive_directory_iterator(root)) {
      const std::string name = file.path().filename().string();
      if (!name.starts_with("expected") || !name.ends_with(".json")) continue;
      found.insert(Cat(file.path().parent_path().filename().string(), "/", name));
    }
    const std::multiset<std::string> cases = Cases();
    if (root == own) {
      EXPECT_EQ(found, cases) << root;
    }
    EXPECT_TRUE(std::includes(cases.begin(), cases.end(), found.begin(), found.end())) << root;
  }
}

}  // namespace
}  // namespace moepack
