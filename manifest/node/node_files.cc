#include "manifest/node/node_files.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {

namespace {

const PartTensor* HolderOf(std::span<const PartTensor* const> parts, uint32_t id) {
  for (const PartTensor* part : parts) {
    if (Contains(part->record->expert_ids, id)) return part;
  }
  return nullptr;
}

// True if an expert of `b` has the shape of one of `a`. REQUIRES: CheckHolds passed for both.
bool SameShapes(const PartTensor& a, const PartTensor& b) {
  const uint64_t held_a = a.record->expert_ids.size();
  const uint64_t held_b = b.record->expert_ids.size();
  const std::vector<uint64_t>& shape_a = a.entry.shape;
  const std::vector<uint64_t>& shape_b = b.entry.shape;
  return shape_a.size() == shape_b.size() &&
         std::equal(shape_a.begin() + 1, shape_a.end(), shape_b.begin() + 1) &&
         shape_a[0] / held_a == shape_b[0] / held_b;
}

std::string Where(const std::string& distribution, const PartTensor& tensor) {
  return Cat(distribution, ": tensor ", Quoted(tensor.entry.name));
}

Error WrongTensor(const fs::path& path, const std::string& tensor, std::string_view expected,
                  std::string_view found) {
  return Error{Code::kMismatch,
               Cat(path.string(), ": tensor ", Quoted(tensor), ": xxh3-128: expected ", expected,
                   ", found ", found),
               kCorruptHint};
}

Result<std::string> Xxh3OfRange(const SourceFile& source, const TensorEntry& entry,
                                ProgressCounter& progress) {
  constexpr size_t kBuffer = 1u << 20;
  SHARD_TRY(const ByteSourcePtr file, OpenUnchanged(source));
  std::vector<std::byte> buffer(std::min<uint64_t>(kBuffer, entry.bytes));
  Xxh3 hash;
  for (uint64_t at = 0; at < entry.bytes; at += kBuffer) {
    SHARD_CHECK(CheckInterrupt());
    const auto piece = std::span(buffer).first(std::min<uint64_t>(kBuffer, entry.bytes - at));
    SHARD_CHECK(file->ReadAt(entry.offset + at, piece));
    hash.Update(piece);
    progress.Add(piece.size());
  }
  return hash.Hex();
}

// A tensor can be cut by expert only if the manifest lists its experts and its first axis divides
// into as many equal parts.
Status CheckHolds(const std::string& distribution, const PartTensor& tensor) {
  const size_t held = tensor.record->expert_ids.size();
  const std::vector<uint64_t>& shape = tensor.entry.shape;
  if (held == 0) {
    return Error{Code::kMismatch,
                 Cat(Where(distribution, tensor),
                     ": experts: expected the ids that it holds in the manifest, found none"),
                 kCorruptHint};
  }
  if (!shape.empty() && shape[0] != 0 && shape[0] % held == 0) return Ok();
  return Error{Code::kMismatch,
               Cat(Where(distribution, tensor), ": shape: expected ", Plural(held, "expert"),
                   " along the first axis, found ", FormatShape(shape)),
               kCorruptHint};
}

Status CheckAlike(const std::string& distribution, const PartTensor& a, const PartTensor& b) {
  const std::string where = Where(distribution, a);
  if (a.entry.dtype != b.entry.dtype) {
    return Error{Code::kUnsupported,
                 Cat(where, ": expected one type in group and overlay, found ", a.entry.dtype,
                     " and ", b.entry.dtype),
                 "a tensor has one type: write the overlay without --overlay-type"};
  }
  if (SameShapes(a, b)) return Ok();
  return Error{
      Code::kMismatch,
      Cat(where, ": expected whole experts of one shape in group and overlay, found others"),
      kCorruptHint};
}

}  // namespace

Result<NodeFiles> OpenNodeFiles(const SourceTreePtr& distribution, const Manifest& manifest,
                                uint32_t group) {
  NodeFiles out;
  bool found_group = false;
  bool overlay = manifest.plan.overlays.empty();
  for (const BundleRecord& bundle : manifest.bundles) {
    const bool trunk = bundle.role == Role::kTrunk;
    const bool own = bundle.role == Role::kGroup && bundle.group == group;
    const bool replicated = bundle.role == Role::kOverlay;
    found_group = found_group || own;
    overlay = overlay || replicated;
    if (trunk) out.trunk_files.push_back(&bundle);
    if (!trunk && !own && !replicated) continue;
    SHARD_TRY(OpenedBundle opened,
              OpenBundle(distribution, bundle, static_cast<uint32_t>(out.sources.size())));
    out.sources.push_back(std::move(opened.source));
    std::vector<PartTensor>& tensors = trunk ? out.trunk : out.experts;
    std::move(opened.tensors.begin(), opened.tensors.end(), std::back_inserter(tensors));
  }
  if (!out.trunk_files.empty() && found_group && overlay) return out;
  return Error{Code::kNotFound,
               Cat(distribution->name(), ": ",
                   out.trunk_files.empty() ? "trunk"
                   : !found_group          ? Cat("group ", group)
                                           : "overlay",
                   ": expected a file in the manifest, found none"),
               "this distribution holds only some parts; add them with shard-experts --only"};
}

