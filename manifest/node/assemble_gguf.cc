#include "manifest/node/assemble_gguf.h"

#include <algorithm>
#include <map>
#include <memory>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_cut.h"
#include "libshard/format/gguf.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/read_header.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/pack/slice.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/refit/node_top_k.h"
#include "manifest/node/node_files.h"
#include "manifest/write/output_path.h"
#include "manifest/write/stated_file.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

// A file of the distribution that goes into the node unchanged.
struct LinkedFile {
  std::string name;
  const BundleRecord* bundle = nullptr;
};

// Everything about the node that is decided before a byte is written.
struct GgufNode {
  GgufMetadata metadata;
  std::vector<std::string> notes;
  uint32_t expert_count = 0;
  NodeFiles sources;
  std::vector<OutputFile> files;
  std::vector<LinkedFile> links;
  std::map<std::string, std::string> digests;  // of tensors that are copied whole
  std::string model_file;
};

std::string NameOf(const AssembleOptions& options) {
  return options.name.empty() ? "node" : options.name;
}

Result<GgufMetadata> ReadHead(const SourceTree& distribution, const Manifest& manifest) {
  for (const BundleRecord& bundle : manifest.bundles) {
    if (bundle.role != Role::kHead) continue;
    SHARD_TRY(const ByteSourcePtr file, distribution.Open(bundle.file));
    SHARD_TRY(const std::string sha256, Sha256OfStart(*file, file->size()));
    if (sha256 != bundle.sha256) {
      return Error{Code::kMismatch,
                   Cat(file->name(), ": sha256: expected ", bundle.sha256, ", found ", sha256),
                   kCorruptHint};
    }
    SHARD_TRY(GgufHeader header, ReadGgufHeader(*file, file->name()));
    return std::move(header.metadata);
  }
  return Error{Code::kNotFound,
               Cat(distribution.name(), ": head: expected a file in the manifest, found none"),
               "add it with shard-experts --only trunk"};
}

Status CutHead(const SourceTree& distribution, const Manifest& manifest, uint32_t group,
               GgufNode& node) {
  SHARD_TRY(node.expert_count, EligibleCount(distribution.name(), manifest.plan, group));
  SHARD_TRY(node.metadata, ReadHead(distribution, manifest));
  ExpertCut cut{.expert_count = node.expert_count, .eligible = {}};
  for (const auto& [layer, unused] : manifest.plan.layers) {
    cut.eligible[layer] = Eligible(manifest.plan, group, layer);
  }
  if (manifest.refit) {
    SHARD_TRY(const uint32_t top_k, NodeTopK(distribution.name(), *manifest.refit));
    if (top_k > 0) SHARD_CHECK(SetUsedExperts(distribution.name(), top_k, node.metadata));
  }
  return CutMetadata(distribution.name(), cut, node.metadata, node.notes);
}

OutputTensor WholeTensor(const PartTensor& tensor, GgufNode& node) {
  OutputTensor out;
  out.entry = tensor.entry;
  out.sources = {{tensor.entry.file, tensor.entry.offset, tensor.entry.bytes}};
  out.layer = tensor.record->layer;
  node.digests[tensor.entry.name] = tensor.record->xxh3;
  return out;
}

// Merges the packed tensors of group and overlay in ascending id, in the order of the group's file.
Result<std::vector<OutputTensor>> MergeAll(const std::string& distribution,
                                           const Manifest& manifest, uint32_t group,
                                           GgufNode& node) {
  std::map<std::string, std::vector<const PartTensor*>> by_name;
  for (const PartTensor& part : node.sources.experts) by_name[part.entry.name].push_back(&part);
  std::vector<OutputTensor> out;
  for (const PartTensor& part : node.sources.experts) {
    const std::vector<const PartTensor*>& parts = by_name[part.entry.name];
    if (parts[0] != &part) continue;
    const std::optional<uint32_t> layer = part.record->layer;
    const ExpertIds ids = layer ? Eligible(manifest.plan, group, *layer) : ExpertIds();
    SHARD_TRY(OutputTensor merged, MergeExperts(distribution, parts, ids));
    if (ids == part.record->expert_ids) node.digests[part.entry.name] = part.record->xxh3;
    out.push_back(std::move(merged));
  }
  return out;
}

