#include "manifest/verify/requantize.h"

#include <map>
#include <memory>
#include <set>

#include "libshard/base/digest.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/recipe/recipe_text.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parents.h"
#include "manifest/document/read_back.h"
#include "manifest/verify/verify.h"
#include "manifest/write/open_bundle.h"
#include "manifest/write/output_path.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

// Everything that is decided before a byte is written.
struct Requantized {
  OpenedDistribution from;
  std::vector<OpenedBundle> bundles;    // in the same order as in the manifest
  TypedGguf typed;                      // the whole model, assembled from the parts
  std::map<std::string, size_t> index;  // tensor name -> typed.model.tensors
  std::vector<SourceFile> sources;
  WritePlan plan;
};

// What writes a safetensors distribution with these types.
std::string BuildHint(std::string directory, const Manifest& manifest,
                      const RecipeOptions& recipe) {
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  const std::string path = PathArgument(directory);
  const std::string plan = ShellWord(path), store = ShellWord(path + ".refit");
  const std::string types = recipe.recipe.empty() ? "RECIPE" : recipe.recipe;
  const std::string build = Cat("`moepack build SRC --plan ", plan);
  const std::string rest = Cat(" --recipe ", types, " -o OUT` makes GGUF bundles of ");
  if (!manifest.refit) return Cat(build, rest, "the checkpoint SRC");
  return Cat(build, " --refit-store ", store, rest, "the checkpoint SRC and what `moepack refit` ",
             "left beside this distribution; `moepack refit ", plan,
             " --against SRC --text FILES... --store ", store, "` makes that again");
}

Status CheckWhole(const std::string& distribution, const Manifest& manifest,
                  const WriteOptions& options) {
  if (!manifest.is_gguf()) {
    return Error{Code::kUnsupported,
                 Cat(distribution,
                     ": expected GGUF bundles, found safetensors bundles, which keep "
                     "their source's bytes"),
                 BuildHint(distribution, manifest, options.gguf->recipe)};
  }
  if (manifest.calibrated) {
    return Error{Code::kUnsupported,
                 Cat(distribution,
                     ": expected a distribution without a calibration, which other types lose, "
                     "found a calibrated one"),
                 "build one from the checkpoint with these types"};
  }
  if (manifest.complete) return Ok();
  return Error{Code::kUnsupported,
               Cat(distribution, ": expected a whole distribution, found one that lacks parts")};
}

// Verifies the distribution first, so that corrupt bytes do not get new, valid digests. Its
// manifest is parsed from the text again, because the draft's has become that of the result.
Status CheckIntact(OpenedDistribution distribution, size_t jobs) {
  SHARD_TRY(distribution.manifest, ParseManifest(distribution.directory, distribution.text));
  VerifyOptions options;
  options.jobs = jobs;
  SHARD_TRY(const VerifyReport report, VerifyOpened(distribution, options));
  for (const Finding& finding : report.findings) {
    if (finding.severity != Severity::kError) continue;
    return NameCorrupt(distribution.directory, Error{Code::kMismatch,
                                                     Cat(distribution.directory, "/", finding.file,
                                                         ": ", finding.rule, ": ", finding.message),
                                                     kCorruptHint});
  }
  return Ok();
}

// Returns the tensor of the whole model that `part` is a piece of.
GgufTensor WholeOf(const PartTensor& part, const Manifest& manifest, FamilyMatcher& matcher) {
  GgufTensor tensor;
  tensor.name = tensor.source_tensor = part.entry.name;
  tensor.shape = part.entry.shape;
  tensor.stored = tensor.type = part.entry.format;
  tensor.layer = part.record->layer;
  const TensorClass found = matcher.Classify(tensor.name);
  if (found.rule != nullptr) tensor.part = found.rule->part;
  const LayerCounts& layers = manifest.plan.layers;
  const auto layer = tensor.layer ? layers.find(*tensor.layer) : layers.end();
  if (!part.record->expert_ids.empty() && layer != layers.end()) {
    tensor.expert_count = layer->second;
    tensor.shape[0] = layer->second;
  }
  return tensor;
}

