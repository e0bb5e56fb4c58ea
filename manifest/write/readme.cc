#include <algorithm>
#include <optional>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/write/bundle.h"
#include "manifest/write/card_sections.h"
#include "manifest/write/front_matter.h"
#include "manifest/write/weights_section.h"

namespace moepack::manifest {
namespace {

constexpr uint64_t kMaxReadme = 64u << 20;

std::string PartRow(const Manifest& manifest, const PartKey& part, const std::string& name) {
  uint64_t bytes = 0;
  std::string files;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (PartOf(bundle) != part) continue;
    bytes += bundle.size;
    files += Cat(files.empty() ? "" : ", ", MarkdownCode(bundle.file));
  }
  if (bytes == 0) return "";
  return Cat("| ", name, " | ", files, " | ", FormatBytes(bytes), " |\n");
}

size_t CountFiles(const Manifest& manifest, Role role) {
  return static_cast<size_t>(
      std::count_if(manifest.bundles.begin(), manifest.bundles.end(),
                    [&](const BundleRecord& bundle) { return bundle.role == role; }));
}

// "5", or "5 to 7" if groups or layers differ.
std::string EligibleCounts(const Plan& plan, size_t group) {
  size_t least = SIZE_MAX;
  size_t most = 0;
  for (const auto& [layer, expert_count] : plan.layers) {
    const size_t count = Eligible(plan, group, layer).size();
    least = std::min(least, count);
    most = std::max(most, count);
  }
  return least == most ? Cat(most) : Cat(least, " to ", most);
}

std::string NodeTable(const Manifest& manifest) {
  const Plan& plan = manifest.plan;
  const uint64_t everywhere =
      manifest.BytesOf(Role::kHead) + manifest.BytesOf(Role::kTrunk) + manifest.BytesOfOverlay();
  std::string out =
      "| node | experts its routers may pick, per layer | bytes |\n| --- | --- | --- |\n";
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    const uint64_t own = manifest.BytesOf(Role::kGroup, g);
    if (own == 0) continue;
    out +=
        Cat("| ", g, " | ", EligibleCounts(plan, g), " | ", FormatBytes(everywhere + own), " |\n");
  }
  return out;
}

// The first group that exists here: the one used in the examples.
uint32_t ExampleGroup(const Manifest& manifest) {
  uint32_t group = 0;
  while (group + 1 < manifest.plan.groups.size() && manifest.BytesOf(Role::kGroup, group) == 0)
    ++group;
  return manifest.BytesOf(Role::kGroup, group) == 0 ? 0 : group;
}

std::string LeadText(const Manifest& manifest) {
  const ModelRecord& model = manifest.model;
  const OverlayPlan* overlay = manifest.plan.current_overlay();
  const char* experts = overlay == nullptr
                            ? " and one group of experts"
                            : ", one group of experts and the overlay, the experts that every node "
                              "has";
  std::string out = Cat(
      "Made by moepack ", MarkdownText(manifest.tool_version), " from a ",
      MarkdownText(model.architecture), " (family ", MarkdownText(model.family), ", ",
      Plural(model.moe_layers.size(), "layer"), " with experts, ",
      FormatParameters(model.parameters_total), " parameters, ",
      FormatParameters(model.parameters_active),
      " active), so that several machines serve it without traffic between them. Every node holds "
      "the trunk (embeddings, attention, norms, routers, shared experts, head)",
      experts,
      ". A session stays on one node, whose routers pick only among the experts it holds.\n\n");
  out += Cat("- model version ", MarkdownCode(manifest.versions.model), ", partition ",
             MarkdownCode(manifest.versions.shard));
  if (overlay != nullptr) {
    out += Cat(", overlay ", MarkdownCode(overlay->version), " (",
               MarkdownCode(manifest.versions.replica), ")");
  }
  if (manifest.refit) out += Cat(", refit ", MarkdownCode(manifest.versions.refit));
  if (!manifest.recipe.name.empty()) out += Cat("\n- types: ", MarkdownText(manifest.recipe.name));
  if (!manifest.recipe.imatrix_file.empty())
    out += Cat(", importance matrix ", MarkdownText(manifest.recipe.imatrix_file));
  for (const AssetRecord& asset : manifest.assets) {
    if (asset.file.starts_with("assets/LICEN"))
      out += Cat("\n- license of the model: ", MarkdownCode(asset.file));
  }
  if (!manifest.complete)
    out += "\n- parts are missing here on purpose: see `complete` in the manifest";
  return out + "\n";
}

