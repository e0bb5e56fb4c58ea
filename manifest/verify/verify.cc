#include "manifest/verify/verify.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/parents.h"
#include "manifest/document/use_overlay.h"
#include "manifest/verify/sampled_tensors.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

namespace {

constexpr const char* kDigestRule = "manifest-digest";
constexpr const char* kSchemaRule = "manifest-schema";
constexpr const char* kOriginRule = "source-origin";
constexpr const char* kCalibratedRule = "calibrated-tensors";
constexpr const char* kPulledRule = "pulled-parts";
constexpr size_t kMaxFindingsPerRule = 20;

// The only overlay that is checked; "" for all.
std::string ChosenOverlay(const Plan& plan, const VerifyOptions& options) {
  const OverlayPlan* current = plan.current_overlay();
  if (!options.overlay.empty() || options.groups.empty() || current == nullptr)
    return options.overlay;
  return current->version;
}

// Every node has the other parts, but for the remainder.
bool IsPulled(const BundleRecord& bundle, const PulledParts& pulled) {
  if (bundle.role == Role::kRemainder) return false;
  if (bundle.role == Role::kOverlay) return pulled.overlay == PartOf(bundle).overlay;
  return bundle.role != Role::kGroup ||
         std::find(pulled.groups.begin(), pulled.groups.end(), bundle.group) != pulled.groups.end();
}

// True for what --group and --overlay select: these groups, this overlay, the parts that every node
// has, and the small files.
bool IsChosen(const BundleRecord& bundle, const Plan& plan, const VerifyOptions& options) {
  if (options.pulled && !IsPulled(bundle, *options.pulled)) return false;
  const std::vector<uint32_t>& groups = options.groups;
  if (bundle.role == Role::kOverlay) {
    const std::string chosen = ChosenOverlay(plan, options);
    return options.with_overlay && (chosen.empty() || PartOf(bundle).overlay == chosen);
  }
  if (groups.empty()) return true;
  if (bundle.role == Role::kRemainder) return false;
  return bundle.role != Role::kGroup ||
         std::find(groups.begin(), groups.end(), bundle.group) != groups.end();
}

// What was not pulled and is there all the same is checked, too.
std::vector<CheckedFile> FilesOf(const Manifest& manifest, const SourceTree& tree,
                                 const VerifyOptions& options) {
  std::vector<CheckedFile> files;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (!IsChosen(bundle, manifest.plan, options)) {
      const Result<bool> there = options.pulled ? tree.Has(bundle.file) : Result<bool>(false);
      if (there && !*there) continue;
    }
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

// Repeats how much is known about source files that came from another machine.
void NoteOrigin(const Manifest& manifest, VerifyReport& report) {
  const SourceRecord* first = nullptr;  // one that was not proved, if any
  size_t far = 0, whole = 0;
  for (const SourceRecord& source : manifest.model.source) {
    if (!source.origin) continue;
    ++far;
    whole += source.whole ? 1 : 0;
    if (first == nullptr || first->whole) first = &source;
  }
  if (first == nullptr) return;
  report.rules.push_back(kOriginRule);
  const std::string files =
      Cat(far, " of ", manifest.model.source.size(), " source files came over a network, ",
          Quoted(first->origin->url), far > 1 ? " among them: " : ": ");
  RuleFindings(kOriginRule, report.findings)
      .Note(files + (whole == far ? "all were read whole and have the published SHA-256"
                                  : Cat(far - whole, " verified by transport only, ", whole,
                                        " read whole with the published SHA-256")));
}

// Whether the tensor's refitted experts were encoded for the group of the bundle.
bool IsOfGroup(const CalibratedRecord& record, const BundleRecord& bundle,
               const TensorRecord& tensor) {
  if (!bundle.group || !tensor.layer) return false;
  const CalibratedOutcome* const layer = record.FindInGroup(*bundle.group, *tensor.layer);
  return layer != nullptr &&
         std::any_of(layer->tensors.begin(), layer->tensors.end(),
                     [&](const CalibratedTensor& encoded) { return encoded.name == tensor.name; });
}

// Says how many tensors no source can prove. Where one is compared, source-bytes says it.
void NoteCalibrated(const Manifest& manifest, VerifyReport& report) {
  if (!manifest.calibrated) return;
  uint64_t tensors = 0, bytes = 0;
  for (const BundleRecord& bundle : manifest.bundles) {
    for (const TensorRecord& tensor : bundle.tensors) {
      const CalibratedTensor* const encoded = manifest.calibrated->Find(tensor.name).tensor;
      // An overlay may have another type, and is made from the source then.
      const bool own = encoded != nullptr && encoded->type->name == tensor.dtype;
      if (!own) continue;
      if (!tensor.derived.empty() && !IsOfGroup(*manifest.calibrated, bundle, tensor)) continue;
      ++tensors;
      bytes += tensor.bytes;
    }
  }
  report.rules.push_back(kCalibratedRule);
  RuleFindings(kCalibratedRule, report.findings)
      .Note(Cat(Plural(tensors, "tensor"), ", ", FormatCount(bytes),
                " bytes, were encoded on texts (calibrated): only the store of the calibration "
                "proves them, with --against and --calibrated-store"));
}

void CheckWhole(const Manifest& manifest, VerifyReport& report) {
  if (manifest.complete) return;
  RuleFindings("part-files-complete", report.findings)
      .Error("complete: expected a whole distribution, found one that lacks parts on purpose");
}

Status CheckGroups(const std::string& directory, const Manifest& manifest,
                   const VerifyOptions& options, VerifyReport& report) {
  RuleFindings findings("part-files-complete", report.findings);
  for (const uint32_t group : options.groups) {
    SHARD_CHECK(CheckGroup(directory, group, manifest.plan.groups.size()));
    const bool there = std::any_of(
        manifest.bundles.begin(), manifest.bundles.end(),
        [&](const auto& bundle) { return bundle.role == Role::kGroup && bundle.group == group; });
    const bool holds = CountIds(HeldBy(manifest.plan.groups[group])) > 0;
    if (!there && holds) {
      findings.Error(Cat("group ", group, ": expected a file in the manifest, found none"));
    }
  }
  return Ok();
}

// Says which parts of the manifest were not pulled, and so are not expected. The file may have been
// edited: a group that is not in the manifest is kCorrupt.
Status CheckPulled(const Manifest& manifest, const std::vector<CheckedFile>& files,
                   const PulledParts& pulled, VerifyReport& report) {
  for (const uint32_t group : pulled.groups) {
    if (group < manifest.plan.groups.size()) continue;
    return Error{Code::kCorrupt, Cat(pulled.file, ": groups: expected numbers below ",
                                     manifest.plan.groups.size(), ", found ", group)};
  }
  report.rules.push_back(kPulledRule);
  std::set<PartKey> checked;
  for (const CheckedFile& file : files) {
    if (file.bundle != nullptr) checked.insert(PartOf(*file.bundle));
  }
  std::set<PartKey> absent;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (!checked.contains(PartOf(bundle))) absent.insert(PartOf(bundle));
  }
  if (absent.empty()) return Ok();
  std::vector<std::string> words;
  for (const PartKey& part : absent) words.push_back(PartText(part));
  RuleFindings(kPulledRule, report.findings)
      .Note(Cat(moepack::Join(words, ", "), words.size() == 1 ? " was" : " were",
                " not pulled from ", Shown(pulled.reference), ", so ",
                words.size() == 1 ? "it was" : "they were", " not checked"));
  return Ok();
}

void CheckManifestDigest(const std::string& text, const VerifyOptions& options,
                         VerifyReport& report) {
  report.manifest_sha256 = Sha256Hex(text);
  if (options.digest.empty()) return;
  report.rules.push_back(kDigestRule);
  if (options.digest == report.manifest_sha256) return;
  RuleFindings(kDigestRule, report.findings)
      .Error(Cat("SHA-256: expected ", options.digest, ", found ", report.manifest_sha256),
             kManifestFile);
}

}  // namespace