void CollectModel(Requantized& out) {
  FamilyMatcher matcher(GgufFamily(), out.from.manifest.model.layers);
  for (size_t i = 0; i < out.bundles.size(); ++i) {
    OpenedBundle& bundle = out.bundles[i];
    out.sources.push_back(bundle.source);
    if (out.from.manifest.bundles[i].role == Role::kHead)
      out.typed.model.metadata = bundle.metadata;
    for (const PartTensor& part : bundle.tensors) {
      const size_t next = out.typed.model.tensors.size();
      // Every group has a piece of the same tensor; rules and types are chosen for the whole.
      if (!out.index.emplace(part.entry.name, next).second) continue;
      out.typed.model.tensors.push_back(WholeOf(part, out.from.manifest, matcher));
    }
  }
}

// A group's refitted tensor has the importance of that group.
Status WeighRefitted(const PartTensor& part, const Requantized& model, const BundleRecord& bundle,
                     GgufTensor& tensor) {
  const bool refitted = !part.record->derived.empty() && model.from.manifest.refit &&
                        bundle.group && tensor.layer && tensor.expert_count > 0;
  if (!refitted || !model.typed.imatrix) return Ok();
  const RefitOutcome* own = model.from.manifest.refit->Find(*tensor.layer, *bundle.group);
  if (own == nullptr) return Ok();
  SHARD_TRY(tensor.importance,
            GroupImportance(*model.typed.imatrix, tensor, {*bundle.group, own->expert_ids}));
  return Ok();
}

Result<OutputTensor> EncodePart(const PartTensor& part, const Requantized& model,
                                const BundleRecord& bundle) {
  const size_t whole = model.index.at(part.entry.name);
  GgufTensor tensor = model.typed.model.tensors[whole];
  SHARD_CHECK(WeighRefitted(part, model, bundle, tensor));
  tensor.shape = part.entry.shape;
  tensor.stored = part.entry.format;
  tensor.expert_count = static_cast<uint32_t>(part.record->expert_ids.size());
  tensor.sources = {{part.entry.file, part.entry.offset, part.entry.bytes}};
  const quant::Format* type = tensor.type;
  if (bundle.role == Role::kOverlay && model.typed.recipe.overlay_types.size() > whole &&
      model.typed.recipe.overlay_types[whole] != nullptr) {
    type = model.typed.recipe.overlay_types[whole];
  }
  SHARD_TRY(OutputTensor out, EncodeTensor(tensor, type));
  out.expert_ids = part.record->expert_ids;
  out.derived = part.record->derived;
  if (!part.record->source.empty()) out.SetSourceName(part.record->source);
  return out;
}

Status LayOut(uint64_t alignment, Requantized& model) {
  for (size_t i = 0; i < model.bundles.size(); ++i) {
    const BundleRecord& record = model.from.manifest.bundles[i];
    OutputFile file;
    file.path = record.file;
    file.role = record.role;
    file.group = record.group;
    for (const PartTensor& part : model.bundles[i].tensors) {
      SHARD_TRY(OutputTensor tensor, EncodePart(part, model, record));
      file.tensors.push_back(std::move(tensor));
    }
    const bool head = record.role == Role::kHead;
    LayOutGguf(file, head ? model.typed.model.metadata : model.bundles[i].metadata, alignment);
    model.plan.files.push_back(std::move(file));
  }
  return Ok();
}

// Does everything after the bundles are opened.
Status Decide(const WriteOptions& options, Requantized& out) {
  out.plan.plan = out.from.manifest.plan;
  CollectModel(out);
  SHARD_CHECK(ChooseTypes(*options.gguf, out.typed));
  return LayOut(options.gguf->alignment, out);
}

Result<Requantized> Prepare(const std::string& distribution, const WriteOptions& options) {
  Requantized out;
  SHARD_TRY(out.from, OpenDistribution(distribution));
  SHARD_CHECK(CheckWhole(distribution, out.from.manifest, options));
  for (const BundleRecord& record : out.from.manifest.bundles) {
    SHARD_TRY(OpenedBundle opened,
              OpenBundle(out.from.tree, record, static_cast<uint32_t>(out.bundles.size())));
    out.bundles.push_back(std::move(opened));
  }
  SHARD_CHECK(Decide(options, out));
  for (const AssetRecord& asset : out.from.manifest.assets) {
    out.plan.assets.push_back({asset.file.substr(asset.file.find('/') + 1), asset.size});
  }
  out.plan.notes = GgufNotes(out.typed);
  if (options.list_types) out.plan.types = ListTypes(out.typed);
  out.plan.recipe = DescribeRecipe(*options.gguf, out.typed);
  out.plan.recipe.name = RequantizedRecipe(out.plan.recipe.name, out.from.manifest.recipe.name);
  return out;
}

