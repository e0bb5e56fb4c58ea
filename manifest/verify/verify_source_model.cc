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

// Compares every field of "model" except those with their own rules, those that the user chose (the
// id, which is free, and the revision, which is part of the model version), and the licence, which
// authors may state later or differently for the same weights.
void CheckFacts(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  const ModelRecord& record = manifest.model;
  const Json expected =
      ModelToJson(DescribeModel(model, manifest.plan, record.id, record.revision).model);
  const Json found = ModelToJson(record);
  const auto text = [](const Json& fields, const std::string& key) {
    return fields.contains(key) ? DescribeJson(fields[key]) : "none";
  };
  Json keys = expected;
  keys.update(found);
  for (const char* own : {"source", "license", "moe_layers", "experts", "top_k"}) keys.erase(own);
  for (const auto& [key, value] : keys.items()) {
    if (expected.contains(key) == found.contains(key) && expected[key] == found[key]) continue;
    findings.Error(Cat("model.", key, ": expected ", text(expected, key), " (the source), found ",
                       text(found, key)));
  }
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