std::vector<StatedFile> ExpertFiles(const SourceTreePtr& distribution, const Manifest& manifest,
                                    uint32_t group) {
  std::vector<StatedFile> files;
  for (const BundleRecord& bundle : manifest.bundles) {
    const bool own = bundle.role == Role::kGroup && bundle.group == group;
    if (!own && bundle.role != Role::kOverlay) continue;
    files.push_back({distribution, bundle.file, bundle.size, bundle.sha256});
  }
  return files;
}

Result<uint32_t> EligibleCount(const std::string& distribution, const Plan& plan, uint32_t group) {
  const uint32_t first_layer = plan.layers.begin()->first;
  const auto count = static_cast<uint32_t>(Eligible(plan, group, first_layer).size());
  if (count == 0) {
    return Error{Code::kUnsupported, Cat(distribution, ": group ", group, ": layer ", first_layer,
                                         ": expected at least one eligible expert, found none")};
  }
  for (const auto& [layer, unused] : plan.layers) {
    const size_t eligible = Eligible(plan, group, layer).size();
    if (eligible == count) continue;
    const bool whole = IsWhole(plan, layer) || IsWhole(plan, first_layer);
    return Error{
        Code::kUnsupported,
        Cat(distribution, ": group ", group, ": expected as many eligible experts in layer ", layer,
            " as in layer ", first_layer, " (", count, "), found ", eligible),
        whole ? "a model has one expert count for all layers, and every group holds all experts of "
                "some: those that route by the token's id"
              : "a model has one expert count for all layers: plan with --uniform"};
  }
  return count;
}

Result<OutputTensor> MergeExperts(const std::string& distribution,
                                  std::span<const PartTensor* const> parts, const ExpertIds& ids) {
  const PartTensor& first = *parts[0];
  for (const PartTensor* part : parts) SHARD_CHECK(CheckHolds(distribution, *part));
  if (ids.empty()) {
    return Error{Code::kMismatch,
                 Cat(Where(distribution, first), ": layer: expected a layer of the plan, found ",
                     first.record->layer ? Cat(*first.record->layer) : "none"),
                 kCorruptHint};
  }
  OutputTensor out;
  out.entry = first.entry;
  out.entry.bytes = 0;
  out.layer = first.record->layer;
  out.expert_ids = ids;
  for (const uint32_t id : ids) {
    const PartTensor* holder = HolderOf(parts, id);
    if (holder == nullptr) {
      return Error{Code::kMismatch,
                   Cat(Where(distribution, first), ": expert ", id,
                       ": expected the experts that the plan gives this node, found others"),
                   kCorruptHint};
    }
    SHARD_CHECK(CheckAlike(distribution, first, *holder));
    const ExpertIds& held = holder->record->expert_ids;
    const auto local =
        static_cast<uint32_t>(std::lower_bound(held.begin(), held.end(), id) - held.begin());
    const auto count = static_cast<uint32_t>(held.size());
    for (const SourceRange& range : SliceAxis(holder->entry, 0, count, {local})) {
      out.sources.push_back(range);
      out.entry.bytes += range.bytes;
    }
  }
  out.entry.shape[0] = first.entry.shape[0] / first.record->expert_ids.size() * ids.size();
  return out;
}

Status CheckCopied(const std::vector<OutputFile>& files, const std::vector<FileDigests>& found,
                   const std::map<std::string, std::string>& expected,
                   const std::vector<SourceFile>& sources) {
  for (size_t f = 0; f < files.size(); ++f) {
    for (size_t t = 0; t < files[f].tensors.size(); ++t) {
      const OutputTensor& tensor = files[f].tensors[t];
      const auto stated = expected.find(tensor.entry.name);
      if (stated == expected.end() || stated->second == found[f].tensors[t]) continue;
      return WrongTensor(sources[tensor.sources[0].file].path, tensor.SourceName(), stated->second,
                         found[f].tensors[t]);
    }
  }
  return Ok();
}

Status CheckCutTensors(const std::vector<PartTensor>& tensors,
                       const std::vector<SourceFile>& sources, const PackOptions& options) {
  uint64_t total = 0;
  for (const PartTensor& tensor : tensors) total += tensor.entry.bytes;
  ProgressCounter progress(options.progress, total);
  const size_t jobs = ThreadsForFiles(options.jobs);
  return ParallelFor(tensors.size(), jobs, [&](size_t i) -> Status {
    const PartTensor& tensor = tensors[i];
    const SourceFile& source = sources[tensor.entry.file];
    SHARD_TRY(const std::string xxh3, Xxh3OfRange(source, tensor.entry, progress));
    if (xxh3 == tensor.record->xxh3) return Ok();
    return WrongTensor(source.path, tensor.entry.name, tensor.record->xxh3, xxh3);
  });
}

Result<std::string> NodeText(NodeRecord record, const std::vector<AssembleReport::File>& files,
                             const std::map<std::string, std::string>& sha256_of) {
  for (const AssembleReport::File& file : files) {
    const auto sha256 = sha256_of.find(file.name);
    record.files.push_back(
        {file.name, file.bytes, sha256 == sha256_of.end() ? std::string(64, '0') : sha256->second});
  }
  return ReadableNodeText(record);
}

}  // namespace moepack::manifest
