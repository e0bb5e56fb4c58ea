#include <functional>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/model/model.h"
#include "manifest/document/describe_model.h"
#include "manifest/write/assets.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;

// The bytes of one tensor of the source, with the experts `ids` cut out element by element.
std::string SliceByHand(const std::string& file, const TensorEntry& entry,
                        std::optional<uint32_t> axis, const ExpertIds& ids, uint32_t experts) {
  const std::string whole = file.substr(entry.offset, entry.bytes);
  if (!axis) return whole;
  size_t rows = 1;
  for (uint32_t i = 0; i < *axis; ++i) rows *= entry.shape[i];
  const size_t row = whole.size() / rows, slice = row / experts;
  std::string out;
  for (size_t r = 0; r < rows; ++r) {
    for (uint32_t id : ids) out += whole.substr(r * row + id * slice, slice);
  }
  return out;
}

// `begin` is the offset of the first tensor's bytes in its source file.
std::vector<sample::Tensor> TensorsOf(const MoeModel& model, const Plan& plan, Role role,
                                      std::optional<uint32_t> group, uint64_t* begin = nullptr) {
  std::vector<std::string> files;
  for (const auto& file : model.checkpoint().files())
    files.push_back(fixtures::ReadFile(file.path));
  std::vector<sample::Tensor> tensors;
  for (const ModelTensor& tensor : model.tensors()) {
    const TensorEntry& entry = model.entry(tensor);
    const bool routed = tensor.part == moepack::Part::kExpert;
    if (routed != (role != Role::kTrunk)) continue;
    sample::Tensor out{{entry.name, entry.dtype, entry.shape, ""}, tensor.layer, {}};
    std::optional<uint32_t> axis;
    uint32_t experts = 1;
    if (routed) {
      const uint32_t layer = *tensor.layer;
      experts = plan.layers.at(layer);
      out.experts = sample::IdsIn(plan, role, group, layer);
      if (out.experts.empty()) continue;
      if (tensor.expert) {
        const uint32_t id = *tensor.expert;
        if (!moepack::Contains(out.experts, id)) continue;
        out.experts = {id};
      } else if (tensor.axis) {
        axis = tensor.axis;
        uint64_t& length = out.raw.shape[*axis];
        length = length / experts * out.experts.size();
      } else {
        out.experts.clear();
      }
    }
    out.raw.bytes = SliceByHand(files[entry.file], entry, axis, out.experts, experts);
    if (tensors.empty() && begin != nullptr) {
      size_t slices = experts;
      for (uint32_t i = 0; i < axis.value_or(0); ++i) slices *= entry.shape[i];
      *begin = entry.offset + (axis ? out.experts[0] * (entry.bytes / slices) : 0);
    }
    tensors.push_back(std::move(out));
  }
  return tensors;
}

Plan PlanFor(const MoeModel& model) {
  Plan plan;
  plan.scheme = "modulo";
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  plan.groups.resize(2);
  plan.overlays.resize(1);
  plan.overlays[0].version = "v1";
  for (const auto& [layer, experts] : plan.layers) {
    for (uint32_t id = 0; id < experts; ++id) plan.groups[id % 2].owned[layer].push_back(id);
    plan.overlays[0].experts_by_layer[layer] = {0, 1, experts - 1};
  }
  return plan;
}

// The blanks in the header that make the data begin at the same offset within a page as in the
// source.
void Pad(sample::Distribution& out, uint64_t begin) {
  BundleRecord& bundle = out.manifest.bundles.back();
  std::string& bytes = out.files[bundle.file];
  const auto length = LoadLe<uint64_t>(std::as_bytes(std::span(bytes)));
  uint64_t blanks = 0;
  while ((8 + length + blanks) % 4096 != begin % 4096 / 8 * 8) blanks += 8;
  bytes = fixtures::WithHeader(bytes.substr(8, length) + std::string(blanks, ' '),
                               bytes.substr(8 + length));
  for (TensorRecord& tensor : bundle.tensors) tensor.offset += blanks;
  bundle.size = bytes.size();
  bundle.sha256 = Sha256Hex(bytes);
}

sample::Distribution MakeFrom(const MoeModel& model, const Plan& plan) {
  sample::Distribution out;
  out.manifest.plan = plan;
  out.manifest.model = DescribeModel(model, plan, "", "").model;
  out.manifest.versions.model = model.Version("");
  out.UpdateVersions();
  for (uint32_t part = 0; part < 4; ++part) {
    const Role role = part == 0 ? Role::kTrunk : part == 3 ? Role::kOverlay : Role::kGroup;
    const auto group = role == Role::kGroup ? std::optional(part - 1) : std::nullopt;
    uint64_t begin = 0;
    sample::AddBundle(out, role, group, TensorsOf(model, plan, role, group, &begin));
    Pad(out, begin);
  }
  const SourceTree& tree = *model.checkpoint().tree();
  const auto assets = ListAssets(tree);
  for (const Asset& asset : assets.value()) {
    sample::AddAsset(out, asset.name, *tree.ReadText(asset.name, asset.size));
  }
  return out;
}

