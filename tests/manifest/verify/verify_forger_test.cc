// verify --against checks every byte and every claim: one thing is forged, all digests are
// corrected, and it is found, whatever it was.
#include <functional>
#include <set>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "manifest/write/bundle.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/forger.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using forger::Forgery;
using nlohmann::ordered_json;

enum class Kind : uint8_t { kSafetensors, kGguf };

// One distribution of each kind, made once; every case forges a copy.
class Original {
 public:
  explicit Original(Kind kind) {
    EXPECT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source", {.layers = 1}));
    const MoeModel model = tiny::Model(dir_ / "source");
    PlanOptions plan;
    plan.groups = 2;
    fixtures::WriteFile(dir_ / "overlay.json", R"({"version": "one", "layers": {"*": "1"}})");
    plan.overlay_file = (dir_ / "overlay.json").string();
    WriteOptions options;
    options.model_id = "example/forged";
    options.hash_source = true;
    options.command = {"build"};
    if (kind == Kind::kGguf) {
      options.gguf.emplace().recipe.recipe = "Q8_0";
      options.gguf->alignment = 4096;  // so that there is padding
    }
    const auto written =
        WriteDistribution(model, tiny::Plan(model, plan), (dir_ / "out").string(), options);
    EXPECT_TRUE(written) << written.error().message;
  }

  Forgery Copy() const { return Forgery::Of(dir_ / "out"); }
  const fixtures::TempDir& dir() const { return dir_; }

  // The output of verify --against; "" if it finds nothing.
  std::string Problems(Forgery forged) const { return Findings(std::move(forged), false); }
  // What it lists as claims.
  std::string Claims(Forgery forged) const { return Findings(std::move(forged), true); }

 private:
  std::string Findings(Forgery forged, bool claims) const {
    fs::remove_all(dir_ / "forged");
    forged.WriteTo(dir_ / "forged");
    VerifyOptions options;
    options.against = (dir_ / "source").string();
    const auto report = VerifyDistribution((dir_ / "forged").string(), options);
    if (!report) return "error: " + report.error().message;
    std::string text;
    for (const Finding& finding : report->findings) {
      if (finding.severity == Severity::kNote) continue;
      if ((finding.severity == Severity::kClaim) != claims) continue;
      text += Cat(finding.rule, ": ", finding.file, ": ", finding.message, "\n");
    }
    return text;
  }

  fixtures::TempDir dir_;
};

const Original& Made(Kind kind) {
  static const Original safetensors(Kind::kSafetensors), gguf(Kind::kGguf);
  return kind == Kind::kGguf ? gguf : safetensors;
}

TEST(VerifyAgainstAForger, FindsNothingInAnUnforgedDistribution) {
  for (const Kind kind : {Kind::kSafetensors, Kind::kGguf}) {
    EXPECT_EQ(Made(kind).Problems(Made(kind).Copy()), "");
  }
}

struct Case {
  const char* name;
  Kind kind;
  std::function<void(Forgery&)> change;
  const char* found;  // part of a finding
};

std::function<void(Forgery&)> Set(const char* pointer, const ordered_json& value) {
  return [=](Forgery& forged) { forged.manifest[ordered_json::json_pointer(pointer)] = value; };
}

std::function<void(Forgery&)> Metadata(const char* file,
                                       std::function<void(GgufMetadata&)> change) {
  return [=](Forgery& forged) { forger::ChangeMetadata(forged, file, change); };
}

std::function<void(Forgery&)> Header(const char* file, std::function<void(std::string&)> change) {
  return [=](Forgery& forged) { forger::ChangeHeader(forged, file, change); };
}

// The end of the first tensor that is not directly followed by the next one.
void FillPadding(Forgery& forged) {
  const std::string file = "trunk/trunk.gguf";
  const ordered_json& tensors = forged.Bundle(file)["tensors"];
  for (size_t i = 0; i + 1 < tensors.size(); ++i) {
    const uint64_t end = tensors[i]["offset"].get<uint64_t>() + tensors[i]["bytes"].get<uint64_t>();
    if (end == tensors[i + 1]["offset"].get<uint64_t>()) continue;
    forged.files.at(file)[end] = 'x';
    return;
  }
  FAIL() << "no padding";
}

constexpr const char* kTrunkFile = "trunk/trunk.safetensors";

