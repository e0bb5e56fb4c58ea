#include <gtest/gtest.h>

#include <functional>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;

TEST(ParseManifestTest, ReadsBackEveryFieldThatWasWritten) {
  sample::Distribution made = sample::Make();
  made.manifest.created = 5;
  made.manifest.model.license = {"other", "own", "https://example.com/LICENSE"};
  made.Bundle("trunk/trunk.safetensors").tensors[0].source = "embed.weight";
  const auto read = ParseManifest("x", WriteManifest(made.manifest));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->model.source[1].sha256, std::string(64, 'c'));
  EXPECT_EQ(read->model.moe_layers, made.manifest.model.moe_layers);
  EXPECT_EQ(read->model.top_k, made.manifest.model.top_k);
  EXPECT_EQ(read->model.scale, 2.5);
  EXPECT_EQ(read->model.license, made.manifest.model.license);
  EXPECT_EQ(read->plan.groups[0].fill, made.manifest.plan.groups[0].fill);
  EXPECT_EQ(read->plan.overlays, made.manifest.plan.overlays);
  ASSERT_EQ(read->bundles.size(), 5u);
  const TensorRecord& tensor = read->bundles[1].tensors.back();
  EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{3, 4, 8}));
  EXPECT_EQ(tensor.expert_ids, (ExpertIds{0, 1, 2}));
  EXPECT_EQ(tensor.layer, 2);
  EXPECT_EQ(read->bundles[0].tensors[0].source, "embed.weight");
  EXPECT_EQ(read->command, made.manifest.command);
  EXPECT_EQ(read->created, 5u);
  EXPECT_EQ(WriteManifest(*read), WriteManifest(made.manifest));
}

TEST(ParseManifestTest, AcceptsAnyMinorVersionOfItsMajorVersion) {
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  const auto known = ParseManifest("x", document.dump());
  document["format_version"] = "1.7";
  const auto later = ParseManifest("x", document.dump());
  ASSERT_TRUE(known && later);
  EXPECT_EQ(later->bundles.size(), 5u);
  EXPECT_EQ(WriteManifest(*later), WriteManifest(*known));
}

// One broken document each: the change of the sample, and the expected error.
struct Hostile {
  const char* name;
  std::function<void(ordered_json&)> change;
  const char* message;
  Code code = Code::kCorrupt;
};

std::function<void(ordered_json&)> Set(const char* pointer, ordered_json value) {
  return [=](ordered_json& document) { document[ordered_json::json_pointer(pointer)] = value; };
}

std::function<void(ordered_json&)> Erase(const char* parent, const char* key) {
  return [=](ordered_json& document) { document[ordered_json::json_pointer(parent)].erase(key); };
}

