#include "manifest/verify.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "libshard/file.h"
#include "libshard/text.h"
#include "manifest/manifest_json.h"
#include "manifest/verify_rules.h"

namespace manifest {

using shard::Cat;
using shard::Code;

namespace {

constexpr const char* kSchemaRule = "manifest-schema";
constexpr size_t kMaxFindingsPerRule = 20;

std::vector<CheckedFile> FilesOf(const Manifest& manifest) {
  std::vector<CheckedFile> files;
  for (const BundleRecord& bundle : manifest.bundles) {
    files.push_back({bundle.file, bundle.size, bundle.sha256, &bundle, true, {}});
  }
  for (const AssetRecord& asset : manifest.assets) {
    files.push_back({asset.file, asset.size, asset.sha256, nullptr, true, {}});
  }
  return files;
}

void CheckStructure(const Manifest& manifest, VerifyReport& report) {
  for (const auto rules : {PlanRules(), BundleRules()}) {
    for (const StructureRule& rule : rules) {
      RuleFindings findings(rule.name, report.findings);
      rule.check(manifest, findings);
      report.rules.push_back(rule.name);
    }
  }
}

void CheckWhole(const Manifest& manifest, VerifyReport& report) {
  if (manifest.complete) return;
  RuleFindings("part-files-complete", report.findings)
      .Error("complete: expected a whole distribution, found one that lacks parts on purpose");
}

template <size_t N>
void AddRules(const char* const (&rules)[N], VerifyReport& report) {
  report.rules.insert(report.rules.end(), std::begin(rules), std::end(rules));
}

Status CheckAgainst(const Manifest& manifest, const std::string& directory,
                    std::vector<CheckedFile>& files, const VerifyOptions& options,
                    VerifyReport& report) {
  SHARD_TRY(const shard::MoeModel model,
            shard::MoeModel::Open(options.against, {.family_file = options.family_file,
                                                    .config_file = options.config_file}));
  RuleFindings model_findings("source-model", report.findings);
  CheckSourceModel(manifest, model, model_findings);
  SHARD_TRY(const SourceFiles sources, MatchSources(manifest, model, files, report.findings));
  AddRules(kSourceRules, report);
  SHARD_CHECK(CheckBytes(directory, files, options, report));
  if (manifest.is_gguf())
    SHARD_CHECK(CheckGgufAgainst(manifest, directory, model, options, report));
  return model.checkpoint().CheckUnchanged();
}

}  // namespace

// A damaged model gives one finding per tensor; a reader wants the kind and the number.
void LimitFindings(VerifyReport& report) {
  std::map<std::string, size_t> order;
  for (const std::string& rule : report.rules) order.emplace(rule, order.size());
  std::stable_sort(
      report.findings.begin(), report.findings.end(),
      [&](const Finding& a, const Finding& b) { return order[a.rule] < order[b.rule]; });
  std::map<std::string, size_t> counts;
  for (const Finding& finding : report.findings) ++counts[finding.rule];
  std::map<std::string, size_t> seen;
  std::vector<Finding> kept;
  for (Finding& finding : report.findings) {
    const size_t number = ++seen[finding.rule];
    if (number <= kMaxFindingsPerRule) {
      kept.push_back(std::move(finding));
    } else if (number == kMaxFindingsPerRule + 1) {
      const size_t more = counts[finding.rule] - kMaxFindingsPerRule;
      kept.push_back({finding.severity, finding.rule, "", "", Cat("and ", more, " more")});
    }
  }
  report.findings = std::move(kept);
}

bool VerifyReport::passed() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.severity == Severity::kError; });
}

Result<VerifyReport> VerifyDistribution(const std::string& directory,
                                        const VerifyOptions& options) {
  SHARD_TRY(const std::string text, ReadManifestText(directory));
  VerifyReport report;
  report.rules.push_back(kSchemaRule);
  auto manifest = ParseUncheckedPlan(kManifestFile, text);
  if (!manifest) {
    if (manifest.error().code != Code::kCorrupt) {
      return std::move(manifest).error().Within(directory);
    }
    RuleFindings(kSchemaRule, report.findings).Error(manifest.error().message, kManifestFile);
    return report;
  }
  CheckStructure(*manifest, report);
  if (options.whole) CheckWhole(*manifest, report);
  std::vector<CheckedFile> files = FilesOf(*manifest);
  CheckFiles(directory, *manifest, files, report.findings);
  AddRules(kFileRules, report);
  if (options.digests) AddRules(kDigestRules, report);
  if (!options.against.empty()) {
    SHARD_CHECK(CheckAgainst(*manifest, directory, files, options, report));
  } else if (options.digests) {
    SHARD_CHECK(CheckBytes(directory, files, options, report));
  }
  for (const BundleRecord& bundle : manifest->bundles) report.tensors += bundle.tensors.size();
  report.files = files.size();
  LimitFindings(report);
  return report;
}

}  // namespace manifest