// A source of one layout and the distribution made from it by hand.
struct MadeSource {
  explicit MadeSource(const std::string& layout) {
    EXPECT_TRUE(fixtures::MakeCheckpoint(layout, dir / "source"));
    auto opened = MoeModel::Open(dir / "source");
    EXPECT_TRUE(opened) << opened.error().message;
    if (opened) distribution = MakeFrom(*opened, PlanFor(*opened));
  }
  VerifyReport Verify(bool digests = true) const {
    fs::remove_all(dir / "out");
    distribution.WriteTo(dir / "out");
    VerifyOptions options;
    options.against = (dir / "source").string();
    options.digests = digests;
    auto report = VerifyDistribution((dir / "out").string(), options);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : VerifyReport();
  }
  fixtures::TempDir dir;
  sample::Distribution distribution;
};

TEST(VerifySourceTest, VerifiesEveryLayoutAgainstItsSource) {
  size_t checked = 0;
  for (const std::string& layout : fixtures::Layouts()) {
    SCOPED_TRACE(layout);
    const MadeSource made(layout);
    const VerifyReport report = made.Verify();
    EXPECT_TRUE(report.passed()) << TextOf(report);
    EXPECT_GT(report.source_bytes, 0u);
    EXPECT_LT(report.source_bytes, report.bytes);
    ++checked;
  }
  std::printf("%zu layouts checked\n", checked);
  EXPECT_GT(checked, 10u);
}

TEST(VerifySourceTest, FindsOneWrongByteInEveryLayoutAndSaysWhere) {
  for (const std::string& layout : fixtures::Layouts()) {
    SCOPED_TRACE(layout);
    MadeSource made(layout);
    BundleRecord& bundle = made.distribution.manifest.bundles[2];
    TensorRecord& tensor = bundle.tensors.back();
    made.distribution.files[bundle.file][tensor.offset + tensor.bytes - 1] ^= 0x10;
    const VerifyReport report = made.Verify(false);
    EXPECT_EQ(BrokenRules(report), Rules{"source-bytes"}) << TextOf(report);
    const std::string place =
        Cat("byte ", tensor.bytes - 1, " (", tensor.offset + tensor.bytes - 1, " of the file)");
    EXPECT_NE(TextOf(report).find(place), std::string::npos) << TextOf(report);
    EXPECT_NE(TextOf(report).find(tensor.name), std::string::npos);
  }
}

TEST(VerifySourceTest, FindsBytesWhoseDigestsWereForged) {
  MadeSource made("qwen3-moe");
  sample::Distribution& d = made.distribution;
  BundleRecord& bundle = d.manifest.bundles[0];
  std::string& bytes = d.files[bundle.file];
  bytes[bundle.tensors[0].offset] ^= 1;
  const auto data = std::as_bytes(std::span(bytes));
  bundle.sha256 = Sha256Hex(bytes);
  bundle.tensors[0].xxh3 = Xxh3Hex(data.subspan(bundle.tensors[0].offset, bundle.tensors[0].bytes));
  const VerifyReport report = made.Verify();
  EXPECT_EQ(BrokenRules(report), Rules{"source-bytes"}) << TextOf(report);
  EXPECT_EQ(report.findings.size(), 2u) << "beside the claims";
}

// Changes of a distribution that only the source can reveal.
struct SourceBreakage {
  const char* rule;
  std::function<void(sample::Distribution&)> change;
  const char* message;
};

