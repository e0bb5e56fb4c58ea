#include "manifest/verify/verify_node.h"

#include <algorithm>
#include <set>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/model/model.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/node_record.h"
#include "manifest/verify/sampled_tensors.h"
#include "manifest/verify/verify_rules.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {
namespace {

constexpr const char* kNodeSchemaRule = "node-schema";
constexpr const char* kModelRule = "node-model";
constexpr const char* kExpertsRule = "node-experts";

Status CheckOptions(const std::string& directory, const VerifyOptions& options) {
  const char* option = options.whole                                       ? "--complete"
                       : !options.against.empty()                          ? "--against"
                       : !options.groups.empty()                           ? "--group"
                       : !options.overlay.empty() || !options.with_overlay ? "--overlay"
                       : !options.digest.empty()                           ? "--digest"
                       : options.sample < kWholeSample                     ? "--sample"
                                                                           : nullptr;
  if (option == nullptr) return Ok();
  return Error{Code::kInvalidArgument, Cat(option, " has no effect: ", directory, " is a node"),
               "verify the distribution that the node was assembled from"};
}

bool IsWeightFile(std::string_view name) {
  return name.ends_with(".gguf") || name.ends_with(".safetensors");
}

// A stray file that a runtime may read is an error, because no digest covers it.
Severity SeverityOfStray(std::string_view name) {
  const bool read = IsWeightFile(name) || name.ends_with(".index.json") || IsAssetName(name);
  return read ? Severity::kError : Severity::kWarning;
}

// Lists the node's files for the checks; weights become bundles without tensor records.
void CheckFilesOfNode(const std::string& directory, const NodeRecord& record,
                      std::vector<BundleRecord>& bundles, std::vector<CheckedFile>& files,
                      Findings& findings) {
  bundles.reserve(record.files.size());  // CheckedFile::bundle points into it
  for (const NodeFileRecord& file : record.files) {
    const BundleRecord* bundle = nullptr;
    if (IsWeightFile(file.file)) bundle = &bundles.emplace_back();
    files.push_back({file.file, file.size, file.sha256, bundle, true, {}});
  }
  // A trunk may be a link out of the directory, because its digest is checked.
  CheckDirectory(directory, {{kNodeFile}, true, SeverityOfStray}, files, findings);
}

// Returns the ids of one layer, and adds the layer to `known`.
std::string IdsOfLayer(const NodeRecord& record, uint32_t layer, std::set<std::string>& known) {
  const std::string own = Cat(layer);
  known.insert(own);
  const auto found =
      record.experts_by_layer.find(record.experts_by_layer.contains(own) ? own : "*");
  return found == record.experts_by_layer.end() ? "" : found->second;
}

// Checks that each MoE layer of the model has as many experts as its list.
void CheckExperts(const NodeRecord& record, const MoeModel& model, RuleFindings& findings) {
  std::set<std::string> known = {"*"};
  for (const MoeLayer& layer : model.layers()) {
    const std::string text = IdsOfLayer(record, layer.layer, known);
    const auto ids = ParseIds("", text, kMaxExpertsPerLayer - 1);
    const std::string where = Cat("experts: layer ", layer.layer, ": ");
    if (!ids || FormatIds(*ids) != text) {
      findings.Error(
          Cat(where, "expected ascending ids in canonical spelling, found ", Quoted(text)),
          kNodeFile);
    } else if (ids->size() != layer.expert_count) {
      findings.Error(Cat(where, "expected ", layer.expert_count,
                         " ids, one for each expert of the node's files, found ", ids->size()),
                     kNodeFile);
    }
  }
  for (const auto& [layer, ids] : record.experts_by_layer) {
    if (known.contains(layer)) continue;
    findings.Error(Cat("experts: layer ", layer, ": expected a layer with experts, found none in ",
                       "the node's files"),
                   kNodeFile);
  }
}

Result<MoeModel> OpenNodeModel(const std::string& directory, LinkRule links,
                               const ModelOptions& options) {
  SHARD_TRY(const moepack::Source source, LocalSource(directory, links));
  return MoeModel::Open(source, options);
}

// Checks that the files are one complete split set or checkpoint whose counts agree with its
// tensors.
void CheckModel(const std::string& directory, const NodeRecord& record,
                const VerifyOptions& options, VerifyReport& report) {
  const ModelOptions model_options = {
      .family_file = options.family_file, .config_file = "", .sample_weights = false};
  const auto links = record.has_digests() ? LinkRule::kPartsAnywhere : LinkRule::kInside;
  const auto model = OpenNodeModel(directory, links, model_options);
  report.rules.insert(report.rules.end(), {kModelRule, kExpertsRule});
  if (!model) {
    RuleFindings(kModelRule, report.findings).Error(model.error().message, kNodeFile);
    return;
  }
  report.tensors = model->checkpoint().tensors().size();
  RuleFindings experts(kExpertsRule, report.findings);
  CheckExperts(record, *model, experts);
}

Status CheckAllFiles(const std::string& directory, const NodeRecord& record,
                     const VerifyOptions& options, VerifyReport& report) {
  if (!record.has_digests()) {
    RuleFindings(kNodeSchemaRule, report.findings)
        .Warning(
            "files: expected the digests of the node's files, found none: an older moepack "
            "assembled it, so only its structure is verified",
            kNodeFile);
    return Ok();
  }
  std::vector<BundleRecord> bundles;
  std::vector<CheckedFile> files;
  CheckFilesOfNode(directory, record, bundles, files, report.findings);
  report.rules.insert(report.rules.end(), std::begin(kDirectoryRules), std::end(kDirectoryRules));
  report.files = files.size();
  if (!options.digests) return Ok();
  report.rules.insert(report.rules.end(), {"file-sha256", "assets-sha256"});
  const LocalTree tree(directory, LinkRule::kAnywhere);
  return CheckBytes(tree, files, options, report);
}

}  // namespace

Result<VerifyReport> VerifyNode(const std::string& directory, const VerifyOptions& options) {
  SHARD_CHECK(CheckOptions(directory, options));
  VerifyReport report;
  report.cold = options.cold;
  report.rules.push_back(kNodeSchemaRule);
  const auto record = ReadNodeRecord(directory);
  if (!record) {
    if (record.error().code != Code::kCorrupt) return record.error();
    RuleFindings(kNodeSchemaRule, report.findings)
        .Unreadable(record.error().message, LocalTree(directory).NameOf(kNodeFile), kNodeFile);
    return report;
  }
  SHARD_CHECK(CheckAllFiles(directory, *record, options, report));
  CheckModel(directory, *record, options, report);
  LimitFindings(report);
  return report;
}

}  // namespace moepack::manifest