const std::vector<Case>& Cases() {
  // Long because it is a table.
  using enum Kind;
  using moepack::GgufMetadata;
  using moepack::GgufValue;
  static const std::vector<Case> cases = {
      {"a_block_that_is_announced_and_not_there", kGguf,
       Metadata("head/head.gguf",
                [](GgufMetadata& m) {
                  const std::string key = m.Architecture() + ".block_count";
                  m.Set(key, GgufValue::U32(static_cast<uint32_t>(*m.Uint(key)) + 1));
                }),
       "block_count is 2: expected tensors of block 1, found none"},
      {"a_count_of_a_type_that_llama_cpp_refuses", kGguf,
       Metadata("head/head.gguf",
                [](GgufMetadata& m) {
                  m.Set(m.Architecture() + ".expert_used_count", GgufValue::I32(2));
                }),
       "expert_used_count\": expected u32, found i32, which llama.cpp refuses"},
      {"bytes_in_padding", kGguf, FillPadding, "header, padding and tensors"},
      {"bytes_behind_the_last_tensor", kGguf,
       [](Forgery& f) { f.files.at("groups/000/experts.gguf") += std::string(64, 'x'); }, ""},
      {"zeros_behind_the_last_tensor", kGguf,
       [](Forgery& f) { f.files.at("groups/000/experts.gguf") += std::string(32, '\0'); }, ""},
      {"bytes_behind_the_head", kGguf,
       [](Forgery& f) { f.files.at("head/head.gguf") += std::string(64, 'x'); }, ""},
      {"chat_template_in_the_head", kGguf,
       Metadata(
           "head/head.gguf",
           [](GgufMetadata& m) { m.Set("tokenizer.chat_template", GgufValue::String("forged")); }),
       "metadata \"tokenizer.chat_template\""},
      {"name_in_the_head", kGguf,
       Metadata("head/head.gguf",
                [](GgufMetadata& m) { m.Set("general.name", GgufValue::String("Other")); }),
       "metadata \"general.name\""},
      {"alignment_key_of_another_kind", kGguf,
       Metadata("head/head.gguf",
                [](GgufMetadata& m) { m.Set("general.file_type", GgufValue::U32(1)); }),
       "metadata \"general.file_type\""},
      {"key_too_many_in_the_trunk", kGguf,
       Metadata("trunk/trunk.gguf",
                [](GgufMetadata& m) { m.Set("some.payload", GgufValue::String("x")); }),
       "metadata \"some.payload\": expected no such key, found it"},
      {"key_too_few_in_a_group", kGguf,
       Metadata("groups/001/experts.gguf", [](GgufMetadata& m) { m.Remove("moepack.model"); }),
       "moepack.model"},
      {"keys_in_another_order", kGguf,
       Metadata("trunk/trunk.gguf",
                [](GgufMetadata& m) {
                  const GgufValue value = *m.Find("moepack.model");
                  m.Remove("moepack.model");
                  m.Set("moepack.model", value);
                }),
       "source-headers"},
      {"payload_in_the_metadata_of_safetensors", kSafetensors,
       Header(kTrunkFile,
              [](std::string& t) { t.replace(t.find("\"format\":"), 0, "\"payload\":\"x\","); }),
       "source-headers"},
      {"payload_behind_a_nul_in_safetensors", kSafetensors,
       Header(kTrunkFile, [](std::string& t) { t += std::string(1, '\0') + "{\"payload\":1}"; }),
       "found a NUL byte"},
      {"blanks_in_a_safetensors_header", kSafetensors,
       Header(kTrunkFile, [](std::string& t) { t += std::string(64, ' '); }), "source-headers"},
      {"another_spelling_of_a_safetensors_header", kSafetensors,
       Header(kTrunkFile, [](std::string& t) { t[t.size() - 1] = '\n'; }), "source-headers"},
      {"all_assets_removed", kSafetensors,
       [](Forgery& f) {
         f.manifest["assets"] = ordered_json::array();
         std::erase_if(f.files, [](const auto& file) { return file.first.starts_with("assets/"); });
       },
       "source-assets"},
      {"changed_asset", kGguf, [](Forgery& f) { f.files.at("assets/config.json").back() = ' '; },
       "source-assets"},
      {"gating", kSafetensors, Set("/model/gating", "sigmoid"),
       "model.gating: expected \"softmax\""},
      {"normalize", kGguf,
       [](Forgery& f) {
         f.manifest["model"]["normalize"] = !f.manifest["model"]["normalize"].get<bool>();
       },
       "model.normalize"},
      {"scale", kGguf, Set("/model/scale", 2.5), "model.scale: expected none"},
      {"layers", kGguf, Set("/model/layers", 77), "model.layers"},
      {"hidden_size", kSafetensors, Set("/model/hidden_size", 1), "model.hidden_size"},
      {"sha256_of_a_source_file", kSafetensors, Set("/model/source/0/sha256", std::string(64, 'a')),
       "sha256: expected"},
      {"another_recipe", kGguf, Set("/tool/recipe", "Q4_0"), "source-"},
      {"a_recipe_that_there_is_not", kGguf, Set("/tool/recipe", "Q99_Z"), "Q99_Z"},
      {"an_override_that_was_not", kGguf, Set("/tool/recipe", "Q8_0 --experts-type q4_0"),
       "source-"},
      {"a_group_of_the_trunk", kSafetensors, [](Forgery& f) { f.Bundle(kTrunkFile)["group"] = 0; },
       "group: expected none in a file of role trunk, found 0"},
      {"a_group_of_an_overlay", kGguf,
       [](Forgery& f) { f.Bundle("overlays/one/experts.gguf")["group"] = 7; },
       "group: expected none in a file of role overlay, found 7"},
      {"a_source_without_assets", kSafetensors,
       [](Forgery& f) {
         f.manifest["assets"] = ordered_json::array();
         std::erase_if(f.files, [](const auto& file) { return file.first.starts_with("assets/"); });
         f.manifest["complete"] = false;
         f.manifest["without_assets"] = true;
       },
       "without_assets: expected false, as the source has "},
      {"no_assets_beside_assets", kGguf,
       [](Forgery& f) {
         f.manifest["complete"] = false;
         f.manifest["without_assets"] = true;
       },
       "without_assets: expected true only in an incomplete distribution without assets"},
      {"a_recipe_of_safetensors", kSafetensors, Set("/tool/recipe", "Q8_0"),
       "tool.recipe: expected none"},
      {"a_parent_that_was_not", kGguf,
       Set("/tool/parents",
           ordered_json::array({{{"manifest_sha256", std::string(64, 'a')}, {"recipe", "Q4_0"}}})),
       "tool.recipe: expected a recipe that ends in"},
      {"a_tensor_moved_to_another_place", kSafetensors,
       [](Forgery& f) {
         auto& tensors = f.Bundle(kTrunkFile)["tensors"];
         std::swap(tensors[0], tensors[1]);
       },
       "source-tensors"},
      {"a_part_in_another_file", kGguf,
       [](Forgery& f) {
         f.Bundle("groups/000/experts.gguf")["file"] = "groups/zero.gguf";
         f.files["groups/zero.gguf"] = f.files.at("groups/000/experts.gguf");
         f.files.erase("groups/000/experts.gguf");
       },
       "source-tensors"},
  };
  return cases;
}

