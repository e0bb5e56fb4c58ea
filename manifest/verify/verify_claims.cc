// What a manifest says and its source cannot prove, named by `verify --against` so that nobody
// takes it for proved.
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "manifest/verify/verify_source_rules.h"

namespace moepack::manifest {

namespace {

// Where a source file was read from, and how, according to the manifest; without its digest, which
// is compared.
struct ClaimedOrigin {
  std::string commit, validator;
  bool whole = false;
  std::string found;  // what the source is instead
  auto operator<=>(const ClaimedOrigin&) const = default;
};

// What a source file that is here shows of its own origin: as the same one it proves what the
// manifest says.
std::string FoundOrigin(const SourceRecord& record, const SourceFile* file) {
  if (file == nullptr) return "no such file";
  if (!file->origin) return "files of this machine";
  const Origin &claimed = *record.origin, &found = *file->origin;
  const bool hashed = !record.whole || found.sha256 == record.sha256;
  const bool same = found.url == claimed.url && found.commit == claimed.commit &&
                    found.validator == claimed.validator && hashed;
  if (same) return "";
  // Without the name of the file: all files of a source have the same.
  return Cat(Quoted(found.url.substr(0, found.url.rfind('/'))),
             found.commit.empty() ? "" : Cat(", commit ", found.commit));
}

void ClaimOrigins(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  std::map<std::string, const SourceFile*> files;
  for (const SourceFile& file : model.checkpoint().files()) files[file.name] = &file;
  std::map<ClaimedOrigin, std::vector<const SourceRecord*>> claims;
  for (const SourceRecord& record : manifest.model.source) {
    if (!record.origin) continue;
    const auto file = files.find(record.file);
    const std::string found = FoundOrigin(record, file == files.end() ? nullptr : file->second);
    if (found.empty()) continue;
    const Origin& origin = *record.origin;
    claims[{origin.commit, origin.validator, record.whole, found}].push_back(&record);
  }
  for (const auto& [claim, records] : claims) {
    const SourceRecord& first = *records.front();
    const size_t more = records.size() - 1;
    findings.Claim(Cat(
        "source file ", Quoted(first.file), more > 0 ? Cat(" and ", more, " more") : "", ": url ",
        Quoted(first.origin->url), claim.commit.empty() ? "" : Cat(", commit ", claim.commit),
        claim.validator.empty() ? "" : Cat(", ", Shown(claim.validator)), ", verified ",
        claim.whole ? "whole" : "transport", ": expected a source from there, found ",
        claim.found));
  }
}

// The fields that only the writer can state, as far as the manifest has them.
std::vector<std::string> OwnStatements(const Manifest& manifest) {
  const ModelRecord& model = manifest.model;
  std::vector<std::string> fields;
  const auto add = [&](bool there, std::string field) {
    if (there) fields.push_back(std::move(field));
  };
  add(!model.id.empty(), Cat("model.id ", Quoted(model.id)));
  add(!model.revision.empty(), Cat("model.revision ", Quoted(model.revision)));
  add(!manifest.plan.scheme.empty(), Cat("partition.scheme ", Quoted(manifest.plan.scheme)));
  for (const OverlayPlan& overlay : manifest.plan.overlays)
    add(true, Cat("overlay version ", Quoted(overlay.version)));
  for (const char* section : {"stages", "calibration"})
    add(manifest.original && manifest.original->contains(section), section);
  add(manifest.quality.has_value(), "quality.measured");
  add(manifest.refit != nullptr, "refit: method, texts and errors");
  add(!manifest.tool_version.empty(), Cat("tool.version ", Quoted(manifest.tool_version)));
  add(!manifest.command.empty(), "tool.command");
  add(manifest.created != 0, "tool.created");
  return fields;
}

std::string LicenseText(const ModelLicense& license) {
  return license.empty() ? "none" : Quoted(license.id.empty() ? license.name : license.id);
}

}  // namespace

Status ClaimUnproved(const Manifest& manifest, const MoeModel& model, RuleFindings& findings) {
  ClaimOrigins(manifest, model, findings);
  SHARD_TRY(const ModelLicense license, LicenseOf(model));
  if (license != manifest.model.license) {
    findings.Claim(Cat("model.license: expected ", LicenseText(license), " (the source), found ",
                       LicenseText(manifest.model.license)));
  }
  const std::vector<std::string> fields = OwnStatements(manifest);
  if (!fields.empty())
    findings.Claim(
        Cat("nothing proves what only the writer can state: ", moepack::Join(fields, ", ")));
  return Ok();
}

}  // namespace moepack::manifest
