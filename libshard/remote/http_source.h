// A file over HTTP as a source of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "libshard/base/byte_source.h"
#include "libshard/remote/first_range.h"
#include "libshard/remote/head_cache.h"

namespace moepack::remote {

// What the files of one tree share.
struct Transport {
  HttpClientPtr client;
  std::shared_ptr<HeadCache> heads;
};
Transport MakeTransport(HttpClientPtr client);

// What is known of a file before it is opened.
struct FilePlace {
  std::string name;  // what messages call it: without secrets
  Locate locate;
  std::optional<uint64_t> size = std::nullopt;  // as a listing has it
  std::string identity = {};                    // "" for one made of size and validator
};

class HttpSource final : public ByteSource {
 public:
  // One request, which also brings the beginning of the file: as much as the header of most files
  // of this name takes. kCorrupt when the size is not the one that is known.
  static Result<ByteSourcePtr> Open(const Transport& transport, FilePlace place);

  const std::string& name() const override { return file_.name; }
  uint64_t size() const override { return file_.size; }
  const std::string& identity() const override { return identity_; }
  bool far() const override { return true; }
  // Errors are those of ReadRange, too.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  // One request of one byte, unless the file is empty or was read whole.
  Status CheckUnchanged() const override;

 private:
  HttpSource(const Transport& transport, FilePlace place, FirstRange first);
  Status Fetch(uint64_t offset, std::span<std::byte> out) const;
  Status ReadSmall(uint64_t offset, std::span<std::byte> out) const;
  void KeepHead(const HeadBytes& head, std::span<const std::byte> more) const;

  Transport transport_;
  FilePlace place_;
  RemoteFile file_;
  std::string identity_;
  uint64_t key_;     // in the cache of heads
  HeadBytes whole_;  // of a server that may know no ranges; else null
  // Readers that go on with small steps get the bytes of a window.
  struct Window {
    std::mutex mutex;
    uint64_t offset = 0, next = 0;  // `next`: where the last small read ended
    std::vector<std::byte> bytes;
  };
  std::unique_ptr<Window> window_;
};

}  // namespace moepack::remote
