// What a manifest says and its source cannot prove, named by `verify --against` so that nobody
// takes it for proved.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"
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

// Fields that are kept without being known, and that have a name of their own among the claims.
bool IsNamedAlone(const std::string& path) {
  for (const char* named :
       {"stages", "calibration", "quality", "routing.placement", "tool.name", "tool.parents"}) {
    if (path == named) return true;
  }
  return false;
}

// Names what `kept` has and `known` does not. Records of a list share their names.
void NameUnknown(const Json& kept, const Json& known, const std::string& prefix,
                 std::set<std::string>& names) {
  for (const auto& [key, value] : kept.items()) {
    const std::string path = Cat(prefix, key);
    if (IsNamedAlone(path)) continue;
    const bool list = value.is_array() && RecordKey(value.empty() ? Json() : value[0]) != nullptr;
    const Json* const found = FieldIndex(known).Find(key);
    if (value.is_object() && found != nullptr) {
      NameUnknown(value, *found, Cat(path, "."), names);
    } else if (list && (found != nullptr || key == "bundles" || key == "tensors")) {
      for (const Json& record : value) {
        if (RecordKey(record) == nullptr) continue;
        const Json named = {{RecordKey(record), nullptr}};
        NameUnknown(record, named, Cat(path, "[]."), names);
      }
    } else if (found == nullptr) {
      names.insert(path);
    }
  }
}

// "and the unknown fields a, tool.b": a document may have any number of them.
std::string UnknownFieldsText(const Manifest& manifest) {
  constexpr size_t kNamed = 8;
  Json known = HeadToJson(manifest);
  known.update(TailToJson(manifest));
  std::set<std::string> names;
  NameUnknown(*manifest.original, known, "", names);
  if (names.empty()) return "";
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kNamed) break;
    shown.push_back(Shown(name));
  }
  const size_t more = names.size() - shown.size();
  return Cat(names.size() == 1 ? "unknown field " : "unknown fields ", moepack::Join(shown, ", "),
             more > 0 ? Cat(" and ", more, " more") : "");
}

// What a kept section says; null if there is none.
const Json* Kept(const Manifest& manifest, const char* section, const char* field) {
  if (!manifest.original) return nullptr;
  const Json* const found = FieldIndex(*manifest.original).Find(section);
  return found == nullptr ? nullptr : FieldIndex(*found).Find(field);
}

std::string ToolName(const Manifest& manifest) {
  const Json* const other = Kept(manifest, "tool", "name");
  if (other == nullptr) return Quoted("moepack");
  return other->is_string() ? Quoted(other->get<std::string>()) : DescribeJson(*other);
}

std::string PlacementText(const Manifest& manifest) {
  return Cat("routing.placement with the rule ",
             Quoted(RoutingToJson(manifest)["placement"]["rule"].get<std::string>()));
}

// Names the fields of a record that only the writer can state, with their text.
template <class Record>
void AddStatements(std::span<const Field<Record>> table, const char* prefix, const Record& record,
                   std::vector<std::string>& names) {
  for (const Field<Record>& field : table) {
    if (field.proof != Proof::kNone || !field.form.is_set(record)) continue;
    const Json value = field.form.write(record);
    names.push_back(
        Cat(prefix, field.name, value.is_string() ? Cat(" ", DescribeJson(value)) : ""));
  }
}

// The fields that only the writer can state, as far as the manifest has them.
std::vector<std::string> OwnStatements(const Manifest& manifest) {
  std::vector<std::string> fields;
  const auto add = [&](bool there, std::string field) {
    if (there) fields.push_back(std::move(field));
  };
  AddStatements(ModelFields(), "model.", manifest.model, fields);
  add(!manifest.plan.scheme.empty(), Cat("partition.scheme ", Quoted(manifest.plan.scheme)));
  for (const OverlayPlan& overlay : manifest.plan.overlays)
    add(true, Cat("overlay version ", Quoted(overlay.version),
                  overlay.parent.empty() ? "" : Cat(" with parent ", Quoted(overlay.parent))));
  add(!manifest.plan.uniform, "partition.uniform false");
  add(!manifest.complete, "complete false");
  add(true, PlacementText(manifest));
  for (const char* section : {"stages", "calibration"})
    add(manifest.original && manifest.original->contains(section), section);
  add(manifest.quality.has_value(), "quality.measured");
  if (const Json* quality =
          manifest.original ? FieldIndex(*manifest.original).Find("quality") : nullptr) {
    for (const auto& [key, value] : quality->items())
      add(key != "measured", Cat("quality.", Shown(key)));
  }
  add(manifest.refit != nullptr, "refit: method, texts and errors");
  add(manifest.calibrated != nullptr, "calibrated: method, texts and errors");
  add(true, Cat("tool.name ", ToolName(manifest)));
  AddStatements<ManifestHead>(ToolFields(), "tool.", manifest, fields);
  add(Kept(manifest, "tool", "parents") != nullptr, "tool.parents[].manifest_sha256");
  if (manifest.original) {
    const std::string unknown = UnknownFieldsText(manifest);
    add(!unknown.empty(), unknown);
  }
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
    findings.Claim(Cat("the source cannot prove these statements of the writer: ",
                       moepack::Join(fields, ", ")));
  return Ok();
}

}  // namespace moepack::manifest
