// Rules that need the source: what the manifest says about the model must be true of the source.
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"
#include "manifest/verify/verify_source_rules.h"

namespace moepack::manifest {

namespace {

// True for a block for multi-token prediction that the conversion to GGUF left out.
bool IsLeftOut(const Manifest& manifest, const MoeLayer& layer) {
  return manifest.is_gguf() && layer.mtp && !manifest.plan.layers.contains(layer.layer);
}

void CheckLayers(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  if (!SameLayers(manifest, model)) {
    findings.Error(Cat("experts per layer: expected those of the source (", model.layers().size(),
                       " layers), found others (", manifest.plan.layers.size(), " layers)"));
  }
  for (const MoeLayer& layer : model.layers()) {
    if (IsLeftOut(manifest, layer)) continue;
    const auto found = manifest.model.top_k.find(layer.layer);
    const uint32_t top_k = found == manifest.model.top_k.end() ? 0 : found->second;
    if (top_k == layer.top_k) continue;
    findings.Error(
        Cat("layer ", layer.layer, ": top-k: expected ", layer.top_k, ", found ", top_k));
  }
}

// If both the manifest and the source know what the server publishes.
void CheckPublishedDigest(const SourceRecord& record, const SourceFile& file,
                          RuleFindings& findings) {
  if (!record.origin || !file.origin) return;
  const std::string &found = record.origin->sha256, &expected = file.origin->sha256;
  if (found.empty() || expected.empty() || found == expected) return;
  findings.Error(Cat("source file ", Quoted(file.name), ": published_sha256: expected ", expected,
                     " (the source), found ", found));
}

void CheckSourceRecords(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  std::map<std::string, const SourceRecord*> records;
  for (const SourceRecord& record : manifest.model.source) records[record.file] = &record;
  for (const SourceFile& file : model.checkpoint().files()) {
    const auto record = records.find(file.name);
    if (record == records.end()) {
      findings.Error(
          Cat("source file ", Quoted(file.name), ": expected in the manifest, found none"));
      continue;
    }
    const SourceRecord& expected = *record->second;
    if (expected.size != file.size || expected.header_sha256 != file.header_sha256) {
      findings.Error(Cat("source file ", Quoted(file.name), ": expected ",
                         Plural(expected.size, "byte"), " with header ", expected.header_sha256,
                         ", found ", Plural(file.size, "byte"), " with header ",
                         file.header_sha256));
    }
    CheckPublishedDigest(expected, file, findings);
    records.erase(record);
  }
  for (const auto& [name, record] : records) {
    findings.Error(Cat("source file ", Quoted(name), ": expected in the source, found none"));
  }
}

std::string KeysText(const std::optional<CalibrationKeys>& keys) {
  return keys ? Cat("version ", Quoted(keys->version), ", method ", Quoted(keys->method),
                    ", texts ", Quoted(keys->texts), ", ", Plural(keys->tokens, "token"))
              : "none";
}

// Earlier versions did not record what a calibrated source says of itself.
void CheckCalibrated(const ModelRecord& expected, const ModelRecord& found,
                     RuleFindings& findings) {
  if (!found.calibrated || found.calibrated == expected.calibrated) return;
  findings.Error(Cat("model.calibrated: expected ", KeysText(expected.calibrated),
                     " (the source), found ", KeysText(found.calibrated)));
}

// Compares the fields of "model" that a distribution of the source would have, too.
void CheckFacts(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  const ModelRecord& found = manifest.model;
  const ModelRecord expected = DescribeModel(model, manifest.plan, found.id, found.revision).model;
  for (const Field<ModelRecord>& field : ModelFields()) {
    if (field.proof != Proof::kEqual) continue;
    const auto value = [&](const ModelRecord& record) {
      return field.IsWritten(record) ? std::optional(field.form.write(record)) : std::nullopt;
    };
    const auto text = [](const std::optional<Json>& json) {
      return json ? DescribeJson(*json) : "none";
    };
    const std::optional<Json> wanted = value(expected), there = value(found);
    if (wanted == there) continue;
    findings.Error(Cat("model.", field.name, ": expected ", text(wanted), " (the source), found ",
                       text(there)));
  }
  CheckCalibrated(expected, found, findings);
}

// The digest that a source file must have according to the manifest: one that was computed or, if
// the file is available for hashing, one that its server published.
struct ClaimedDigest {
  const char* field = "";
  std::string sha256;
};
ClaimedDigest ClaimOf(const SourceRecord& record, const SourceFile& file) {
  if (!record.sha256.empty()) return {"sha256", record.sha256};
  if (record.origin && !file.origin) return {"published_sha256", record.origin->sha256};
  return {};
}

// Compares the SHA-256 of whole source files if the manifest has them.
Status CheckSourceDigests(const Manifest& manifest, const MoeModel& model, size_t jobs,
                          RuleFindings& findings) {
  std::map<std::string, const SourceRecord*> records;
  for (const SourceRecord& record : manifest.model.source) records[record.file] = &record;
  const std::vector<SourceFile>& files = model.checkpoint().files();
  std::vector<ClaimedDigest> claims(files.size());
  std::vector<std::string> digests(files.size());
  SHARD_CHECK(ParallelFor(files.size(), jobs, [&](size_t i) -> Status {
    const auto record = records.find(files[i].name);
    if (record != records.end()) claims[i] = ClaimOf(*record->second, files[i]);
    if (claims[i].sha256.empty()) return Ok();
    SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(files[i]));
    SHARD_TRY(digests[i], Sha256Of(*source));
    return Ok();
  }));
  for (size_t i = 0; i < files.size(); ++i) {
    if (digests[i] == claims[i].sha256) continue;
    findings.Error(Cat("source file ", Quoted(files[i].name), ": ", claims[i].field, ": expected ",
                       digests[i], " (the source), found ", claims[i].sha256));
  }
  return Ok();
}

}  // namespace

bool SameLayers(const Manifest& manifest, const MoeModel& model) {
  LayerCounts counts = LayerCountsOf(model);
  for (const MoeLayer& layer : model.layers()) {
    if (IsLeftOut(manifest, layer)) counts.erase(layer.layer);
  }
  return manifest.plan.layers == counts;
}

Status CheckSourceModel(const Manifest& manifest, const MoeModel& model, size_t jobs,
                        RuleFindings& findings) {
  const std::string version = model.Version(manifest.model.revision);
  if (manifest.versions.model != version) {
    findings.Error(Cat("model version: expected ", version, " (the source), found ",
                       Quoted(manifest.versions.model)));
  }
  CheckLayers(manifest, model, findings);
  CheckFacts(manifest, model, findings);
  CheckSourceRecords(manifest, model, findings);
  return CheckSourceDigests(manifest, model, jobs, findings);
}

}  // namespace moepack::manifest
