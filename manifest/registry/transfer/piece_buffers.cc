#include "manifest/registry/transfer/piece_buffers.h"

#include <utility>

namespace moepack::registry {

PieceBuffers::PieceBuffers(size_t count, size_t bytes) : bytes_(bytes) {
  for (size_t i = 0; i < count; ++i) {
    buffers_.emplace_back(bytes);
    free_.push_back(i);
  }
}

PieceBuffers::Lease::Lease(Lease&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), index_(other.index_) {}

PieceBuffers::Lease::~Lease() {
  if (owner_ == nullptr) return;
  {
    const std::lock_guard lock(owner_->mutex_);
    owner_->free_.push_back(index_);  // never allocates: there was room for all
  }
  owner_->changed_.notify_one();
}

std::optional<PieceBuffers::Lease> PieceBuffers::Take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || !free_.empty(); });
  if (stopped_) return std::nullopt;
  const size_t index = free_.back();
  free_.pop_back();
  return std::optional<Lease>(std::in_place, *this, index);
}

void PieceBuffers::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

}  // namespace moepack::registry