// A corrupt model gives one finding per tensor; a reader only needs a few of them and their number.
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

namespace {

// The report before the manifest is parsed.
VerifyReport StartReport(const std::string& text, const VerifyOptions& options) {
  VerifyReport report;
  report.cold = options.cold;
  CheckManifestDigest(text, options, report);
  report.rules.push_back(kSchemaRule);
  return report;
}

// Everything but the structure of the document, which `manifest` has.
Status CheckRead(const std::string& directory, const SourceTree& tree, const Manifest& manifest,
                 const VerifyOptions& options, VerifyReport& report) {
  if (const auto parents = ParentsOf(manifest); !parents) {
    RuleFindings(kSchemaRule, report.findings).Error(parents.error().message, kManifestFile);
  } else if (!parents->empty() && !manifest.is_gguf()) {
    RuleFindings(kSchemaRule, report.findings)
        .Error("tool.parents: expected none for safetensors bundles, which are copies, found some",
               kManifestFile);
  }
  // Structure before bytes: it takes no time, and it is checked even where files are missing.
  CheckStructure(manifest, report);
  CheckRefit(manifest, report);
  NoteOrigin(manifest, report);
  if (options.against.empty()) NoteCalibrated(manifest, report);
  if (options.whole) CheckWhole(manifest, report);
  SHARD_CHECK(CheckGroups(directory, manifest, options, report));
  if (!options.overlay.empty()) SHARD_CHECK(FindOverlay(directory, options.overlay, manifest.plan));
  std::vector<CheckedFile> files = FilesOf(manifest, tree, options);
  if (options.pulled) SHARD_CHECK(CheckPulled(manifest, files, *options.pulled, report));
  SHARD_CHECK(CheckFiles(tree, manifest, files, report.findings));
  if (tree.LocalPath("")) {
    AddRules(kFileRules, report);
  } else {
    AddRules(kFarFileRules, report);
  }
  if (options.digests) AddRules(kDigestRules, report);
  if (!options.against.empty()) {
    SHARD_CHECK(CheckAgainst(manifest, tree, files, options, report));
  } else if (options.digests) {
    SHARD_CHECK(CheckBytes(tree, files, options, report));
    NoteSample(files, options, report);
  }
  for (const CheckedFile& file : files) {
    if (file.bundle != nullptr) report.tensors += file.bundle->tensors.size();
  }
  report.files = files.size();
  LimitFindings(report);
  return Ok();
}

}  // namespace

