// Compares the head of a checkpoint with its embedding. Fine-tunes have both and differ, although
// their config still says that they are tied.
#include <algorithm>

#include "libshard/model/model.h"

namespace moepack {
namespace {

// A head that differs usually does so at once, so little is read first.
constexpr uint64_t kFirstBytes = 64 << 10, kMostBytes = 4 << 20;

Result<bool> SameBytes(const Checkpoint& checkpoint, const TensorEntry& a, const TensorEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.bytes != b.bytes) return false;
  SHARD_TRY(const ByteSourcePtr file_a, OpenUnchanged(checkpoint.files()[a.file]));
  SHARD_TRY(const ByteSourcePtr file_b, OpenUnchanged(checkpoint.files()[b.file]));
  std::vector<std::byte> bytes_a, bytes_b;
  uint64_t most = kFirstBytes;
  for (uint64_t at = 0; at < a.bytes; most = kMostBytes) {
    const uint64_t count = std::min(most, a.bytes - at);
    bytes_a.resize(count);
    bytes_b.resize(count);
    SHARD_CHECK(file_a->ReadAt(a.offset + at, bytes_a));
    SHARD_CHECK(file_b->ReadAt(b.offset + at, bytes_b));
    if (bytes_a != bytes_b) return false;
    at += count;
  }
  return true;
}

// The tensors of the table outside layers, without those that do not affect its numbers.
std::vector<const ModelTensor*> TableOf(const MoeModel& model, std::string_view role) {
  std::vector<const ModelTensor*> tensors;
  for (const ModelTensor& tensor : model.tensors()) {
    const std::string_view leaf = LeafOf(*tensor.rule, tensor.leaf);
    if (tensor.rule->role != role || tensor.layer || leaf == "bias" || !AffectsNumbers(leaf))
      continue;
    tensors.push_back(&tensor);
  }
  return tensors;
}

Result<bool> Compare(const MoeModel& model) {
  const std::vector<const ModelTensor*> embedding = TableOf(model, "embedding");
  for (const ModelTensor* head : TableOf(model, "head")) {
    bool same = false;
    for (const ModelTensor* table : embedding) {
      if (same || LeafOf(*table->rule, table->leaf) != LeafOf(*head->rule, head->leaf)) continue;
      SHARD_TRY(same, SameBytes(model.checkpoint(), model.entry(*head), model.entry(*table)));
    }
    if (!same) return true;
  }
  return false;
}

}  // namespace

Result<bool> MoeModel::HasOwnHead() const {
  if (checkpoint().names_only() || checkpoint().promised()) return false;
  const std::lock_guard lock(own_head_->mutex);
  if (!own_head_->known) {
    SHARD_TRY(own_head_->known, Compare(*this));
  }
  return *own_head_->known;
}

}  // namespace moepack
