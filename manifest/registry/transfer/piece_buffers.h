// The memory of a download: as many buffers as there are concurrent requests.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/files/scan_file.h"

namespace moepack::registry {

// Shared by all files of a run and by all their threads. The holder of a buffer may make a request.
class PieceBuffers {
 public:
  PieceBuffers(size_t count, size_t bytes);

  // Holds a buffer until it is destroyed; move-only. The PieceBuffers must outlive it.
  class Lease {
   public:
    Lease(PieceBuffers& owner, size_t index) : owner_(&owner), index_(index) {}
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    std::span<std::byte> bytes() const { return owner_->buffers_[index_].bytes(); }

   private:
    PieceBuffers* owner_;
    size_t index_;
  };

  // Waits for a free buffer. No value after Stop.
  std::optional<Lease> Take();
  // Ends the run: threads that wait, or ask later, get no value.
  void Stop();
  size_t count() const { return buffers_.size(); }
  size_t bytes() const { return bytes_; }  // of one

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t bytes_;
  bool stopped_ = false;
  std::vector<PageBuffer> buffers_;
  std::vector<size_t> free_;
};

}  // namespace moepack::registry