// Returns what OpenBundle would return for the file once it is written.
Result<OpenedBundle> OpenInMemory(const BundleRecord& record, const OutputFile& file,
                                  uint32_t number) {
  SHARD_TRY(GgufHeader header,
            ParseGguf(file.path, std::as_bytes(std::span(file.prefix)), file.size));
  OpenedBundle out;
  out.metadata = std::move(header.metadata);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    out.tensors.push_back({&record.tensors[i], file.tensors[i].entry});
    out.tensors.back().entry.file = number;
  }
  return out;
}

}  // namespace

std::string RequantizedRecipe(const std::string& own, const std::string& before) {
  // The recipe names the previous one, because values rounded twice differ from values rounded
  // once.
  return before == RecipeText({}) ? own : Cat(own, " of ", before);
}

Result<WritePlan> RequantizeInMemory(const Manifest& manifest,
                                     const std::vector<OutputFile>& before,
                                     const WriteOptions& options) {
  Requantized out;
  out.from.manifest = manifest;
  out.from.manifest.bundles.clear();
  for (const OutputFile& file : before) {
    const FileDigests none{"", Xxh3List(file.tensors.size())};
    out.from.manifest.bundles.push_back(DescribeBundle(file, none, "gguf"));
  }
  for (size_t i = 0; i < before.size(); ++i) {
    SHARD_TRY(OpenedBundle opened,
              OpenInMemory(out.from.manifest.bundles[i], before[i], static_cast<uint32_t>(i)));
    out.bundles.push_back(std::move(opened));
  }
  SHARD_CHECK(Decide(options, out));
  uint64_t number = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    std::vector<OutputTensor>& tensors = out.plan.files[i].tensors;
    for (size_t t = 0; t < tensors.size(); ++t) {
      SHARD_TRY(tensors[t], Recoded(before[i].tensors[t], std::move(tensors[t]), ++number));
    }
  }
  return std::move(out.plan);
}

namespace {

// Checks that the result will be readable, and turns the distribution's manifest into that of the
// result, without files and assets.
Status DescribeResult(const WriteOptions& options, const WritePlan& plan, Manifest& manifest,
                      const std::string& text) {
  AddParent({Sha256Hex(text), manifest.recipe}, manifest);
  SHARD_CHECK(ReadBackPlanned(manifest, plan.files, "gguf"));
  manifest.bundles.clear();
  manifest.assets.clear();
  SHARD_TRY(manifest.created, SourceDateEpoch());
  manifest.recipe = plan.recipe;
  manifest.quality.reset();  // measured on other bytes
  manifest.command = options.command;
  return Ok();
}

Result<Draft> DraftResult(const std::string& distribution, const std::string& out,
                          const WriteOptions& options) {
  if (!out.empty()) SHARD_CHECK(CheckOutsideDistribution(out, distribution));
  SHARD_TRY(Requantized model, Prepare(distribution, options));
  Draft draft;
  draft.sources = std::move(model.sources);
  draft.files = std::move(model.plan);
  draft.manifest = std::move(model.from.manifest);
  SHARD_CHECK(DescribeResult(options, draft.files, *draft.manifest, model.from.text));
  draft.assets_from = model.from.tree;
  draft.assets_folder = kAssetDirectory;
  draft.check = [from =
                     OpenedDistribution{
                         model.from.directory, model.from.tree, std::move(model.from.text), {}},
                 jobs = options.pack.jobs] { return CheckIntact(from, jobs); };
  return draft;
}

}  // namespace

Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options) {
  SHARD_TRY(Draft draft, DraftRequantized(distribution, out, options));
  Result<WriteReport> report = WriteDraft(std::move(draft), out, options);
  if (!report) return NameCorrupt(distribution, std::move(report).error());
  return report;
}

Result<Draft> DraftRequantized(const std::string& distribution, const std::string& out,
                               const WriteOptions& options) {
  Result<Draft> draft = DraftResult(distribution, out, options);
  if (!draft) return NameCorrupt(distribution, std::move(draft).error());
  return draft;
}

}  // namespace moepack::manifest