TEST(VerifyAgainstAForger, FindsForgedChangesWithCorrectDigests) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.name);
    Forgery forged = Made(one.kind).Copy();
    one.change(forged);
    const std::string problems = Made(one.kind).Problems(forged);
    EXPECT_NE(problems, "");
    EXPECT_NE(problems.find(one.found), std::string::npos) << problems;
  }
}

// Fields that only their author can state (docs/distribution-format.md, "What is proven").
bool IsFree(const std::string& path) {
  for (const char* free :
       {"/model/id", "/partition/scheme", "/partition/uniform", "/routing/placement", "/tool/name",
        "/tool/version", "/tool/command", "/complete", "/format_version", "/overlays/0/parent"}) {
    if (path.starts_with(free)) return true;
  }
  // Digests, which the forger corrects; sizes of files depend on them too.
  for (const char* digest : {"/xxh3", "/versions/shard", "/versions/replica"}) {
    if (path.ends_with(digest)) return true;
  }
  const bool file = path.starts_with("/bundles/") || path.starts_with("/assets/");
  const bool tensor = path.find("/tensors/") != std::string::npos;
  return file && !tensor && (path.ends_with("/sha256") || path.ends_with("/size"));
}

// Scalars of the document; for the tensors of a file, the files of the source and the assets, those
// of the first.
void CollectPaths(const ordered_json& value, const std::string& path,
                  std::vector<std::string>& paths) {
  if (!value.is_structured()) {
    if (!IsFree(path)) paths.push_back(path);
    return;
  }
  size_t i = 0;
  for (const auto& [key, item] : value.items()) {
    const bool alike = path.ends_with("/tensors") || path == "/model/source" || path == "/assets";
    const bool skipped = alike && i++ > 0;
    std::string name;
    for (const char c : key) name += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    if (!skipped) CollectPaths(item, path + "/" + name, paths);
  }
}