void LayOutSingle(std::vector<OutputTensor> experts, const AssembleOptions& options,
                  GgufNode& node) {
  OutputFile file;
  file.path = NameOf(options) + ".gguf";
  for (const PartTensor& tensor : node.sources.trunk) {
    file.tensors.push_back(WholeTensor(tensor, node));
  }
  for (OutputTensor& tensor : experts) file.tensors.push_back(std::move(tensor));
  LayOutGguf(file, node.metadata, options.alignment);
  node.model_file = file.path;
  node.files.push_back(std::move(file));
}

GgufMetadata ExpertsMetadata(const GgufNode& node, size_t number) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(node.metadata.Architecture()));
  metadata.Set(kSplitNoKey, GgufValue::U16(static_cast<uint16_t>(number)));
  return metadata;
}

// Lays out the split set: head, the trunk's files unchanged, experts. A trunk file has split.no but
// no other split key, so it fits every node.
void LayOutSplit(std::vector<OutputTensor> experts, const AssembleOptions& options,
                 GgufNode& node) {
  const size_t tensors = node.sources.trunk.size() + experts.size();
  const ContainerCost cost = GgufCost(ExpertsMetadata(node, 0), options.alignment);
  std::vector<std::vector<OutputTensor>> lists =
      CutBySize(std::move(experts), options.max_part_size, cost);
  const size_t first_experts = 1 + node.sources.trunk_files.size();
  const size_t count = first_experts + lists.size();
  const auto file_name = [&](size_t number) {
    return GgufPartFileName(NameOf(options), static_cast<uint32_t>(number),
                            static_cast<uint32_t>(count));
  };
  OutputFile head;
  head.path = node.model_file = file_name(0);
  SetSplitKeys(0, count, tensors, node.metadata);
  LayOutGguf(head, node.metadata, options.alignment);
  node.files.push_back(std::move(head));
  for (size_t i = 0; i < node.sources.trunk_files.size(); ++i) {
    const BundleRecord& trunk = *node.sources.trunk_files[i];
    node.links.push_back({file_name(i + 1), &trunk});
  }
  for (size_t i = 0; i < lists.size(); ++i) {
    OutputFile file;
    file.path = file_name(first_experts + i);
    file.tensors = std::move(lists[i]);
    LayOutGguf(file, ExpertsMetadata(node, first_experts + i), options.alignment);
    node.files.push_back(std::move(file));
  }
}

Result<GgufNode> PlanNode(const SourceTreePtr& distribution, const Manifest& manifest,
                          const AssembleOptions& options) {
  GgufNode node;
  SHARD_CHECK(CutHead(*distribution, manifest, options.group, node));
  SHARD_TRY(node.sources, OpenNodeFiles(distribution, manifest, options.group));
  SHARD_TRY(std::vector<OutputTensor> experts,
            MergeAll(distribution->name(), manifest, options.group, node));
  if (options.layout == NodeLayout::kSingle) {
    LayOutSingle(std::move(experts), options, node);
  } else {
    LayOutSplit(std::move(experts), options, node);
  }
  return node;
}

