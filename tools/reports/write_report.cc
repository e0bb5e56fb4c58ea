#include "tools/reports/write_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/table.h"
#include "tools/options/quantize_options.h"
#include "tools/reports/node_report.h"
#include "tools/reports/planning/type_report.h"

namespace moepack::cli {
namespace {

Json GroupOrNull(std::optional<uint32_t> group) { return group ? Json(*group) : Json(nullptr); }

uint64_t TotalBytes(const manifest::Manifest& manifest) {
  uint64_t bytes = 0;
  for (const manifest::BundleRecord& bundle : manifest.bundles) bytes += bundle.size;
  for (const manifest::AssetRecord& asset : manifest.assets) bytes += asset.size;
  return bytes;
}

std::string WrittenFiles(const manifest::Manifest& manifest) {
  Table table({"file", ">tensors", ">bytes", "sha256"});
  for (const manifest::BundleRecord& bundle : manifest.bundles) {
    table.Row({bundle.file, FormatCount(bundle.tensors.size()), FormatCount(bundle.size),
               bundle.sha256.substr(0, 16)});
  }
  for (const manifest::AssetRecord& asset : manifest.assets) {
    table.Row({asset.file, "-", FormatCount(asset.size), asset.sha256.substr(0, 16)});
  }
  return table.Render();
}

// The bits per weight in each part of GGUF bundles; "" for bundles whose bytes are the source's.
std::string BitsByPart(const std::vector<OutputFile>& files) {
  std::map<Role, std::pair<uint64_t, uint64_t>> parts;  // weights and bytes
  for (const OutputFile& file : files) {
    for (const OutputTensor& tensor : file.tensors) {
      parts[file.role].first += tensor.entry.Elements();
      parts[file.role].second += tensor.entry.bytes;
    }
  }
  Table table({"part", ">weights", ">bytes", ">bits per weight"});
  for (const auto& [role, sizes] : parts) {
    const double bits = 8.0 * static_cast<double>(sizes.second) /
                        static_cast<double>(std::max<uint64_t>(1, sizes.first));
    table.Row({std::string(RoleName(role)), FormatCount(sizes.first), FormatCount(sizes.second),
               FixedPoint(bits)});
  }
  return table.Render() + "\n";
}

}  // namespace

std::string WrittenLine(const WriteOutcome& outcome) {
  const manifest::Manifest& manifest = outcome.report.manifest;
  const PackResult& pack = outcome.report.pack;
  std::string text =
      Cat("wrote ", FormatBytes(pack.written_bytes), " in ", FormatElapsed(outcome.seconds), " (",
          FormatRate(pack.written_bytes, outcome.seconds), ")");
  if (pack.resumed_bytes > 0)
    text += Cat(", kept ", FormatBytes(pack.resumed_bytes), " of an earlier run");
  text += Cat("; ", Shown(outcome.out), " holds ", ExactBytes(TotalBytes(manifest)));
  return manifest.complete ? text : text + "; not complete, some parts were left out";
}

std::string WrittenText(const WriteOutcome& outcome) {
  const manifest::Manifest& manifest = outcome.report.manifest;
  std::string text = WrittenFiles(manifest) + "\n";
  const PartBytes bytes = BytesOfManifest(manifest);
  if (manifest.complete) text += NodeTable(manifest.plan, &bytes) + "\n";
  return Cat(text, WrittenLine(outcome), "\ndistribution.json sha256:", ManifestDigest(manifest),
             "\n");
}

Json WrittenJson(const WriteOutcome& outcome) {
  const manifest::Manifest& manifest = outcome.report.manifest;
  Json files = Json::array();
  for (const manifest::BundleRecord& bundle : manifest.bundles) {
    files.push_back({{"file", bundle.file},
                     {"role", RoleName(bundle.role)},
                     {"group", GroupOrNull(bundle.group)},
                     {"tensors", bundle.tensors.size()},
                     {"bytes", bundle.size},
                     {"sha256", bundle.sha256}});
  }
  for (const manifest::AssetRecord& asset : manifest.assets) {
    files.push_back({{"file", asset.file},
                     {"role", "asset"},
                     {"group", nullptr},
                     {"bytes", asset.size},
                     {"sha256", asset.sha256}});
  }
  const PartBytes bytes = BytesOfManifest(manifest);
  return {{"output", outcome.out},
          {"dry_run", false},
          {"complete", manifest.complete},
          {"versions",
           {{"model", manifest.versions.model},
            {"shard", manifest.versions.shard},
            {"replica", manifest.versions.replica},
            {"refit", manifest.versions.refit}}},
          {"manifest_sha256", ManifestDigest(manifest)},
          {"files", std::move(files)},
          {"bytes", TotalBytes(manifest)},
          {"nodes", NodesToJson(manifest.plan, &bytes)},
          {"grid", GridJson(outcome.report.pack)},
          {"read_bytes", outcome.report.pack.read_bytes},
          {"written_bytes", outcome.report.pack.written_bytes},
          {"resumed_bytes", outcome.report.pack.resumed_bytes},
          {"seconds", outcome.seconds}};
}

std::string DryRunLine(const DryRun& run) {
  return Cat("would write ", ExactBytes(run.files.total_bytes()), " to ", Shown(run.out),
             ", and distribution.json and README.md");
}

std::string DryRunText(const DryRun& run) {
  Table table({"file", ">tensors", ">bytes"});
  for (const OutputFile& file : run.files.files) {
    table.Row({file.path, FormatCount(file.tensors.size()), FormatCount(file.size)});
  }
  for (const manifest::Asset& asset : run.files.assets) {
    table.Row({"assets/" + asset.name, "-", FormatCount(asset.size)});
  }
  const PartBytes bytes = BytesOfFiles(run.files.files, run.plan);
  const std::string types = run.files.types.empty() ? "" : TypeTable(run.files.types) + "\n";
  return Cat(types, table.Render(), "\n",
             run.files.recipe.name.empty() ? "" : BitsByPart(run.files.files),
             NodeTable(run.plan, &bytes), "\n", DryRunLine(run), "\n",
             run.needs ? CalibrateNeedsText(*run.needs) : "", FetchText(run.fetch));
}

Json DryRunJson(const DryRun& run) {
  Json files = Json::array();
  for (const OutputFile& file : run.files.files) {
    files.push_back({{"file", file.path},
                     {"role", RoleName(file.role)},
                     {"group", GroupOrNull(file.group)},
                     {"tensors", file.tensors.size()},
                     {"bytes", file.size}});
  }
  for (const manifest::Asset& asset : run.files.assets) {
    files.push_back({{"file", "assets/" + asset.name},
                     {"role", "asset"},
                     {"group", nullptr},
                     {"bytes", asset.size}});
  }
  const PartBytes bytes = BytesOfFiles(run.files.files, run.plan);
  Json document = {{"output", run.out},
                   {"dry_run", true},
                   {"files", std::move(files)},
                   {"bytes", run.files.total_bytes()},
                   {"fetch", FetchJson(run.fetch)},
                   {"nodes", NodesToJson(run.plan, &bytes)}};
  if (!run.files.types.empty()) document["tensors"] = TypesJson(run.files.types);
  if (run.needs) document["calibration"] = CalibrateNeedsJson(*run.needs);
  return document;
}

}  // namespace moepack::cli
