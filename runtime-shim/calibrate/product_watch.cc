#include "runtime-shim/calibrate/product_watch.h"

#include <algorithm>
#include <utility>

namespace moepack::runtime {
namespace {

bool SamePlace(const MatrixPart& a, const MatrixPart& b) {
  return a.tensor == b.tensor && a.first_row == b.first_row;
}

}  // namespace

void ProductWatch::SetWeights(const Weights& weights) {
  weights_ = &weights;
  for (const HostTensor& tensor : weights.trunk) tensors_[tensor.bytes.first()] = &tensor;
}

MatrixPart ProductWatch::Find(const Matrix& weights) const {
  const auto tensor = tensors_.find(LoadedFrom(weights.buffer).first());
  if (tensor == tensors_.end() || tensor->second->format != weights.format) return {};
  return {tensor->second, weights.offset / weights.row_bytes(), weights.rows, weights.columns};
}

void ProductWatch::FindGroups() {
  Stop();
  groups_.clear();
  mode_ = Mode::kFind;
}

void ProductWatch::CollectRows() {
  Stop();
  for (InputGroup& group : groups_) {
    group.rows.clear();
    group.missing = group.calls;
  }
  mode_ = Mode::kCollect;
}

bool ProductWatch::Wants(const Matrix& weights) const {
  if (mode_ == Mode::kOff) return false;
  const MatrixPart part = Find(weights);
  return part.tensor != nullptr && pending_.contains(part.tensor);
}

void ProductWatch::Multiplied(const Matrix& weights, std::span<const float> inputs) {
  const MatrixPart part = Find(weights);
  if (mode_ == Mode::kCollect) return CollectFrom(part, inputs);
  const bool first = groups_.empty() || groups_.front().parts.front().tensor == part.tensor;
  for (InputGroup& group : groups_) {
    group.calls += SamePlace(group.parts.front(), part);
    for (const MatrixPart& known : group.parts) {
      if (SamePlace(known, part)) return;
    }
  }
  const auto same = std::find_if(groups_.begin(), groups_.end(), [&](const InputGroup& group) {
    return std::equal(group.first.begin(), group.first.end(), inputs.begin(), inputs.end());
  });
  if (same != groups_.end()) {
    same->parts.push_back(part);
  } else if (first) {
    groups_.push_back({{part}, {inputs.begin(), inputs.end()}, {}, 1, 0});
  }
}

void ProductWatch::CollectFrom(const MatrixPart& part, std::span<const float> inputs) {
  bool all = true;
  for (InputGroup& group : groups_) {
    if (SamePlace(group.parts.front(), part)) {
      group.rows.insert(group.rows.end(), inputs.begin(), inputs.end());
      group.missing -= group.missing > 0;
    }
    all = all && group.missing == 0;
  }
  skips_ = all;
}

Status ProductWatch::Put(const HostTensor& tensor, const quant::Format* format,
                         std::span<const std::byte> bytes, Executor& executor) {
  Encoded& encoded = encoded_[&tensor];
  SHARD_TRY(encoded.buffer, executor.Load(bytes));
  encoded.format = format;
  return Ok();
}

Matrix ProductWatch::InsteadOf(const Matrix& weights) const {
  if (!use_ || encoded_.empty()) return weights;
  const MatrixPart part = Find(weights);
  const auto found = encoded_.find(part.tensor);
  if (found == encoded_.end()) return weights;
  const Encoded& encoded = found->second;
  return {encoded.buffer.get(), part.first_row * *encoded.format->BytesFor(part.columns),
          encoded.format, part.rows, part.columns};
}

}  // namespace moepack::runtime