ordered_json Another(const ordered_json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_unsigned()) return value.get<uint64_t>() + 1;
  if (value.is_number()) return value.get<double>() + 1;
  if (!value.is_string()) return "x";
  std::string text = value.get<std::string>();
  if (text.empty()) return "x";
  text.back() = text.back() == '1' ? '2' : '1';
  return text;
}

TEST(VerifyAgainstAForger, NoticesAChangeOfEveryVerifiableField) {
  for (const Kind kind : {Kind::kSafetensors, Kind::kGguf}) {
    const Forgery original = Made(kind).Copy();
    std::vector<std::string> paths;
    CollectPaths(original.manifest, "", paths);
    EXPECT_GT(paths.size(), 60u);
    for (const std::string& path : paths) {
      Forgery forged = original;
      ordered_json& value = forged.manifest[ordered_json::json_pointer(path)];
      value = Another(value);
      EXPECT_NE(Made(kind).Problems(forged), "") << path << " became " << value;
    }
    std::printf("%zu fields\n", paths.size());
  }
}

TEST(VerifyAgainstAForger, NamesEveryStatementThatOnlyTheWriterCanMake) {
  struct Statement {
    const char* pointer;
    ordered_json value;
    const char* claim;
  };
  for (const Statement& one : std::vector<Statement>{
           {"/routing/placement", {{"rule", "race"}}, "routing.placement with the rule \"race\""},
           {"/complete", false, "complete false"},
           {"/partition/uniform", false, "partition.uniform false"},
           {"/tool/name", "another", "tool.name \"another\""},
           {"/overlays/0/parent", "zero", "overlay version \"one\" with parent \"zero\""},
           {"/quality", {{"expected", {{"mean", 0.5}}}}, "quality.expected"},
           {"/stages", ordered_json::array({{{"layers", "0"}}}), "stages"},
           {"/vendor", {{"note", 1}}, "unknown field vendor"},
           {"/model/vendor", "x", "unknown field model.vendor"},
           {"/bundles/0/vendor", "x", "unknown field bundles[].vendor"},
           {"/bundles/1/tensors/0/vendor", "x", "unknown field bundles[].tensors[].vendor"}}) {
    Forgery forged = Made(Kind::kSafetensors).Copy();
    EXPECT_EQ(Made(Kind::kSafetensors).Claims(forged).find(one.claim), std::string::npos);
    Set(one.pointer, one.value)(forged);
    EXPECT_EQ(Made(Kind::kSafetensors).Problems(forged), "") << one.pointer;
    const std::string claims = Made(Kind::kSafetensors).Claims(forged);
    EXPECT_NE(claims.find(one.claim), std::string::npos) << one.pointer << ": " << claims;
  }
}

TEST(VerifyAgainstAForger, NoticesEveryMissingField) {
  size_t fields = 0;
  for (const Kind kind : {Kind::kSafetensors, Kind::kGguf}) {
    const Forgery original = Made(kind).Copy();
    for (const char* section : {"/model", "/tool", "/bundles/0", "/bundles/1/tensors/0"}) {
      const ordered_json::json_pointer pointer(section);
      for (const auto& [key, value] : original.manifest[pointer].items()) {
        const std::string path = std::string(section) + "/" + key;
        if (IsFree(path) || path == "/tool/imatrix" || value == 0 || value == "") continue;
        Forgery forged = original;
        forged.manifest[pointer].erase(key);
        EXPECT_NE(Made(kind).Problems(forged), "") << path;
        ++fields;
      }
    }
  }
  EXPECT_GE(fields, 50u);
}

TEST(VerifyAgainst, DoesNotDependOnTheLocationOfTheSource) {
  const fixtures::TempDir dir;
  fs::copy(Made(Kind::kGguf).dir() / "source", dir / "another name", fs::copy_options::recursive);
  VerifyOptions options;
  options.against = (dir / "another name").string();
  const VerifyReport report = Verify(Made(Kind::kGguf).dir() / "out", options);
  EXPECT_TRUE(report.passed()) << TextOf(report);
  options.against = (Made(Kind::kGguf).dir() / "source").string();
  const VerifyReport at_home = Verify(Made(Kind::kGguf).dir() / "out", options);
  EXPECT_EQ(report.rules, at_home.rules);
  EXPECT_GT(report.source_bytes, 0u);
  EXPECT_EQ(report.source_bytes, at_home.source_bytes);
}

}  // namespace
}  // namespace moepack::manifest