// Two ways to get a node: here, where all files are, and elsewhere.
std::string UseText(const Manifest& manifest) {
  const uint32_t group = ExampleGroup(manifest);
  const std::string node = Cat("node-", group);
  const std::string first =
      Cat(node, "/node-00001-of-", ZeroPadded(CountFiles(manifest, Role::kTrunk) + 2, 5), ".gguf");
  std::string out =
      Cat("\n## Run a node\n\nIn a directory with these files:\n\n```\n"
          "moepack verify .                            # check every digest\n"
          "moepack assemble . --group ",
          group, " -o ../", node, "  # one node as a model directory\n");
  if (manifest.is_gguf()) out += Cat("llama-server -m ../", first, "\n");
  out +=
      Cat("```\n\nElsewhere, with only the files of one node, where REF is the place that this was "
          "published at (`hf://owner/name`, `oci://host/repository:tag`):\n\n```\nmoepack pull REF "
          "--group ",
          group, " -o pulled --assemble ", node, "\n");
  if (manifest.is_gguf()) out += Cat("llama-server -m ", first, "\n");
  out += "```\n";
  if (manifest.is_gguf()) out += "\n`llama-server` is that of an unmodified llama.cpp.\n";
  return out;
}

// If there are several versions side by side, nodes get the current one.
std::string OverlayName(const Plan& plan, const OverlayPlan& overlay) {
  if (plan.overlays.size() == 1) return "overlay";
  const bool current = &overlay == plan.current_overlay();
  return Cat("overlay ", MarkdownCode(overlay.version), current ? " (current)" : "");
}

std::string FilesText(const Manifest& manifest) {
  std::string out = "\n## Files\n\n| part | files | bytes |\n| --- | --- | --- |\n";
  out += PartRow(manifest, {Role::kHead}, "metadata");
  out += PartRow(manifest, {Role::kTrunk}, "trunk");
  out += PartRow(manifest, {Role::kRouters}, "routers, whole");
  for (uint32_t g = 0; g < manifest.plan.groups.size(); ++g) {
    out += PartRow(manifest, {Role::kGroup, g}, Cat("group ", g));
  }
  for (const OverlayPlan& overlay : manifest.plan.overlays)
    out += PartRow(manifest, {Role::kOverlay, std::nullopt, overlay.version},
                   OverlayName(manifest.plan, overlay));
  out += PartRow(manifest, {Role::kRemainder}, "remainder");
  return out +
         "\n`distribution.json` describes every tensor with its digest; `assets/` holds config and "
         "tokenizer.\n\n## Nodes\n\n" +
         NodeTable(manifest);
}

std::vector<std::string> Sections(const Manifest& manifest) {
  const ModelRecord& model = manifest.model;
  const std::string name = model.id.empty() ? model.family : model.id;
  const std::string title = Cat("# ", MarkdownText(name), ", split into ",
                                manifest.plan.groups.size(), " expert groups\n\n");
  return {FrontMatter(manifest),  title,
          LeadText(manifest),     UseText(manifest),
          FilesText(manifest),    WeightsText(manifest),
          MeasuredText(manifest), ProvenanceText(manifest)};
}

void ReplaceAll(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// An edited README.md with the sections that changed; no value if one of them was edited itself.
// The digest of the manifest is replaced wherever it is.
std::optional<std::string> WithNewSections(std::string text, const Manifest& before,
                                           const Manifest& after) {
  const std::string old_digest = ManifestDigest(before), new_digest = ManifestDigest(after);
  ReplaceAll(text, old_digest, new_digest);
  const std::vector<std::string> from = Sections(before), to = Sections(after);
  for (size_t i = 0; i < from.size(); ++i) {
    std::string old = from[i];
    ReplaceAll(old, old_digest, new_digest);
    if (old == to[i]) continue;
    const size_t at = old.empty() ? text.size() : text.find(old);
    if (at == text.npos) return std::nullopt;
    text.replace(at, old.size(), to[i]);
  }
  return text;
}

}  // namespace

std::string DistributionReadme(const Manifest& manifest) {
  return moepack::Join(Sections(manifest), "");
}

UpdatedReadme UpdateReadme(const InsideDirectory& directory, const Manifest& before,
                           const Manifest& after) {
  std::string text = DistributionReadme(after);
  if (!ReadmeIsEdited(directory, {text, DistributionReadme(before)})) return {std::move(text)};
  const Result<std::string> there = directory.ReadText(kReadmeFile, kMaxReadme);
  if (!there) return {std::nullopt, true, false};
  UpdatedReadme updated{WithNewSections(*there, before, after), true};
  updated.shows_changes = updated.text.has_value();
  return updated;
}

bool ReadmeIsEdited(const InsideDirectory& directory, const std::vector<std::string>& own) {
  const auto kind = directory.KindOf(kReadmeFile);
  if (kind && *kind == InsideDirectory::Kind::kNothing) return false;
  const Result<std::string> there = directory.ReadText(kReadmeFile, kMaxReadme);
  return !there || std::find(own.begin(), own.end(), *there) == own.end();
}

std::string StaleReadmeWarning(const std::string& path) {
  return Cat(path,
             ": it was edited and stays as it is, so it does not say what changed: remove it and "
             "run the same command again for a new one");
}

}  // namespace moepack::manifest
