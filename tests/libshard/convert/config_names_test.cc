// A config may spell a field in any way that the tables of names know (config_fields.h,
// layer_fields.h): model, check, fit and conversion then read the same of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promise.h"
#include "libshard/check/promised_storage.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf.h"
#include "libshard/sizing/cache_shape.h"
#include "tests/libshard/convert/golden_cases.h"
#include "tests/libshard/convert/golden_listing.h"

namespace moepack {
namespace {

using Spellings = std::vector<std::string>;

// Every list of several names in the two headers, which are the only place that has them.
std::vector<Spellings> AllFields() {
  std::vector<Spellings> fields;
  for (const char* header : {"config_fields.h", "layer_fields.h"}) {
    const std::string text =
        fixtures::ReadFile(std::string(MOEPACK_SOURCE_DIR) + "/libshard/model/" + header);
    EXPECT_FALSE(text.empty()) << header;
    size_t at = 0;
    while ((at = text.find("ConfigKeys k", at)) != std::string::npos) {
      const size_t end = text.find("};", at);
      const std::vector<std::string> parts =
          Split(std::string_view(text).substr(at, end - at), '"');
      Spellings names;
      for (size_t i = 1; i < parts.size(); i += 2) names.emplace_back(parts[i]);
      if (names.size() > 1) fields.push_back(names);
      at = end;
    }
  }
  return fields;
}

// Calls `visit` with every object of the document.
template <class Visit>
void EachObject(Json& value, const Visit& visit) {
  for (Json& inner : value) {
    if (inner.is_structured()) EachObject(inner, visit);
  }
  if (value.is_object()) visit(value);
}

// Gives every field that has one name throughout the config the name `step` places further in its
// list. Returns how many fields have another name now.
size_t Rename(const std::vector<Spellings>& fields, size_t step, Json& config) {
  size_t renamed = 0;
  for (const Spellings& names : fields) {
    std::set<std::string> present;
    EachObject(config, [&](const Json& object) {
      for (const std::string& name : names) {
        if (object.contains(name)) present.insert(name);
      }
    });
    if (present.size() != 1 || step % names.size() == 0) continue;
    const std::string& from = *present.begin();
    const size_t index =
        static_cast<size_t>(std::find(names.begin(), names.end(), from) - names.begin());
    const std::string& to = names[(index + step) % names.size()];
    EachObject(config, [&](Json& object) {
      if (!object.contains(from)) return;
      Json value = object[from];
      object.erase(from);
      object[to] = std::move(value);
    });
    ++renamed;
  }
  return renamed;
}

// What the readers make of a config, as text. Errors are part of it, without the names of fields.
struct Readings {
  std::string model, promise, check, cache, conversion;
};

std::string Describe(const ModelConfig& config) {
  std::string text =
      Cat(config.layers, " ", config.mtp_layers, " ", config.expert_count, " ", config.top_k, " ",
          config.hidden_size, " ", config.expert_intermediate_size, " ", config.vocab_size, " ",
          config.shared_experts, " ", config.quant_method, " ", config.quant_bits);
  const StatedRouting& routing = config.routing;
  return Cat(text, " ", routing.groups.value_or(0), " ", routing.groups_used.value_or(0), " ",
             routing.gating ? static_cast<int>(*routing.gating) : -1, " ",
             routing.normalize ? static_cast<int>(*routing.normalize) : -1, " ",
             routing.scale.value_or(-1));
}

std::string Describe(const ModelPromise& promise) {
  std::string text =
      Cat(promise.vocabulary, " ", promise.hidden, " ", promise.expert_input, " ",
          promise.expert_width, " ", promise.dense_width, " ", promise.shared_width, " ",
          promise.mtp.value_or(0), " ", !promise.selection_bias_key.empty(), promise.mixers);
  if (const auto& heads = promise.heads) {
    text += Cat(" heads ", heads->heads, " ", heads->key_heads, " ", heads->size);
  }
  for (const LayerPromise& layer : promise.layers) {
    text += Cat(" ", layer.attention, layer.moe ? (*layer.moe ? "+" : "-") : "?");
  }
  return text;
}

Readings ReadAll(const fs::path& checkpoint, const Json& config) {
  const fixtures::TempDir dir;
  ModelOptions options;
  options.config_file = (dir.path() / "config.json").string();
  std::ofstream(options.config_file) << config.dump();
  Readings out;
  const auto model = MoeModel::Open(checkpoint, options);
  if (!model) {
    out.model = model.error().message;
    return out;
  }
  out.model = Describe(model->config());
  const HfConfig fields = *HfConfig::Parse("config.json", model->config_text());
  std::vector<CheckFinding> findings;
  const auto promise = ReadPromise(fields, "", model->config(), model->family(), findings);
  out.promise = promise ? Describe(*promise) : promise.error().message;
  const auto storage = ReadStorage(fields, model->config(), model->family());
  out.promise += storage ? Cat(" ", storage->description, " ", storage->unfollowed, " ",
                               storage->excluded.size())
                         : storage.error().message;
  const auto checked = CheckModel(*model);
  if (!checked) out.check = checked.error().message;
  for (size_t i = 0; checked && i < checked->size(); ++i) {
    out.check += FindingText((*checked)[i]) + "\n";
  }
  const auto cache = ConfigCacheShape(fields, model->config(), model->family());
  out.cache = cache ? "" : Cat("error ", static_cast<int>(cache.error().code));
  for (size_t i = 0; cache && i < cache->size(); ++i) {
    const CacheLayer& layer = (*cache)[i];
    out.cache += Cat(layer.key, " ", layer.value, " ", layer.window, " ", layer.state, "\n");
  }
  ConvertOptions convert;
  convert.part = ConvertOptions::Part::kNoTokenizer;
  const auto gguf = ToGguf(*model, convert);
  if (!gguf) {
    out.conversion = gguf.error().message;
    const std::string place = dir.path().string();  // another each time
    const size_t at = out.conversion.find(place);
    if (at != std::string::npos) out.conversion.erase(at, place.size());
  }
  if (!gguf) return out;
  for (const auto& entry : gguf->metadata.entries()) {
    out.conversion += Cat(entry.key, "=", entry.value.bytes, "\n");
  }
  for (const GgufTensor& tensor : gguf->tensors) out.conversion += tensor.name + "\n";
  return out;
}

// Compares the readings of a config with those under every other spelling.
void ExpectSameUnderAllNames(const fs::path& checkpoint, const Json& config) {
  const std::vector<Spellings> fields = AllFields();
  ASSERT_GT(fields.size(), 20u);
  const Readings plain = ReadAll(checkpoint, config);
  size_t longest = 0;
  for (const Spellings& names : fields) longest = std::max(longest, names.size());
  for (size_t step = 1; step < longest; ++step) {
    Json renamed = config;
    ASSERT_GT(Rename(fields, step, renamed), 0u);
    SCOPED_TRACE(renamed.dump());
    const Readings other = ReadAll(checkpoint, renamed);
    EXPECT_EQ(other.model, plain.model);
    EXPECT_EQ(other.promise, plain.promise);
    EXPECT_EQ(other.check, plain.check);
    EXPECT_EQ(other.cache, plain.cache);
    EXPECT_EQ(other.conversion, plain.conversion);
  }
}

class ConfigNames : public testing::TestWithParam<std::string> {};

TEST_P(ConfigNames, AllSpellingsOfAFieldReadTheSame) {
  const fixtures::TempDir dir;
  fixtures::Options options;
  options.sparse = true;
  ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir.path(), options));
  ExpectSameUnderAllNames(dir.path(), golden::Read(dir.path() / "config.json"));
}

INSTANTIATE_TEST_SUITE_P(Layouts, ConfigNames, testing::ValuesIn(fixtures::Layouts()),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

class GoldenConfigNames : public testing::TestWithParam<std::string> {};

std::vector<std::string> GoldenFamilies() {
  std::set<std::string> families;
  for (const golden::ConvertedCase& one : golden::kConverted) families.insert(one.family);
  return {families.begin(), families.end()};
}

TEST_P(GoldenConfigNames, AllSpellingsOfAFieldReadTheSame) {
  const fs::path folder = golden::Folder(GetParam(), "config.json");
  if (folder.empty()) GTEST_SKIP() << "no golden checkpoint " << GetParam() << " on this machine";
  const Json config = golden::Read(folder / "config.json");
  ExpectSameUnderAllNames(folder, config);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenConfigNames, testing::ValuesIn(GoldenFamilies()),
                         [](const auto& one) {
                           return golden::CaseName(one.param, "expected.json");
                         });

}  // namespace
}  // namespace moepack
