// The memory of a download: as many buffers as there are requests at once.
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

// Shared by all files of a run and by all their threads. Who holds a buffer may ask a server.
class PieceBuffers {
 public:
  PieceBuffers(size_t count, size_t bytes);

  // A buffer until it goes; move-only. The PieceBuffers outlive it.
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

  // Waits for a free buffer. There is none any more after Stop.
  std::optional<Lease> Take();
  // Ends the run: whoever waits, or asks later, gets none.
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