const std::vector<Hostile>& HostileDocuments() {
  // Long because it is a table.
  static const std::vector<Hostile> list = {
      {"another_format", Set("/format", "zip"), "format: expected \"moepack-distribution\""},
      {"major_version_2", Set("/format_version", "2.0"), "expected 1.x", Code::kUnsupported},
      {"version_without_minor", Set("/format_version", "1"), "format_version"},
      {"version_with_sign", Set("/format_version", "-1.0"), "format_version"},
      {"version_as_number", Set("/format_version", 1.0), "expected a string, found 1.0"},
      {"no_model", Erase("", "model"), "model: expected an object, found nothing"},
      {"model_as_array", Set("/model", ordered_json::array()), "model: expected an object"},
      {"no_family", Erase("/model", "family"), "model: family"},
      {"too_many_layers", Set("/model/layers", 1u << 20), "layers: expected at most 4096"},
      {"reversed_layer_range", Set("/model/moe_layers", "5-3"), "moe_layers"},
      {"huge_layer_range", Set("/model/moe_layers", "0-4294967295"), "moe_layers"},
      {"no_moe_layers", Set("/model/moe_layers", ""), "model: experts"},
      {"experts_for_no_layer", Set("/model/experts/7", 6), "\"moe_layers\" as keys"},
      {"absurd_expert_count", Set("/model/experts/*", 1u << 20), "expected at most 65536"},
      // A flipped bit of 8; the limit on the number of groups is divided by it.
      {"no_experts", Set("/model/experts/*", 0), "layer 1: expected at least 1, found 0"},
      {"no_experts_in_one_layer", Set("/model/experts", {{"1", 6}, {"2", 0}}),
       "layer 2: expected at least 1, found 0"},
      {"negative_top_k", Set("/model/top_k/*", -1), "expected a whole number, found -1"},
      {"top_k_of_routing_differs", Set("/routing/top_k/*", 3), "expected that of \"model\""},
      {"source_size_over_63_bits", Set("/model/source/0/size", UINT64_MAX),
       "size: expected at most"},
      {"source_outside", Set("/model/source/0/file", "../x"), "relative path"},
      {"source_digest_short", Set("/model/source/0/header_sha256", "ab"), "64 lower-case"},
      {"source_digest_empty", Set("/model/source/1/sha256", ""), "64 lower-case"},
      {"source_proved_whole_without_digests",
       [](ordered_json& d) {
         d["model"]["source"][0]["url"] = "https://host/f";
         d["model"]["source"][0]["verified"] = "whole";
       },
       "source[0]: verified: expected \"transport\" by the digests beside it, found \"whole\""},
      {"source_with_an_address_and_no_word_about_it", Set("/model/source/0/url", "https://host/f"),
       "verified: expected \"transport\""},
      {"source_verified_and_local", Set("/model/source/0/verified", "transport"),
       "verified: expected \"\""},
      {"source_address_as_number", Set("/model/source/0/url", 3), "url: expected a string"},
      {"source_not_an_object", Set("/model/source/0", 3), "source[0]: expected an object, found 3"},
      {"scale_as_text", Set("/model/scale", "big"), "scale: expected a number"},
      {"upper_case_version", Set("/versions/shard", "ABCDEF0123456789"), "lower-case"},
      {"replica_too_short", Set("/versions/replica", "12"), "replica: expected 16"},
      {"no_groups", Set("/partition/groups", ordered_json::array()), "groups"},
      {"expert_out_of_range", Set("/partition/groups/2/experts/*", "4-6"), "6"},
      {"reversed_expert_range", Set("/partition/groups/2/experts/*", "5-4"), "5-4"},
      {"huge_expert_range", Set("/partition/groups/2/experts/*", "0-4294967295"), "4294967295"},
      {"expert_in_two_groups", Set("/partition/groups/2/experts/*", "3-5"), "expert 3"},
      {"expert_in_no_group", Set("/partition/groups/2/experts/*", "4"), "remainder"},
      {"two_overlays", [](ordered_json& d) { d["overlays"].push_back(d["overlays"][0]); },
       "overlay \"generalists-1\": version: expected once, found twice"},
      {"parent_of_itself", Set("/overlays/0/parent", "generalists-1"),
       "parent: expected another version, found itself"},
      {"fill_of_too_few_groups",
       [](ordered_json& d) {
         d["overlays"][0]["fill"] = {{{"*", "5"}}, ordered_json::object()};
       },
       "fill: expected one entry for each of the 3 groups, found 2"},
      {"another_policy", Set("/routing/policy", "random"), "policy", Code::kUnsupported},
      {"another_mask_point", Set("/routing/mask_point", "scores"), "mask_point",
       Code::kUnsupported},
      {"placement_without_rule", Set("/routing/placement", ordered_json::object()), "rule"},
      {"placement_of_other_groups",
       Set("/routing/placement",
           {{"rule", "table"}, {"prefix_tokens", 32}, {"margin", 2}, {"sessions", {3, 4}}}),
       "routing: placement: sessions: expected 3 groups, found 2"},
      {"stages_as_object", Set("/stages", ordered_json::object()), "stages: expected an array"},
      {"quality_as_text", Set("/quality", "good"), "quality: expected an object"},
      {"complete_as_number", Set("/complete", 1), "complete: expected true or false"},
      {"bundles_as_object", Set("/bundles", ordered_json::object()), "bundles: expected an array"},
      {"bundle_as_text", Set("/bundles/0", "trunk"), "bundle: expected an object"},
      {"unknown_role", Set("/bundles/0/role", "branch"), "role", Code::kUnsupported},
      {"group_past_the_last", Set("/bundles/1/group", 3),
       "group: expected a number below 3, found 3"},
      {"group_missing", Erase("/bundles/1", "group"), "group: expected a whole number"},
      {"path_upwards", Set("/bundles/0/file", "trunk/../../x"), "relative path"},
      {"path_absolute", Set("/bundles/0/file", "/etc/passwd"), "relative path"},
      {"path_with_dot", Set("/bundles/0/file", "./x"), "relative path"},
      {"path_with_backslash", Set("/bundles/0/file", "a\\b"), "relative path"},
      {"path_with_control", Set("/bundles/0/file", "a\nb"), "a\\x0ab"},
      {"path_empty", Set("/bundles/0/file", ""), "relative path"},
      {"path_ends_in_slash", Set("/bundles/0/file", "trunk/"), "relative path"},
      {"path_of_the_manifest", Set("/bundles/0/file", "distribution.json"), "relative path"},
      {"path_in_lost_and_found", Set("/bundles/0/file", "lost+found/x"), "not in lost+found"},
      {"path_of_an_unfinished_run", Set("/bundles/0/file", ".moepack.partial/x"),
       "not in lost+found or .moepack.*"},
      {"path_too_long", Set("/bundles/0/file", std::string(2000, 'a')), "relative path"},
      {"asset_outside", Set("/assets/0/file", "../config.json"), "relative path"},
      {"asset_as_text", Set("/assets/0", "config.json"), "asset: expected an object"},
      {"asset_named_like_weights", Set("/assets/0/file", "assets/model-00001-of-00002.safetensors"),
       "expected assets/ and the name of a config"},
      {"asset_named_like_a_gguf", Set("/assets/0/file", "assets/LICENSE-00001-of-00003.gguf"),
       "expected assets/ and the name of a config"},
      {"asset_named_like_the_index", Set("/assets/0/file", "assets/model.safetensors.index.json"),
       "expected assets/ and the name of a config"},
      {"asset_named_like_the_node_file", Set("/assets/0/file", "assets/moepack_node.json"),
       "expected assets/ and the name of a config"},
      {"asset_in_a_folder", Set("/assets/0/file", "assets/LICENSE/config.json"),
       "expected assets/ and the name of a config"},
      {"asset_not_below_assets", Set("/assets/0/file", "config.json"),
       "expected assets/ and the name of a config"},
      {"two_files_of_one_name", Set("/bundles/1/file", "trunk/trunk.safetensors"), "found twice"},
      {"bundle_that_git_runs", Set("/bundles/0/file", ".git/config.gguf"), "begins with . or ~"},
      {"bundle_in_a_hidden_folder", Set("/bundles/0/file", "a/.b/c.gguf"), "begins with . or ~"},
      {"bundle_that_a_shell_expands", Set("/bundles/0/file", "~x/a.gguf"), "begins with . or ~"},
      {"bundle_that_is_code", Set("/bundles/0/file", "sitecustomize.py"), ".safetensors file"},
      {"bundle_that_is_the_lock", Set("/bundles/0/file", "pulled.json"), ".safetensors file"},
      {"bundle_among_assets", Set("/bundles/0/file", "Assets/a.gguf"), "outside assets/"},
      {"size_over_63_bits", Set("/bundles/0/size", UINT64_MAX), "size: expected at most"},
      {"size_below_its_tensors", Set("/bundles/0/size", 100), "expected bytes within"},
      {"digest_with_other_letters", Set("/bundles/0/sha256", std::string(64, 'g')), "sha256"},
      {"tensors_missing", Erase("/bundles/0", "tensors"), "tensors: expected an array"},
      {"tensor_as_number", Set("/bundles/0/tensors/0", 1), "tensors: expected an object"},
      {"tensor_twice",
       [](ordered_json& d) {
         d["bundles"][0]["tensors"][1]["name"] = d["bundles"][0]["tensors"][0]["name"];
       },
       "found twice"},
      {"tensors_overlap",
       [](ordered_json& d) {
         d["bundles"][0]["tensors"][1]["offset"] = d["bundles"][0]["tensors"][0]["offset"];
       },
       "expected bytes within"},
      {"bytes_unlike_shape", Set("/bundles/0/tensors/0/bytes", 511),
       "bytes: expected 512 for BF16 [32, 8], found 511"},
      {"shape_overflows",
       Set("/bundles/0/tensors/0/shape", ordered_json::array({1ull << 33, 1ull << 33})),
       "a tensor shape"},
      {"shape_negative", Set("/bundles/0/tensors/0/shape", ordered_json::array({-1})),
       "a tensor shape"},
      {"shape_of_100_dimensions",
       Set("/bundles/0/tensors/0/shape", ordered_json(std::vector<int>(100, 1))), "a tensor shape"},
      {"xxh3_missing", Erase("/bundles/0/tensors/0", "xxh3"), "xxh3"},
      {"tensor_ids_reversed", Set("/bundles/1/tensors/0/experts", "5-3"), "5-3"},
      {"tensor_ids_huge", Set("/bundles/1/tensors/0/experts", "0-4294967295"), "experts"},
      {"tensor_ids_as_array", Set("/bundles/1/tensors/0/experts", ordered_json::array({1})),
       "experts: expected a string"},
      {"layer_of_tensor_huge", Set("/bundles/1/tensors/0/layer", 100000), "layer"},
      {"tool_missing", Erase("", "tool"), "tool: expected an object"},
      {"command_of_numbers", Set("/tool/command", ordered_json::array({1})), "array of strings"},
  };
  return list;
}