AssembleReport Describe(const GgufNode& node) {
  AssembleReport report;
  for (const OutputFile& file : node.files) report.files.push_back({file.path, file.size});
  for (const LinkedFile& link : node.links) {
    report.files.push_back({link.name, link.bundle->size});
  }
  std::sort(report.files.begin(), report.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  report.expert_count = node.expert_count;
  report.notes = node.notes;
  report.model_file = node.model_file;
  return report;
}

Result<LinkKind> PlaceFile(const SourceTree& distribution, const LinkedFile& link,
                           const InsideDirectory& directory, const LinkOptions& how) {
  if (const auto path = distribution.LocalPath(link.bundle->file))
    return LinkFile(*path, directory, link.name, how);
  SHARD_TRY(const ByteSourcePtr source, distribution.Open(link.bundle->file));
  return LinkFile(*source, directory, link.name, how);
}

// The bytes of files that cannot be linked into the output.
uint64_t CopiedBytes(const SourceTree& distribution, const GgufNode& node, const std::string& out,
                     const AssembleOptions& options) {
  uint64_t bytes = 0;
  for (const LinkedFile& link : node.links) {
    const auto path = distribution.LocalPath(link.bundle->file);
    if (!path || WillCopy(*path, out, options.link.value_or(LinkKind::kAuto)))
      bytes += link.bundle->size;
  }
  return bytes;
}

// Links the trunk into the staged node, then compares it, and the files that experts were taken
// from, with the manifest. A hard link changes the times in its source's inode, which packing would
// treat as a change of the source, so linking comes after packing.
Status LinkFiles(const SourceTreePtr& distribution, const GgufNode& node, StagingDirectory& staging,
                 const AssembleOptions& options, std::vector<StatedFile> stated,
                 AssembleReport& report) {
  const LinkOptions how{options.link.value_or(LinkKind::kAuto), staging.target()};
  for (const LinkedFile& link : node.links) {
    const fs::path to = staging.path() / link.name;
    staging.Expect(link.name);
    SHARD_CHECK(staging.files().Remove(link.name));  // left by an earlier run that was killed
    SHARD_TRY(const LinkKind used, PlaceFile(*distribution, link, staging.files(), how));
    // A symlink dangles until the node is in its place, so its target is checked instead.
    stated.push_back({distribution, link.bundle->file, link.bundle->size, link.bundle->sha256,
                      used == LinkKind::kSymlink ? fs::path() : to});
    for (AssembleReport::File& file : report.files) {
      if (file.name == link.name) file.link = LinkName(used);
    }
  }
  return CheckFileDigests(stated, options.pack);
}

std::map<std::string, std::string> DigestsOf(const GgufNode& node, const PackResult& packed) {
  std::map<std::string, std::string> digests;
  for (size_t i = 0; i < node.files.size(); ++i) {
    digests[node.files[i].path] = packed.files[i].sha256;
  }
  for (const LinkedFile& link : node.links) digests[link.name] = link.bundle->sha256;
  return digests;
}

}  // namespace

Result<AssembleReport> AssembleGgufNode(const SourceTreePtr& distribution, const Manifest& manifest,
                                        const NodeRecord& record, const std::string& out,
                                        const AssembleOptions& options) {
  SHARD_TRY(GgufNode node, PlanNode(distribution, manifest, options));
  std::vector<fs::path> inputs;
  for (const SourceFile& file : node.sources.sources) inputs.push_back(file.path);
  if (const auto directory = distribution->LocalPath(""))
    SHARD_CHECK(CheckOutsideDistribution(out, directory->string(), inputs));
  SHARD_CHECK(CheckReplaceable(out, options.force || options.dry_run));
  AssembleReport report = Describe(node);
  const std::vector<AssembleReport::File> files = report.files;
  SHARD_TRY(const std::string planned, NodeText(record, files, {}));
  report.files.push_back({kNodeFile, planned.size()});
  if (options.dry_run) return report;

  const std::string identity = PackIdentity(node.sources.sources, node.files);
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Start(out, identity, OwnOutput()));
  PackOptions pack = options.pack;
  pack.copied_later = CopiedBytes(*distribution, node, out, options);
  SHARD_TRY(const PackResult packed, Pack(node.sources.sources, node.files, staging, pack));
  SHARD_CHECK(LinkFiles(distribution, node, staging, options,
                        ExpertFiles(distribution, manifest, options.group), report));
  SHARD_CHECK(CheckCopied(node.files, packed.files, node.digests, node.sources.sources));
  SHARD_TRY(const std::string text, NodeText(record, files, DigestsOf(node, packed)));
  SHARD_CHECK(staging.WriteText(kNodeFile, text));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::manifest
