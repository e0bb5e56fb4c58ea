#include "libshard/model/config_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "libshard/convert/gguf_model.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

const Family& FamilyOfDefaults(std::string_view name) {
  const FamilyList all = AllFamilies();
  return *std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == name; });
}

HfConfig DefaultsOf(const char* family, const ModelConfig& config = {}) {
  return *HfConfig::Parse("defaults", ConfigDefaults(FamilyOfDefaults(family), config));
}

TEST(ConfigDefaults, EveryFamilyThatIsConvertedHasSome) {
  // Their config classes are not published; released configs have every field.
  const std::set<std::string_view> unknown = {"deepseek-v4", "kimi-k3", "bailing-moe-v3",
                                              "mistral4"};
  for (const GgufConverter& converter : AllConverters()) {
    if (unknown.contains(converter.family)) continue;
    const std::string_view json = ConfigDefaults(FamilyOfDefaults(converter.family), {});
    EXPECT_TRUE(HfConfig::Parse("defaults", json)) << converter.family;
  }
  EXPECT_EQ(ConfigDefaults(FamilyOfDefaults("jamba"), {}), "");
}

TEST(ConfigDefaults, KimiHasNoLeadingDenseLayersUnlikeDeepSeek) {
  EXPECT_EQ(*DefaultsOf("deepseek-v3").FindU32(fields::kLeadingDense), std::optional(3u));
  for (const bool text : {false, true}) {
    ModelConfig kimi;
    (text ? kimi.text_model_type : kimi.model_type) = "kimi_k2";
    EXPECT_FALSE(DefaultsOf("deepseek-v3", kimi).Has(fields::kLeadingDense));
  }
}

TEST(ConfigDefaults, EveryFourthLayerOfQwensHybridModelsHasFullAttention) {
  for (const char* family : {"qwen3-next", "qwen3.5-moe"}) {
    EXPECT_EQ(*DefaultsOf(family).FindU32(fields::kFullInterval), std::optional(4u));
  }
}

}  // namespace
}  // namespace moepack