TEST(ParseManifestTest, RefusesHostileDocumentsAndNamesTheField) {
  const ordered_json good = ordered_json::parse(WriteManifest(sample::Make().manifest));
  for (const Hostile& hostile : HostileDocuments()) {
    SCOPED_TRACE(hostile.name);
    ordered_json document = good;
    hostile.change(document);
    const auto read = ParseManifest("m.json", document.dump());
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, hostile.code) << read.error().message;
    EXPECT_EQ(read.error().message.rfind("m.json: ", 0), 0u) << read.error().message;
    EXPECT_NE(read.error().message.find(hostile.message), std::string::npos)
        << read.error().message;
  }
}

// Text that no JSON library writes.
TEST(ParseManifestTest, RefusesTextThatIsNotStrictJson) {
  const std::string good = WriteManifest(sample::Make().manifest);
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::vector<std::string> texts = {
      "",
      "[]",
      "{",
      good + "{}",
      good + std::string(1, '\0') + "{\"payload\": 1}",
      good + '\0',
      "\xef\xbb\xbf" + good,
      good.substr(0, good.size() / 2),
      replaced("\"format\": ", "\"format\": \"x\", \"format\": "),
      replaced("\"size\": ", "\"size\": 18446744073709551616, \"was\": "),
      replaced("\"layers\": 3", "\"layers\": NaN"),
      replaced("\"complete\": true", "\"complete\": " + std::string(1000, '[')),
      replaced("example/tiny", "\xff\xfe"),
  };
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 60));
    const auto read = ParseManifest("m.json", text);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::kCorrupt) << read.error().message;
  }
}

