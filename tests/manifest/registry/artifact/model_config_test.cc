// The config against the closed schema of ModelPack, as in its repository
// (schema/config-schema.json of modelpack/model-spec): the allowed keys and their types.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "manifest/registry/artifact/describe_set.h"
#include "tests/manifest/document/sample.h"

namespace moepack::registry {
namespace {

using manifest::Manifest;
using Kind = nlohmann::ordered_json::value_t;

const std::map<std::string, Kind> kDescriptorKeys = {
    {"createdAt", Kind::string},   {"authors", Kind::array},  {"family", Kind::string},
    {"name", Kind::string},        {"docURL", Kind::string},  {"sourceURL", Kind::string},
    {"datasetsURL", Kind::array},  {"version", Kind::string}, {"revision", Kind::string},
    {"vendor", Kind::string},      {"licenses", Kind::array}, {"title", Kind::string},
    {"description", Kind::string},
};
const std::map<std::string, Kind> kConfigKeys = {
    {"architecture", Kind::string}, {"format", Kind::string},       {"paramSize", Kind::string},
    {"precision", Kind::string},    {"quantization", Kind::string}, {"capabilities", Kind::object},
};
const std::map<std::string, Kind> kModelFs = {{"type", Kind::string}, {"diffIds", Kind::array}};

void ExpectKeys(const nlohmann::ordered_json& object, const std::map<std::string, Kind>& allowed) {
  for (const auto& [key, value] : object.items()) {
    ASSERT_TRUE(allowed.contains(key)) << key << " is not a key of the schema";
    EXPECT_EQ(value.type(), allowed.at(key)) << key;
    if (value.is_string()) {
      EXPECT_NE(value, "") << key;
    }
  }
}

nlohmann::ordered_json ConfigOf(const Manifest& manifest) {
  const SmallFiles files = {{"sha256:" + std::string(64, 'd'), 10}, std::nullopt};
  const OciManifest oci = DescribeSet(manifest, files);
  auto config = nlohmann::ordered_json::parse(ConfigText(manifest, oci.layers));
  EXPECT_EQ(config.size(), 3u);
  ExpectKeys(config["descriptor"], kDescriptorKeys);
  ExpectKeys(config["config"], kConfigKeys);
  ExpectKeys(config["modelfs"], kModelFs);
  EXPECT_EQ(config["modelfs"]["type"], "layers");
  EXPECT_EQ(config["modelfs"]["diffIds"].size(), oci.layers.size());
  EXPECT_EQ(config.items().begin().key(), "descriptor");
  return config;
}

// Everything that a manifest can state.
Manifest KnowsAll() {
  Manifest manifest = sample::Make().manifest;
  manifest.created = 1767225600;
  manifest.recipe.name = "Q4_K_M";
  for (manifest::BundleRecord& bundle : manifest.bundles) bundle.format = "gguf";
  for (manifest::SourceRecord& source : manifest.model.source)
    source.origin = Origin{"hf://owner/name@0123/" + source.file, "0123", "", ""};
  return manifest;
}

TEST(ModelConfig, ListsLicencesByTheirSpdxIdentifiers) {
  Manifest manifest = KnowsAll();
  manifest.model.license = {"apache-2.0, llama3", "", ""};
  EXPECT_EQ(ConfigOf(manifest)["descriptor"]["licenses"].dump(),
            R"(["Apache-2.0","LicenseRef-llama3"])");
  const SmallFiles files = {{"sha256:" + std::string(64, 'd'), 10}, std::nullopt};
  EXPECT_EQ(DescribeSet(manifest, files).annotations.at("org.opencontainers.image.licenses"),
            "Apache-2.0 AND LicenseRef-llama3");
  manifest.model.license = {};
  EXPECT_FALSE(
      DescribeSet(manifest, files).annotations.contains("org.opencontainers.image.licenses"));
}

TEST(ModelConfig, HasOnlyKeysOfTheSchema) {
  ConfigOf(sample::Make().manifest);
  const auto config = ConfigOf(KnowsAll());
  EXPECT_EQ(config["descriptor"]["createdAt"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(config["descriptor"]["family"], "example-moe");
  EXPECT_EQ(config["descriptor"]["name"], "example/tiny");
  EXPECT_EQ(config["descriptor"]["sourceURL"], "https://huggingface.co/owner/name/tree/0123");
  EXPECT_EQ(config["config"]["architecture"], "ExampleMoeForCausalLM");
  EXPECT_EQ(config["config"]["quantization"], "Q4_K_M");
}

TEST(ModelConfig, OmitsUnknownFields) {
  Manifest manifest = sample::Make().manifest;
  manifest.model.id = manifest.model.revision = manifest.model.architecture = "";
  const auto config = ConfigOf(manifest);
  for (const char* key : {"name", "revision", "sourceURL", "licenses", "createdAt", "vendor"})
    EXPECT_FALSE(config["descriptor"].contains(key)) << key;
  EXPECT_FALSE(config["config"].contains("architecture"));
  EXPECT_FALSE(config["config"].contains("quantization"));
}

TEST(ModelConfig, UsesTheVersionOfANode) {
  const Manifest manifest = sample::Make().manifest;
  const manifest::Versions& versions = manifest.versions;
  EXPECT_EQ(ConfigOf(manifest)["descriptor"]["version"],
            versions.model + "-" + versions.shard + "-" + versions.replica);
}

TEST(ModelConfig, UsesTheGivenRevisionOrTheCommitOfAllFiles) {
  Manifest manifest = KnowsAll();
  EXPECT_EQ(ConfigOf(manifest)["descriptor"]["revision"], "main");
  manifest.model.revision = "";
  EXPECT_EQ(ConfigOf(manifest)["descriptor"]["revision"], "0123");
  manifest.model.source[0].origin->commit = "4567";
  EXPECT_FALSE(ConfigOf(manifest)["descriptor"].contains("revision"));
}

TEST(ModelConfig, PrecisionIsTheTypeOfMostBytes) {
  for (const auto& [dtype, name] : {std::pair("BF16", "bfloat16"),
                                    {"F16", "float16"},
                                    {"f32", "float32"},
                                    {"F64", "float64"},
                                    {"F8_E4M3", "float8_e4m3"},
                                    {"F8_E5M2", "float8_e5m2"},
                                    {"bf16", "bfloat16"}}) {
    Manifest manifest = sample::Make().manifest;
    for (manifest::BundleRecord& bundle : manifest.bundles)
      for (manifest::TensorRecord& tensor : bundle.tensors)
        if (tensor.dtype == "BF16") tensor.dtype = dtype;
    EXPECT_EQ(ConfigOf(manifest)["config"]["precision"], name) << dtype;
  }
}

TEST(ModelConfig, HasNoPrecisionForBlockOrPackedWeights) {
  for (const char* dtype : {"q4_K", "I32", "U8", "mxfp4"}) {
    Manifest manifest = sample::Make().manifest;
    for (manifest::BundleRecord& bundle : manifest.bundles)
      for (manifest::TensorRecord& tensor : bundle.tensors)
        if (tensor.dtype == "BF16") tensor.dtype = dtype;
    EXPECT_FALSE(ConfigOf(manifest)["config"].contains("precision")) << dtype;
  }
}

}  // namespace
}  // namespace moepack::registry