Result<VerifyReport> VerifyDistribution(const std::string& directory,
                                        const VerifyOptions& options) {
  const SourceTreePtr opened = options.distribution ? options.distribution->tree
                                                    : std::make_shared<const LocalTree>(directory);
  const SourceTree& tree = *opened;
  SHARD_TRY(const std::string text, ReadManifestText(tree));
  VerifyReport report = StartReport(text, options);
  auto manifest = ParseUncheckedPlan(kManifestFile, text);
  if (!manifest) {
    // A manifest that breaks the schema is a finding; one of a later version, or that cannot be
    // read, is an error.
    if (manifest.error().code != Code::kCorrupt) {
      return std::move(manifest).error().Within(directory);
    }
    RuleFindings(kSchemaRule, report.findings)
        .Unreadable(manifest.error().message, kManifestFile, kManifestFile);
    return report;
  }
  SHARD_CHECK(CheckRead(directory, tree, *manifest, options, report));
  return report;
}

Result<OpenedDistribution> OpenDistribution(const std::string& directory) {
  OpenedDistribution opened{directory, std::make_shared<const LocalTree>(directory), {}, {}};
  SHARD_TRY(opened.text, ReadManifestText(*opened.tree));
  SHARD_TRY(opened.manifest, ParseManifest(opened.tree->NameOf(kManifestFile), opened.text));
  return opened;
}

Result<VerifyReport> VerifyOpened(const OpenedDistribution& opened, const VerifyOptions& options) {
  VerifyReport report = StartReport(opened.text, options);
  SHARD_CHECK(CheckRead(opened.directory, *opened.tree, opened.manifest, options, report));
  return report;
}

}  // namespace moepack::manifest
