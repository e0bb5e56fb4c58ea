// ApplyRecipe against the listings of golden/convert: the output of llama.cpp's converter and
// llama-quantize for a checkpoint of each family.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/recipe/recipe.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

namespace fs = std::filesystem;

// The folder with a folder per family; empty when there is none.
fs::path GoldenFolder() {
  const fs::path source = MOEPACK_SOURCE_DIR;
  const char* shared = std::getenv("MOEPACK_SHARED");
  const fs::path beside = shared != nullptr ? fs::path(shared) : source / "../shared";
  for (const fs::path& root : {source / "fixtures/golden/convert", beside / "golden/convert"}) {
    if (fs::is_directory(root)) return root;
  }
  return {};
}

GgufValue ValueOf(const Json& pair) {
  const std::string type = pair.at("type");
  if (type == "u32") return GgufValue::U32(pair.at("value"));
  if (type == "str") return GgufValue::String(pair.at("value").get<std::string>());
  if (type == "arr[i32]") return GgufValue::I32s(pair.at("value").get<std::vector<int32_t>>());
  return GgufValue::Bool(true);
}

// F32 tensors are those that the converter always writes that way, if `converted` says that the
// listing is of another type.
GgufModel ModelOf(const Json& listing, bool converted) {
  GgufModel model;
  for (const Json& pair : listing.at("kv")) {
    model.metadata.Set(pair.at("key").get<std::string>(), ValueOf(pair));
  }
  for (const Json& entry : listing.at("tensors")) {
    std::vector<uint64_t> shape = entry.at("dims");
    std::reverse(shape.begin(), shape.end());
    const std::string type = entry.at("type");
    model.tensors.push_back(RecipeTensor(entry.at("name"), shape, type));
    model.tensors.back().fixed = converted && type == "F32";
  }
  return model;
}

struct Case {
  std::string family, listing;
  std::string source;  // file name
  RecipeOptions options;
  bool importance = false, converted = false;
};

// "llama.cpp v0.5.0, llama-quantize --imatrix imatrix.gguf <the bf16 file> Q4_K_M", or the
// converter's "... --outtype bf16 --no-mtp".
Case CaseOf(const fs::path& path, const Json& listing) {
  const std::string made_with = listing.at("made_with");
  const auto has = [&](const char* text) { return made_with.find(text) != std::string::npos; };
  Case result;
  result.family = path.parent_path().filename().string();
  result.listing = path.filename().string();
  result.source = has("the f32 file") ? "expected-f32.gguf.json" : "expected.gguf.json";
  result.options.recipe = Split(made_with, ' ').back();
  result.options.allow_requantize = has("--allow-requantize");
  result.importance = has("--imatrix");
  if (const size_t out = made_with.find("--outtype "); out != std::string::npos) {
    result.converted = true;
    result.options.recipe = Split(made_with.substr(out), ' ')[1];
    if (has("--no-mtp")) result.source = result.listing;
  }
  return result;
}

void Check(const Case& golden, const Json& source, const Json& listing) {
  SCOPED_TRACE(golden.family + "/" + golden.listing);
  if (golden.family == "deepseek-v4") return;  // its matrices keep their own types: no recipe
  GgufModel model = ModelOf(source, golden.converted);
  if (golden.importance) GiveImportance(model);
  const auto applied = ApplyRecipe(golden.options, model);
  ASSERT_TRUE(applied) << applied.error().message;
  ASSERT_EQ(model.tensors.size(), listing.at("tensors").size());
  for (const Json& entry : listing.at("tensors")) {
    const std::string name = entry.at("name"), type = entry.at("type");
    EXPECT_EQ(Lower(TypeOf(model, name)), Lower(type)) << name;
    EXPECT_EQ(TensorOf(model, name).bytes(), entry.at("bytes").get<uint64_t>()) << name;
  }
  for (const Json& pair : listing.value("kv_changed", Json::array())) {
    if (pair.at("key") != "general.file_type") continue;
    EXPECT_EQ(model.metadata.Uint("general.file_type"), pair.at("value").get<uint64_t>());
  }
}

TEST(RecipeGolden, ChoosesTheTypesOfLlamaQuantizeForEveryListing) {
  const fs::path root = GoldenFolder();
  if (root.empty()) GTEST_SKIP() << "0 listings compared: there is no folder golden/convert";
  size_t compared = 0;
  for (const auto& file : fs::recursive_directory_iterator(root)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with("expected") || file.path().extension() != ".json") continue;
    const Json listing = ReadJsonFile(file.path().string()).value();
    const Case golden = CaseOf(file.path(), listing);
    const fs::path source = file.path().parent_path() / golden.source;
    Check(golden, ReadJsonFile(source.string()).value(), listing);
    ++compared;
  }
  EXPECT_GE(compared, 35u);
}

}  // namespace
}  // namespace moepack