TEST(ParseManifestTest, RefusesAPlanThatExpandsBeyondMemory) {
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  document["model"]["moe_layers"] = "0-3";
  document["model"]["experts"] = {{"*", 65536}};
  ordered_json& groups = document["partition"]["groups"];
  const ordered_json group = {{"experts", {{"*", "0-65535"}}}, {"fill", {{"*", "0-65535"}}}};
  groups = ordered_json::array();
  for (int i = 0; i < 1000; ++i) groups.push_back(group);
  const auto read = ParseManifest("m.json", document.dump());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find(
                "groups: expected at most 256 for 262,144 experts in all layers, found 1000"),
            std::string::npos)
      << read.error().message;
}

TEST(ParseManifestTest, RefusesTensorsThatExpandBeyondMemory) {
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  ordered_json& tensors = document["bundles"][0]["tensors"];
  const ordered_json empty = tensors[2];
  for (int i = 0; i < 100; ++i) {
    ordered_json tensor = empty;
    tensor["name"] = "t" + std::to_string(i);
    tensor["experts"] = "0-65535";
    tensors.push_back(tensor);
  }
  const auto read = ParseManifest("m.json", document.dump());
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("ids in all tensors together"), std::string::npos)
      << read.error().message;
}

}  // namespace
}  // namespace moepack::manifest