TEST(VerifySourceTest, FindsEachBrokenRuleAndNothingElse) {
  // Long because it is a table.
  using D = sample::Distribution;
  const std::vector<SourceBreakage> breakages = {
      {"source-model",
       [](D& d) {
         d.manifest.versions.model = "0123456789abcdef";
         d.manifest.model.revision = "main";  // otherwise the files' own headers disagree as well
         d.UpdateVersions();
       },
       "model version: expected"},
      {"source-model", [](D& d) { d.manifest.model.family = "mixtral"; }, "family: expected"},
      {"source-model",
       [](D& d) {
         d.manifest.model.calibrated = CalibrationKeys{"0123456789abcdef", "feedback-2", "", 4000};
       },
       "model.calibrated: expected none (the source), found version \"0123456789abcdef\""},
      {"source-model", [](D& d) { d.manifest.model.source[0].size += 1; }, "source file"},
      {"source-model", [](D& d) { d.manifest.model.source[0].size = 1; },
       "expected 1 byte with header"},
      {"source-model", [](D& d) { d.manifest.model.source.pop_back(); },
       "expected in the manifest, found none"},
      {"source-model",
       [](D& d) {
         d.manifest.model.source.push_back({"x", 1, std::string(64, 'a'), ""});
       },
       "\"x\": expected in the source, found none"},
      {"source-model",
       [](D& d) {
         const uint32_t layer = d.manifest.model.top_k.begin()->first;
         d.manifest.model.top_k[layer] = d.manifest.plan.top_k[layer] = 1;
       },
       "top-k: expected 2, found 1"},
      {"source-tensors", [](D& d) { d.manifest.bundles[0].tensors[0].source = "no.such.tensor"; },
       "expected one of the source, found \"no.such.tensor\""},
      {"source-tensors",
       [](D& d) {
         for (TensorRecord& tensor : d.manifest.bundles[0].tensors) {
           if (tensor.name.ends_with("mlp.gate.weight")) tensor.layer = std::nullopt;
         }
       },
       "layer none"},
      {"source-assets", [](D& d) { sample::AddAsset(d, "vocab.json", "{}"); },
       "expected the same file in the source"},
      {"source-assets",
       [](D& d) {
         const std::string text = d.files["assets/config.json"] + " ";
         d.manifest.assets.clear();
         sample::AddAsset(d, "config.json", text);
       },
       "bytes as in the source"},
      {"source-assets",
       [](D& d) {
         std::string text = d.files["assets/config.json"];
         text.back() ^= 1;
         d.manifest.assets.clear();
         sample::AddAsset(d, "config.json", text);
       },
       "of the file): expected"},
  };
  const MadeSource made("qwen3-moe");
  for (const SourceBreakage& breakage : breakages) {
    SCOPED_TRACE(breakage.message);
    sample::Distribution changed = made.distribution;
    breakage.change(changed);
    fs::remove_all(made.dir / "changed");
    changed.WriteTo(made.dir / "changed");
    VerifyOptions options;
    options.against = (made.dir / "source").string();
    const auto report = VerifyDistribution((made.dir / "changed").string(), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(BrokenRules(*report), Rules{breakage.rule}) << TextOf(*report);
    EXPECT_NE(TextOf(*report).find(breakage.message), std::string::npos) << TextOf(*report);
  }
}

TEST(VerifySourceTest, FindsTensorsThatAreMissingOrInTheWrongPart) {
  MadeSource made("qwen3-moe");
  sample::Distribution& d = made.distribution;
  auto opened = MoeModel::Open(made.dir / "source");
  ASSERT_TRUE(opened) << opened.error().message;
  auto trunk = TensorsOf(*opened, d.manifest.plan, Role::kTrunk, std::nullopt);
  const std::string lost = trunk.front().raw.name;
  trunk.erase(trunk.begin());
  d.Remove("trunk/trunk.safetensors");
  sample::AddBundle(d, Role::kTrunk, std::nullopt, trunk);
  const VerifyReport report = made.Verify();
  EXPECT_EQ(BrokenRules(report), (Rules{"source-tensors", "source-headers"})) << TextOf(report);
  ASSERT_EQ(report.findings.size(), 3u) << "beside the claims";
  EXPECT_EQ(report.findings[0].tensor, lost);
  EXPECT_EQ(report.findings[0].message, "trunk: expected once, found 0 times");
}

TEST(VerifySourceTest, VerifiesAPartialDistribution) {
  MadeSource made("qwen3-moe");
  made.distribution.Remove("trunk/trunk.safetensors");
  made.distribution.Remove("groups/001/experts.safetensors");
  made.distribution.manifest.complete = false;
  const VerifyReport part = made.Verify();
  EXPECT_TRUE(part.passed()) << TextOf(part);
  const auto& bundles = made.distribution.manifest.bundles;
  EXPECT_EQ(part.tensors, bundles[0].tensors.size() + bundles[1].tensors.size());
  EXPECT_GT(part.source_bytes, 0u);
}

TEST(VerifySourceTest, ListsTheRulesOfTheSource) {
  const VerifyReport report = MadeSource("qwen3-moe").Verify(false);
  const Rules rules(report.rules.begin(), report.rules.end());
  for (const char* rule : {"source-model", "source-tensors", "source-bytes", "source-assets"}) {
    EXPECT_TRUE(rules.contains(rule)) << rule;
  }
  EXPECT_FALSE(rules.contains("file-sha256"));
}

TEST(VerifySourceTest, IsAnErrorWithoutTheSource) {
  const fixtures::TempDir dir;
  sample::Make().WriteTo(dir.path());
  VerifyOptions options;
  options.against = (dir / "nowhere").string();
  const auto report = VerifyDistribution(dir.path().string(), options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kNotFound) << report.error().message;
}

}  // namespace
}  // namespace moepack::manifest
